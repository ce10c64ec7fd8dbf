"""The division of a budget: what each part of a fit may use."""

from __future__ import annotations

from dataclasses import dataclass, replace

from streamgp.budget import format_size
from streamgp.inference.local.heads import COLUMNS
from streamgp.passes.block_store import block_sites_bytes, block_store_bytes
from streamgp.passes.regroup import runs_bytes
from streamgp.passes.scratch import GENERATIONS, files_bytes, scratch_bytes
from streamgp.selection.grouping import Sizes
from streamgp.training.plan.demand import Demand
from streamgp.training.plan.sizes import (
    block_bytes,
    candidate_bytes,
    criterion_bytes,
    pass_model_bytes,
    reserve,
    set_aside,
    span_bytes,
)

MOST_CANDIDATES = 50_000
"""More would cost time and not change the selection: unless all rows fit, no more are kept."""


@dataclass(frozen=True)
class MemoryPlan:
    """The division of a budget. ``str(plan)`` is a table for people."""

    budget: int
    n_active: int
    n_candidates: int
    rows_per_block: int
    span_rows: int
    tasks_in_flight: int
    model_bytes: int
    pass_model_bytes: int
    candidate_bytes: int
    task_bytes: int
    candidate_share: int
    demand: Demand
    threads: int

    def tasks_at(self, itemsize: int) -> int:
        """Tasks in flight for passes in a precision: float32 needs less."""
        demand = replace(self.demand, itemsize=itemsize)
        task = span_bytes(demand.rows, self.span_rows) + block_bytes(demand, self.rows_per_block)
        room = self.budget - set_aside(demand, self.budget) - pass_model_bytes(demand) - self.candidate_share
        return max(1, min(self.threads, room // task))

    @property
    def criterion_workers(self) -> int:
        """Threads that the criterion may use beside the candidates; their number does not change its bits."""
        room = self.budget - set_aside(self.demand, self.budget) - self.candidate_share
        fitting = [n for n in range(1, self.threads + 1) if criterion_bytes(self.demand, n) <= room]
        return max(fitting, default=1)

    def candidates_at(self, n_active: int, itemsize: int = 8) -> int:
        """Candidates that fit while the active set grows to ``n_active``: |J| d ≤ B [IVM2006] section 3.2."""
        most = self.candidate_share // candidate_bytes(self.demand, n_active, itemsize)
        n_rows = self.demand.rows.n_rows
        return n_rows if most >= n_rows else min(most, MOST_CANDIDATES)

    @property
    def free_bytes(self) -> int:
        """What neither the posterior nor the tasks of a pass use: for rows that a stage holds beside them."""
        passing = self.pass_model_bytes + self.tasks_in_flight * self.task_bytes + self._ahead_bytes
        return self.budget - set_aside(self.demand, self.budget) - passing

    @property
    def read_ahead(self) -> int:
        """Tasks that may read while all others compute, as far as the budget has room for their rows."""
        room = (self.budget - self.total_bytes) // span_bytes(self.demand.rows, self.span_rows)
        return max(0, min(self.tasks_in_flight, room))

    @property
    def _ahead_bytes(self) -> int:
        return self.read_ahead * span_bytes(self.demand.rows, self.span_rows)

    def head_groups(self) -> list[range]:
        """Heads (or joint classes) whose matrices are held at the same time in a sweep over all rows."""
        every, size = range(self.demand.n_functions), max(1, self.demand.n_at_once)
        return [every[start : start + size] for start in range(0, len(every), size)]

    @property
    def site_columns(self) -> int:
        """Numbers of a row and head on disk: its site, and for joint classes in groups its marginal."""
        return 4 if self.demand.joint_spread and len(self.head_groups()) > 1 else 2

    @property
    def block_sizes(self) -> Sizes:
        """Sizes of blocks of near rows."""
        assert self.demand.block_sizes is not None
        return self.demand.block_sizes

    @property
    def group_rows(self) -> int:
        """Rows of a group of blocks."""
        return self.demand.group_rows

    @property
    def spare_bytes(self) -> int:
        """What is left of the budget: local blocks hold rows to be predicted there, and heads used before."""
        return max(0, self.budget - self.total_bytes - self._ahead_bytes)

    @property
    def scratch_bytes(self) -> int:
        """Bytes on disk for the sites of all rows, and for rows in blocks."""
        demand = self.demand
        if demand.block_sizes is None:
            with_sites = demand.n_heads if demand.n_at_once > 0 else 0
            if demand.joint_classes:
                with_sites = demand.joint_classes if demand.joint_spread else 0
            return scratch_bytes(demand.rows.n_rows, with_sites, self.site_columns)
        groups = demand.n_places, demand.group_rows
        shape = demand.rows.n_features, demand.rows.features.dtype.itemsize
        sizes = self.block_sizes.target, self.span_rows
        centres, spans = (-(-demand.rows.n_rows // size) for size in sizes)
        final = block_sites_bytes(*groups, demand.n_heads)
        swept = GENERATIONS * files_bytes(*groups, 8 * COLUMNS * demand.n_heads, 2)
        runs = runs_bytes(demand.rows.n_rows, spans, centres, *shape)
        return block_store_bytes(*groups, *shape) + max(final + swept, runs)

    @property
    def total_bytes(self) -> int:
        """Upper bound of what will be in use at once, beside Python and its libraries."""
        passing = self.pass_model_bytes + self.tasks_in_flight * self.task_bytes
        largest = max(self.model_bytes, passing, criterion_bytes(self.demand, 1))
        return largest + self.candidate_bytes + set_aside(self.demand, self.budget)

    def __str__(self) -> str:
        """A table: what, how much of it, bytes."""
        demand = self.demand
        at_once = f"{demand.n_at_once} heads at once" if 0 < demand.n_at_once < demand.n_functions else ""
        what = "sites of all rows" if demand.block_sizes is None else "rows in blocks, sites"
        scratch = [(f"{what}, on disk", "", self.scratch_bytes)] if self.scratch_bytes else []
        rows = [("weights, rows held out by number", "", demand.row_bytes)] if demand.row_bytes else []
        lines = [
            ("active set: inputs, factors", f"{self.n_active} rows", self.model_bytes),
            ("or, in passes, the posterior", at_once, self.pass_model_bytes),
            (
                f"  and tasks: {self.span_rows} rows read, {self.rows_per_block} at a time",
                f"{self.tasks_in_flight} in flight",
                self.tasks_in_flight * self.task_bytes,
            ),
            ("candidates J: inputs, stubs M", f"{self.n_candidates} rows", self.candidate_bytes),
            *rows,
            ("reserve", "", reserve(self.budget)),
            ("in all", "", self.total_bytes),
            ("budget", "", self.budget),
            *scratch,
        ]
        return "\n".join(f"{what:<46}{count:>16}{format_size(size):>12}" for what, count, size in lines)
