"""Blocks of rows that a predictive selection visits, in an order that sorted files cannot spoil."""

from __future__ import annotations

import numpy as np

from streamgp.arrays import IntArray
from streamgp.passes.candidates import PickRows, Pool, is_among, smallest
from streamgp.selection.predictive import Predictive, PredictiveScores
from streamgp.training.heads import make_snapshot
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft

SPANS_PER_BLOCK = 4
"""Spans, far from each other, that are read for one block: so a block of a sorted file is a mixture."""
PIECES = 8
"""Parts of an active set's size in which the rows that a pass has found are offered."""


def ends_pass(problem: Problem, selection: Predictive, count: int) -> bool:
    """Whether so many blocks are the sample's, or those and whole passes."""
    in_memory = _in_memory(problem, selection)
    in_pass = in_memory if problem.holds_all_rows else _span_groups(problem)
    return count >= in_memory and (count - in_memory) % in_pass == 0


def n_blocks(problem: Problem, selection: Predictive) -> int:
    """How many blocks there are: first those of the sample in memory, then those of the passes."""
    if problem.holds_all_rows:
        return selection.n_pass * _in_memory(problem, selection)
    return _in_memory(problem, selection) + selection.n_pass * _span_groups(problem)


def read_block(problem: Problem, selection: Predictive, draft: Draft, number: int) -> Pool:
    """The rows of a block; of those on disk the ones of largest weight for each head.

    In memory a block is a random part of the sample. On disk it is every k-th span: one read serves all
    heads, and what it keeps is bounded by the plan.
    """
    in_memory = _in_memory(problem, selection)
    if problem.holds_all_rows or number < in_memory:
        parts = np.array_split(problem.sample_order(), in_memory)
        return problem.sample.take(np.sort(parts[number % in_memory]))
    groups = _span_groups(problem)
    nothing = np.zeros_like(problem.prepared.class_counts)
    visitor = PickRows(
        problem.row_keys(draft.step),
        quotas=nothing,
        key_bounds=nothing.astype(np.float64),
        excluded=problem.excluded,
        scores=PredictiveScores(
            problem.prepared.targets,
            draft.likelihoods,
            selection.p_min,
            None if problem.weights.are_even else problem.weights.of_rows,
        ),
        per_head=offered(problem),
    )
    snapshot = problem.in_pass_precision(make_snapshot(draft))
    spans = list(problem.prepared.rows.spans())[(number - in_memory) % groups :: groups]
    return visitor.pooled(problem.run_snapshot_pass(visitor, snapshot, f"block {number}", spans))


def offered(problem: Problem) -> int:
    """Rows of largest weight that a pass keeps for each head."""
    n_active = problem.plan.n_active
    return max(1, min(problem.plan.candidates_at(n_active), 2 * n_active))


def pieces(problem: Problem, pool: Pool, heads: tuple[int, ...], known: IntArray) -> list[Pool]:
    """What a group of heads is offered of a block, part by part: the posterior is updated in between.

    A block from memory is one part. What a pass has kept are the hardest of many rows: all at once they would
    replace the active set, and most would prove redundant once the first are in.
    """
    pool = pool.take(np.flatnonzero(~is_among(pool.rows, np.sort(known))))
    if pool.scores.shape[1] == 0:
        return [pool]
    best = smallest(-np.max(pool.scores[:, list(heads)], axis=1), offered(problem))
    order = best[np.argsort(pool.keys[best], kind="stable")]
    size = max(1, problem.plan.n_active // PIECES)
    return [pool.take(np.sort(order[start : start + size])) for start in range(0, len(order), size)]


def _in_memory(problem: Problem, selection: Predictive) -> int:
    return -(-len(problem.sample.rows) // selection.block_rows)


def _span_groups(problem: Problem) -> int:
    return max(1, problem.prepared.rows.n_spans // SPANS_PER_BLOCK)
