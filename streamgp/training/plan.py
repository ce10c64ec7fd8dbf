"""Where the memory goes, settled before the first read.

The budget B bounds everything that grows with the data, the active set or the number of threads. Rows per
block, rows per span and the number of candidates follow from B and the store alone, so that threads and
workers change the speed of a fit and never its result: they decide only how many tasks are in flight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from streamgp.budget import format_size
from streamgp.data import Rows, Standardizer
from streamgp.errors import BudgetError
from streamgp.inference.criterion import TILE_ROWS
from streamgp.inference.criterion import workspace_bytes as criterion_bytes
from streamgp.inference.inducing.heads import heads_bytes, inducing_bytes
from streamgp.inference.inducing.mode import mode_block_bytes, search_bytes
from streamgp.inference.inducing.slopes import evidence_bytes
from streamgp.inference.local.heads import COLUMNS, local_bytes
from streamgp.inference.local.snapshot import local_snapshot_bytes
from streamgp.kernels import Kernel
from streamgp.likelihoods import JointLikelihood, Likelihood, Probit
from streamgp.passes.block_store import INNER_ROWS, block_store_bytes
from streamgp.passes.scratch import scratch_bytes
from streamgp.posterior.snapshot import snapshot_bytes, workspace_bytes
from streamgp.selection.grouping import NEAR_CENTRES, Sizes, block_sizes, grouping_bytes
from streamgp.selection.ivm import HOT_ROWS

SPAN_BYTES = 4 * 2**20
"""Decoded bytes that a task reads where chunks are smaller: tiny reads do not run side by side."""
ROWS_PER_BLOCK = (2048, 1024, 512, 256, 128, 64, 32)
SIDE_BY_SIDE = 4
"""Tasks that there should be room for, whatever the number of threads."""
MOST_ACTIVE = 2**20
RESERVE = 20 * 2**20
"""Bytes (at most two fifths of the budget) left to what no formula counts: readers, scratch of threads."""
POOL_COPIES = 2.25
"""How often a candidate is held while pools are merged: a quarter too many of them, and the result."""
GROUP_BYTES = 32 * 2**20
"""Bytes of a group of blocks, at most, where two blocks are no more."""
WANTED_GROUPS = 64
FEWEST_BLOCK_ROWS = 64
"""Blocks are not made smaller than this to fit a budget."""
MOST_CANDIDATES = 50_000
"""More would cost time and not change the selection: unless all rows fit, no more are kept."""


@dataclass(frozen=True)
class Demand:
    """What is asked of the memory: the data's shape, the model's size, and whether it is fitted already.

    ``n_active`` counts the active rows of one head, the largest. ``n_at_once``: so many heads take part in
    one sweep over all rows, through the active rows as inducing inputs and with these ``powers`` of the
    likelihood; 0: there are no such sweeps. ``with_slopes``: their evidence is learned from in passes.
    ``criterion_rows``: rows on which the IVM's criterion is learned, with ``criterion_active`` active ones.
    ``joint_classes``: so many latent functions are found by their mode: means without matrices or sites.
    ``row_bytes``: what is held for single rows of the store: their weights, the numbers of those held out.
    ``block_sizes``: rows are grouped into blocks of such sizes, smaller ones if ``blocks_may_shrink``;
    ``head_rows``: the largest block of a fitted model, its halo included.
    """

    rows: Rows
    kernel: Kernel
    n_active: int
    n_heads: int
    itemsize: int
    shared: bool = False
    fitted: bool = False
    n_at_once: int = 0
    with_slopes: bool = False
    likelihood: Likelihood | JointLikelihood = field(default_factory=Probit)
    powers: tuple[float, ...] = (1.0,)
    criterion_rows: int = 0
    criterion_active: int = 0
    joint_classes: int = 0
    row_bytes: int = 0
    block_sizes: Sizes | None = None
    blocks_may_shrink: bool = False
    head_rows: int = 0

    @property
    def group_rows(self) -> int:
        """Rows of a group of blocks: enough groups to work side by side, and not too many files."""
        assert self.block_sizes is not None
        most, n_rows = self.block_sizes.most, self.rows.n_rows
        by_bytes = GROUP_BYTES // (16 * self.rows.n_features)
        rows = max(2 * most, INNER_ROWS, min(n_rows // WANTED_GROUPS, 16 * most, by_bytes))
        rows = most if most >= n_rows else rows
        return rows if rows < INNER_ROWS else -(-rows // INNER_ROWS) * INNER_ROWS

    @property
    def n_places(self) -> int:
        """Places for rows in groups, of which each leaves half a block empty on average."""
        assert self.block_sizes is not None
        size, n_rows = self.group_rows, self.rows.n_rows
        if size >= n_rows:
            return size
        filled = 1.0 - 0.5 * self.block_sizes.target / size
        return -(-int(n_rows / filled) // size) * size

    @property
    def n_inputs(self) -> int:
        """Active rows of all heads together."""
        return self.n_active if self.shared else self.n_active * self.n_heads

    def likelihood_bytes(self, rows: int) -> int:
        """What the likelihood needs for a block, at the power that needs most."""
        if isinstance(self.likelihood, JointLikelihood):
            return self.likelihood.workspace_bytes(rows, self.joint_classes)
        return max(self.likelihood.workspace_bytes(rows, power=power) for power in self.powers)


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
        task = _span_bytes(demand.rows, self.span_rows) + _block_bytes(demand, self.rows_per_block)
        room = (
            self.budget - _set_aside(demand, self.budget) - _pass_model_bytes(demand) - self.candidate_share
        )
        return max(1, min(self.threads, room // task))

    @property
    def criterion_workers(self) -> int:
        """Threads that the criterion may use beside the candidates; their number does not change its bits."""
        room = self.budget - _set_aside(self.demand, self.budget) - self.candidate_share
        fitting = [n for n in range(1, self.threads + 1) if _criterion_bytes(self.demand, n) <= room]
        return max(fitting, default=1)

    def candidates_at(self, n_active: int, itemsize: int = 8) -> int:
        """Candidates that fit while the active set grows to ``n_active``: |J| d ≤ B [IVM2006] section 3.2."""
        most = self.candidate_share // _candidate_bytes(self.demand, n_active, itemsize)
        n_rows = self.demand.rows.n_rows
        return n_rows if most >= n_rows else min(most, MOST_CANDIDATES)

    @property
    def free_bytes(self) -> int:
        """What neither the posterior nor the tasks of a pass use: for rows that a stage holds beside them."""
        passing = self.pass_model_bytes + self.tasks_in_flight * self.task_bytes
        return self.budget - _set_aside(self.demand, self.budget) - passing

    def head_groups(self) -> list[range]:
        """Heads whose matrices are held at the same time in a sweep over all rows."""
        every, size = range(self.demand.n_heads), max(1, self.demand.n_at_once)
        return [every[start : start + size] for start in range(0, len(every), size)]

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
    def cache_bytes(self) -> int:
        """What a fitted model's passes leave of the budget for heads of blocks used before."""
        return max(0, self.budget - self.total_bytes)

    @property
    def scratch_bytes(self) -> int:
        """Bytes on disk for the sites of all rows, and for rows in blocks."""
        demand = self.demand
        if demand.block_sizes is None:
            has_sites = demand.n_at_once > 0 and not demand.joint_classes
            return scratch_bytes(demand.rows.n_rows, demand.n_heads if has_sites else 0)
        places = demand.n_places
        blocks = block_store_bytes(
            places, demand.rows.n_features, demand.rows.features.dtype.itemsize, demand.n_heads
        )
        return blocks + max(
            scratch_bytes(places, demand.n_heads, COLUMNS),
            demand.rows.n_rows * (demand.rows.feature_bytes() + 48),
        )

    @property
    def total_bytes(self) -> int:
        """Upper bound of what will be in use at once, beside Python and its libraries."""
        passing = self.pass_model_bytes + self.tasks_in_flight * self.task_bytes
        largest = max(self.model_bytes, passing, _criterion_bytes(self.demand, 1))
        return largest + self.candidate_bytes + _set_aside(self.demand, self.budget)

    def __str__(self) -> str:
        """A table: what, how much of it, bytes."""
        demand = self.demand
        at_once = f"{demand.n_at_once} heads at once" if 0 < demand.n_at_once < demand.n_heads else ""
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
            ("reserve", "", _reserve(self.budget)),
            ("in all", "", self.total_bytes),
            ("budget", "", self.budget),
            *scratch,
        ]
        return "\n".join(f"{what:<46}{count:>16}{format_size(size):>12}" for what, count, size in lines)


def make_plan(demand: Demand, budget: int, threads: int) -> MemoryPlan:
    """Divide the budget, or say what would fit.

    The model comes first. Half of the rest is for candidates (|J| d ≤ B, [IVM2006] section 3.2), of which a
    fitted model has none. Factors are not held while a pass runs, so tasks have their place too.
    """
    plan = _divide(demand, budget, threads)
    if plan is not None:
        return plan
    needed = _smallest(lambda size: _divide(demand, size, 1) is not None, 2**62, least=budget + 1)

    def too_many(n_active: int) -> bool:
        return _divide(replace(demand, n_active=n_active), budget, 1) is None

    # Sizes are not monotone where the plan takes other ways: none that is larger than asked for is of use.
    largest = 0 if demand.fitted else _smallest(too_many, demand.n_active) - 1
    remedy = f"give memory_budget='{-(-needed // 2**20)}MiB' or more"
    if largest > 0:
        found = f"the largest active set that fits is n_active={largest}; for {demand.n_active} rows {remedy}"
    elif demand.fitted:
        found = f"the model does not fit beside one task: {remedy}"
    else:
        chunk = format_size(demand.rows.chunk_bytes())
        found = f"not one active row fits beside a storage chunk of {chunk}: {remedy}, or store smaller ones"
    raise BudgetError(f"a memory budget of {format_size(budget)} is too small: {found}")


def _smallest(holds: Callable[[int], bool], most: int, least: int = 1) -> int:
    """The smallest number from ``least`` for which a monotone condition holds, at most ``most``."""
    low, high = least, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _divide(demand: Demand, budget: int, threads: int) -> MemoryPlan | None:
    """The plan, or None where not even one small task fits beside the model.

    All heads take part in every pass over all rows, unless only fewer of them fit: then half as many, ...
    """
    plan = _divide_once(demand, budget, threads)
    while plan is None and demand.n_at_once > 1:
        demand = replace(demand, n_at_once=-(-demand.n_at_once // 2))
        plan = _divide_once(demand, budget, threads)
    while plan is None and demand.blocks_may_shrink and demand.block_sizes is not None:
        target = demand.block_sizes.target // 2
        if target < FEWEST_BLOCK_ROWS:
            break
        demand = replace(demand, block_sizes=block_sizes(target, demand.rows.n_rows))
        plan = _divide_once(demand, budget, threads)
    return plan


def _divide_once(demand: Demand, budget: int, threads: int) -> MemoryPlan | None:
    model, passing = _model_bytes(demand), _pass_model_bytes(demand)
    left = budget - _set_aside(demand, budget)
    room = min(left - model, 2 * (left - _criterion_bytes(demand, 1)))
    if room < 0:
        return None
    candidate_share = 0 if demand.fitted else room // 2
    share = left - passing - candidate_share
    tasks = [_task(demand, rows_per_block, share) for rows_per_block in ROWS_PER_BLOCK]
    # The largest blocks of which several fit side by side; where none do, of which two fit, or one.
    fitting = [task for many in (SIDE_BY_SIDE, 2, 1) for task in tasks if many * task[2] <= share]
    if not fitting:
        return None
    rows_per_block, span_rows, task_bytes = fitting[0]
    row = _candidate_bytes(demand, demand.n_active, 8)
    most = candidate_share // row
    n_candidates = demand.rows.n_rows if most >= demand.rows.n_rows else min(most, MOST_CANDIDATES)
    return MemoryPlan(
        budget=budget,
        n_active=demand.n_active,
        n_candidates=n_candidates,
        rows_per_block=rows_per_block,
        span_rows=span_rows,
        tasks_in_flight=min(threads, share // task_bytes),
        model_bytes=model,
        pass_model_bytes=passing,
        candidate_bytes=n_candidates * row,
        task_bytes=task_bytes,
        candidate_share=candidate_share,
        demand=demand,
        threads=threads,
    )


def _task(demand: Demand, rows_per_block: int, share: int) -> tuple[int, int, int]:
    """Rows per block, rows per span and bytes of a task with blocks of this size."""
    block = _block_bytes(demand, rows_per_block) + _local_bytes(demand)
    span_rows = _span_rows(demand.rows, rows_per_block, share // SIDE_BY_SIDE - block)
    asked = span_rows * _asked_bytes(demand)
    return rows_per_block, span_rows, _span_bytes(demand.rows, span_rows) + block + asked


def _reserve(budget: int) -> int:
    return min(RESERVE, 2 * budget // 5)


def _set_aside(demand: Demand, budget: int) -> int:
    """What is not for the plan to divide: the reserve, and what is held for single rows all the time."""
    return _reserve(budget) + demand.row_bytes


def _criterion_bytes(demand: Demand, workers: int) -> int:
    """What learning by the criterion needs beside the sample, which is counted among the candidates."""
    if not demand.criterion_rows:
        return 0
    shape = (demand.criterion_rows, min(demand.criterion_active, demand.n_active), demand.rows.n_features)
    own = criterion_bytes(demand.kernel, *shape, workers=workers)
    return own + workers * demand.likelihood_bytes(min(TILE_ROWS, demand.criterion_rows))


def _model_bytes(demand: Demand) -> int:
    """What a pass needs; factor and two matrices of scratch for one head at a time, hottest candidates."""
    d, p = demand.n_active, demand.rows.n_features
    if demand.fitted or demand.joint_classes:
        return _pass_model_bytes(demand)
    return _pass_model_bytes(demand) + 3 * 8 * d * d + 8 * min(HOT_ROWS, demand.rows.n_rows) * (4 * p + d)


def _pass_model_bytes(demand: Demand) -> int:
    """The snapshot of all heads; unless fitted, active inputs, which are met again among the best rows."""
    d, p, heads = demand.n_active, demand.rows.n_features, demand.n_heads
    snapshot = snapshot_bytes(demand.kernel, demand.n_inputs, d, p, heads, demand.itemsize)
    if demand.fitted:
        return snapshot
    again = heads * d * POOL_COPIES * demand.rows.feature_bytes()
    if demand.joint_classes:
        snapshot = search_bytes(d, p, demand.joint_classes, demand.itemsize)
    elif demand.n_at_once:
        # Sweeps come after the selection, and end before the model is made of their moments.
        finished = snapshot + heads * (8 + demand.itemsize) * d * d
        snapshot = max(finished, inducing_bytes(d, p, heads, demand.n_at_once, demand.itemsize))
    # Moments of the best evaluation so far, gradients by the inducing inputs.
    slopes = heads * 8 * d * (d + 2 * p) if demand.with_slopes else 0
    return heads * 8 * d * p + snapshot + int(again) + slopes


def _candidate_bytes(demand: Demand, n_active: int, itemsize: int) -> int:
    """One candidate: its stub, its inputs wherever they are held, its marginals.

    Inputs as stored: the sample with the rows held out (one for every four), the pool of every head while it
    is merged; standardised: of one head. Stubs are kept for one head at a time, unless heads share rows.
    """
    stubs = 0 if demand.joint_classes else itemsize * n_active * (demand.n_heads if demand.shared else 1)
    stored = demand.rows.feature_bytes() * (1.25 + demand.n_heads * POOL_COPIES)
    scalars = 8 * (16 + 3 * demand.n_heads * (3 + demand.n_heads))
    return int(stored) + itemsize * demand.rows.n_features + stubs + scalars


def _block_bytes(demand: Demand, rows: int) -> int:
    """A block of rows on its way through a task: standardised inputs, kernel, projection."""
    p = demand.rows.n_features
    inputs = rows * p * demand.itemsize + Standardizer.workspace_bytes(rows, p)
    sizes = (demand.n_inputs, p, demand.n_heads, demand.itemsize)
    block = workspace_bytes(demand.kernel, rows, *sizes) + demand.likelihood_bytes(rows)
    shape = (demand.kernel, rows, demand.n_active, p)
    if demand.joint_classes and not demand.fitted:
        sizes = (demand.n_active, p, demand.joint_classes, demand.itemsize)
        block = mode_block_bytes(demand.kernel, rows, *sizes) + demand.likelihood_bytes(rows)
    elif demand.n_at_once:
        swept = heads_bytes(*shape, demand.n_heads, demand.n_at_once, demand.itemsize)
        block = max(block, swept + demand.likelihood_bytes(rows))
    if demand.with_slopes:
        sums = 2 * demand.n_at_once * 8 * demand.n_active**2
        block = max(block, evidence_bytes(*shape, 8) + sums + demand.likelihood_bytes(rows))
    return inputs + block


def _local_bytes(demand: Demand) -> int:
    """A group of blocks on its way through a task, and the largest of them at work; a head that predicts."""
    p, m, likelihood = demand.rows.n_features, demand.n_active, demand.likelihood
    if demand.head_rows:
        return local_snapshot_bytes(demand.kernel, demand.head_rows, m, p, demand.n_heads)
    if demand.block_sizes is None:
        return 0
    assert isinstance(likelihood, Likelihood)
    most = demand.block_sizes.most
    stored = 2 * demand.rows.feature_bytes() + 8 * p
    group = demand.group_rows * (stored + 64 + 16 * COLUMNS * demand.n_heads)
    sums = 2 * demand.n_at_once * 8 * m * (m + 1)
    sweep = group + local_bytes(demand.kernel, likelihood, most, m, p, demand.itemsize) + sums
    widened = most if most >= demand.rows.n_rows else 2 * most
    centres = 1 + demand.rows.n_rows // demand.block_sizes.target
    sweep = max(sweep, grouping_bytes(ROWS_PER_BLOCK[0], centres, p, NEAR_CENTRES))
    return max(sweep, local_snapshot_bytes(demand.kernel, widened, m, p, demand.n_heads))


def _asked_bytes(demand: Demand) -> int:
    """One row that waits for what blocks say about it, while its span is predicted."""
    return 8 * (demand.rows.n_features + 8 + 8 * demand.n_heads) if demand.head_rows else 0


def _span_rows(rows: Rows, rows_per_block: int, most_bytes: int) -> int:
    """Rows of a span: whole storage chunks, at least one, SPAN_BYTES where they fit, else one block."""
    chunk = min(rows.features.chunk_rows, rows.n_rows)
    wanted = max(min(SPAN_BYTES, most_bytes // 3) // rows.row_bytes(), rows_per_block)
    return max(1, min(wanted, rows.n_rows) // chunk) * chunk


def _span_bytes(rows: Rows, span_rows: int) -> int:
    """Reading a span: decoded rows, those that a visitor keeps, two chunks more (stored, being decoded)."""
    return 2 * span_rows * rows.row_bytes() + 2 * rows.chunk_bytes()
