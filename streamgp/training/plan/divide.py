"""How a budget is divided, and what is said where nothing fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from streamgp.budget import format_size
from streamgp.data import Rows
from streamgp.errors import BudgetError
from streamgp.selection.grouping import block_sizes
from streamgp.training.plan.demand import Demand
from streamgp.training.plan.memory import MOST_CANDIDATES, MemoryPlan
from streamgp.training.plan.sizes import (
    ROWS_PER_BLOCK,
    asked_bytes,
    block_bytes,
    candidate_bytes,
    criterion_bytes,
    local_task_bytes,
    model_bytes,
    pass_model_bytes,
    set_aside,
    span_bytes,
)

SPAN_BYTES = 4 * 2**20
"""Decoded bytes that a task reads where chunks are smaller: tiny reads do not run side by side."""
SIDE_BY_SIDE = 4
"""Tasks that there should be room for, whatever the number of threads."""
FEWEST_BLOCK_ROWS = 64
"""Blocks are not made smaller than this to fit a budget."""


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
    elif demand.block_sizes is not None:
        rows = FEWEST_BLOCK_ROWS if demand.blocks_may_shrink else demand.block_sizes.target
        found = f"not even a task with blocks of {rows} rows fits: {remedy}, or take inference='fitc'"
    elif SIDE_BY_SIDE * demand.rows.chunk_bytes() < budget:
        found = f"not one active row fits beside what a fit holds anyway: {remedy}"
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

    All heads take part in every pass over all rows, or half as many, ...: as many as leave room for two tasks
    side by side, whatever the number of threads; where none do, as many as leave room for one.
    """
    ways = [demand]
    while ways[-1].n_at_once > 1:
        ways.append(replace(demand, n_at_once=-(-ways[-1].n_at_once // 2)))
    fitting = [(way, found) for way in ways if (found := _divide_once(way, budget, 2)) is not None]
    fitting.sort(key=lambda pair: pair[1].tasks_in_flight < 2)  # stable: the first of those that have room
    plan = _divide_once(fitting[0][0], budget, threads) if fitting else None
    demand = ways[-1]
    while plan is None and demand.blocks_may_shrink and demand.block_sizes is not None:
        target = demand.block_sizes.target // 2
        if target < FEWEST_BLOCK_ROWS:
            break
        demand = replace(demand, block_sizes=block_sizes(target, demand.rows.n_rows))
        plan = _divide_once(demand, budget, threads)
    return plan


def _divide_once(demand: Demand, budget: int, threads: int) -> MemoryPlan | None:
    model, passing = model_bytes(demand), pass_model_bytes(demand)
    left = budget - set_aside(demand, budget)
    room = min(left - model, 2 * (left - criterion_bytes(demand, 1)))
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
    row = candidate_bytes(demand, demand.n_active, 8)
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
    block = block_bytes(demand, rows_per_block) + local_task_bytes(demand)
    span_rows = _span_rows(demand.rows, rows_per_block, share // SIDE_BY_SIDE - block)
    asked = span_rows * asked_bytes(demand)
    return rows_per_block, span_rows, span_bytes(demand.rows, span_rows) + block + asked


def _span_rows(rows: Rows, rows_per_block: int, most_bytes: int) -> int:
    """Rows of a span: whole storage chunks, at least one, SPAN_BYTES where they fit, else one block."""
    chunk = min(rows.features.chunk_rows, rows.n_rows)
    wanted = max(min(SPAN_BYTES, most_bytes // 3) // rows.row_bytes(), rows_per_block)
    return max(1, min(wanted, rows.n_rows) // chunk) * chunk
