"""Blocks of rows that a predictive selection visits, in an order that sorted files cannot spoil."""

from __future__ import annotations

import numpy as np

from streamgp.arrays import IntArray
from streamgp.passes.candidates import PickRows, Pool, is_among, smallest
from streamgp.selection.predictive import Predictive, PredictiveScores
from streamgp.training.context import Context, class_counts, make_snapshot, refresh_keys, run_snapshot_pass
from streamgp.training.select import pass_precision
from streamgp.training.state import State

SPANS_PER_BLOCK = 4
"""Spans, far from each other, that are read for one block: so a block of a sorted file is a mixture."""
PIECES = 8
"""Parts of an active set's size in which the rows that a pass has found are offered."""


def selection_of(context: Context) -> Predictive:
    """The selection's settings."""
    selection = context.settings.selection
    assert isinstance(selection, Predictive)
    return selection


def ends_pass(context: Context, count: int) -> bool:
    """Whether so many blocks are the sample's, or those and whole passes."""
    in_memory = _in_memory(context)
    in_pass = in_memory if context.holds_all_rows else _span_groups(context)
    return count >= in_memory and (count - in_memory) % in_pass == 0


def n_blocks(context: Context) -> int:
    """How many blocks there are: first those of the sample in memory, then those of the passes."""
    selection = selection_of(context)
    if context.holds_all_rows:
        return selection.n_pass * _in_memory(context)
    return _in_memory(context) + selection.n_pass * _span_groups(context)


def read_block(context: Context, state: State) -> Pool:
    """The rows of block number ``state.round``; of those on disk the ones of largest weight for each head.

    In memory a block is a random part of the sample. On disk it is every k-th span: one read serves all
    heads, and what it keeps is bounded by the plan.
    """
    number, in_memory = state.round, _in_memory(context)
    if context.holds_all_rows or number < in_memory:
        order = np.argsort(context.sample.keys, kind="stable")
        return context.sample.take(np.sort(np.array_split(order, in_memory)[number % in_memory]))
    groups = _span_groups(context)
    snapshot = pass_precision(context, make_snapshot(state.kernel, state))
    prepared = context.prepared
    nothing = np.zeros_like(class_counts(prepared))
    visitor = PickRows(
        refresh_keys(context, state.step),
        quotas=nothing,
        key_bounds=nothing.astype(np.float64),
        excluded=np.sort(context.validation.rows),
        scores=PredictiveScores(prepared.targets, state.likelihoods, selection_of(context).p_min),
        per_head=offered(context),
    )
    pools = run_snapshot_pass(
        context,
        visitor,
        snapshot,
        spans=list(prepared.rows.spans())[(number - in_memory) % groups :: groups],
        label=f"block {number}",
    )
    return visitor.pooled(pools)


def offered(context: Context) -> int:
    """Rows of largest weight that a pass keeps for each head."""
    n_active = context.plan.n_active
    return max(1, min(context.plan.candidates_at(n_active), 2 * n_active))


def pieces(context: Context, pool: Pool, heads: list[int], known: IntArray) -> list[Pool]:
    """What a group of heads is offered of a block, part by part: the posterior is updated in between.

    A block from memory is one part. What a pass has kept are the hardest of many rows: all at once they would
    replace the active set, and most would prove redundant once the first are in.
    """
    pool = pool.take(np.flatnonzero(~is_among(pool.rows, np.sort(known))))
    if pool.scores.shape[1] == 0:
        return [pool]
    best = smallest(-np.max(pool.scores[:, heads], axis=1), offered(context))
    order = best[np.argsort(pool.keys[best], kind="stable")]
    size = max(1, context.plan.n_active // PIECES)
    return [pool.take(np.sort(order[start : start + size])) for start in range(0, len(order), size)]


def _in_memory(context: Context) -> int:
    return -(-len(context.sample.rows) // selection_of(context).block_rows)


def _span_groups(context: Context) -> int:
    return max(1, context.prepared.rows.n_spans // SPANS_PER_BLOCK)
