"""Predictive active set selection: rows enter and leave block by block; the best active sets are kept.

Algorithm 1 of [PASS2012]: the phase "sweep" visits one block, "update" maximises log Z_EP of the active sets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference import Propagated, Sites
from streamgp.inference.active_evidence import Evidence, evidence
from streamgp.inference.ep import FOR_PREDICTION
from streamgp.kernels import Kernel
from streamgp.passes.candidates import Pool
from streamgp.selection import stratified_quotas
from streamgp.selection.predictive import PASS
from streamgp.training.blocks import ends_pass, n_blocks, read_block, selection_of
from streamgp.training.context import Context
from streamgp.training.descent import descend, logged, minus_log_posterior, pack, pack_bounds, unpack
from streamgp.training.exchange import Visited, offer_block
from streamgp.training.heads import active_set, head_groups, propagate, side_by_side
from streamgp.training.infer import converged
from streamgp.training.look_back import look_back
from streamgp.training.starts import start_kernels
from streamgp.training.state import State

logger = logging.getLogger(__name__)

START_ROWS = 300
"""Active rows that decide about the start of learning."""


def begin(context: Context, state: State) -> State:
    """Rows at random, the same for all heads; the best of several kernels where none was given."""
    size = selection_of(context).initial_size(context.plan.n_active)
    first = _drawn(context, size)
    if context.settings.kernel is None and context.learns_along:
        state = replace(state, kernel=_best_start(context, state, _drawn(context, min(size, START_ROWS))))
    flat = Sites(np.zeros(len(first.rows)), np.zeros(len(first.rows)))
    inputs = context.inputs(first.features)
    actives = tuple(
        active_set(first.rows, inputs, context.head_targets(first.targets, head), flat)
        for head in range(context.n_heads)
    )
    state, found = converged(context, replace(state, actives=actives), FOR_PREDICTION)
    state = _told(state, found)
    return replace(state, phase="look" if context.update_every is None else "update")


def visit_block(context: Context, state: State) -> State:
    """Read one block and score it; rows enter and leave every active set."""
    begun = context.seconds()
    pool = read_block(context, state)
    read_seconds = context.seconds() - begun
    groups = head_groups(context)

    def visit(number: int) -> Visited:
        return offer_block(context, state, groups[number], pool)

    visited = side_by_side(context, visit, len(groups))
    actives = list(state.actives)
    for heads, result in zip(groups, visited, strict=True):
        for head, active in zip(heads, result.actives, strict=True):
            actives[head] = active
    full = sum(result.is_full for result in visited)
    before = max((entry.get("full", 0) for entry in state.history), default=0)
    if full > before and isinstance(selection_of(context), PASS):
        logger.info(
            "%d active sets have the %d rows that were planned for: from now on rows are exchanged",
            full,
            context.plan.n_active,
        )
    state = replace(state, actives=tuple(actives), round=state.round + 1)
    state = state.told(
        n_active=[active.count for active in actives],
        block=state.round,
        rows=len(pool.rows),
        from_disk=pool.scores.shape[1] > 0,
        read_seconds=read_seconds,
        entered=[result.entered for result in visited],
        left=[result.left for result in visited],
        full=full,
        log_evidence_active=sum(result.log_evidence for result in visited),
    )
    if _is_done(context, state) or ends_pass(context, state.round):
        return replace(state, phase="look")
    return replace(state, phase=_after_block(context, state))


def look(context: Context, state: State) -> State:
    """After every pass, and before the first: keep the best active sets; after the last, return to them."""
    is_last = _is_done(context, state)
    state = look_back(context, state, is_last=is_last)
    return replace(state, phase=context.after_selection if is_last else _after_block(context, state))


def _after_block(context: Context, state: State) -> str:
    """Learning, every few blocks; else the next block."""
    every = context.update_every
    return "update" if every is not None and state.round > 0 and state.round % every == 0 else "sweep"


def update(context: Context, state: State, save: Callable[[State], None]) -> State:
    """Steps uphill in log Z_EP of all heads together, hyperpriors included; the active sets stay."""
    log = logged(lambda vector: penalised_evidence(context, state, vector), state, save)
    start, bounds = pack(state.kernel, state.likelihoods), pack_bounds(state.kernel, state.likelihoods)
    steps = selection_of(context).most_steps
    found, _ = descend(log, start, bounds, steps, 2 * steps)
    kernel, likelihoods = unpack(state.kernel, state.likelihoods, found)
    state = replace(state, kernel=kernel, likelihoods=likelihoods, evaluations={})
    state, propagated = converged(context, state, FOR_PREDICTION)
    return replace(_told(state, propagated), phase="sweep" if state.round > 0 else "look")


def penalised_evidence(context: Context, state: State, vector: FloatArray) -> tuple[float, FloatArray]:
    """−log Z_EP of all heads, minus the log hyperpriors, and its gradient."""
    kernel, likelihoods = unpack(state.kernel, state.likelihoods, vector)

    def one(head: int) -> Evidence:
        active = state.actives[head]
        # From the state's sites, not those of the last evaluation: replay does not know these.
        return evidence(kernel, likelihoods[head], active.inputs, active.targets, active.sites)

    found = side_by_side(context, one, context.n_heads)
    return minus_log_posterior(kernel.log_prior(state.actives[0].inputs.shape[1]), likelihoods, found)


def _told(state: State, found: list[Propagated]) -> State:
    return state.told(
        n_active=[active.count for active in state.actives],
        log_evidence_active=sum(result.log_evidence for result in found),
        kernel=repr(state.kernel),
    )


def _is_done(context: Context, state: State) -> bool:
    return state.round >= n_blocks(context) or context.is_late()


def _drawn(context: Context, size: int) -> Pool:
    """Rows of the sample, at random, rare classes with at least a quarter of an equal part."""
    sample = context.sample
    codes = (
        sample.targets.astype(np.int64) if context.is_classification else np.zeros(len(sample.rows), np.int64)
    )
    quotas = stratified_quotas(np.bincount(codes), size, least_share=0.25)
    order = np.argsort(sample.keys, kind="stable")
    chosen = np.concatenate([order[codes[order] == code][:quota] for code, quota in enumerate(quotas)])
    return sample.take(np.sort(chosen[:size]))


def _best_start(context: Context, state: State, first: Pool) -> Kernel:
    """The kernel under which the first active rows have the largest evidence."""
    starts, inputs = start_kernels(context), context.inputs(first.features)

    def total(number: int) -> float:
        values = 0.0
        for head, likelihood in enumerate(state.likelihoods):
            targets = context.head_targets(first.targets, head)
            flat = Sites(np.zeros(len(targets)), np.zeros(len(targets)))
            active = active_set(first.rows, inputs, targets, flat)
            values += propagate(starts[number], likelihood, active, FOR_PREDICTION).log_evidence
        return values

    return starts[int(np.argmax(side_by_side(context, total, len(starts))))]
