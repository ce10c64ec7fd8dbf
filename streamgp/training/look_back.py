"""After every pass of a predictive selection: the active sets are compared with the best before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference.active_set import refresh_factor
from streamgp.likelihoods import Likelihood
from streamgp.passes.candidates import Pool, is_among
from streamgp.posterior.calibration import UNCALIBRATED, calibrate
from streamgp.training.calibrate import sample_weights
from streamgp.training.context import Context
from streamgp.training.heads import side_by_side
from streamgp.training.marginals import marginals_in_memory
from streamgp.training.state import Kept, State

JUDGES = 5000
FEWEST_JUDGES = 500
"""Fewer held-out rows than these are no jury: then rows of the sample are."""


def look_back(context: Context, state: State, *, is_last: bool) -> State:
    """Keep the active sets of least loss, those at random among them; after the last pass, return to them.

    Rows that are predicted badly teach most, unless their labels are noise, or the active set is too small
    for the task: then exchanges only make it worse, and no rule about single rows can tell.
    """
    now, best = Kept(state.kernel, state.likelihoods, state.actives), state.kept
    if best is None:
        return replace(state.told(n_active=[active.count for active in now.actives]), kept=now)
    judges = _judges(context)
    known = np.unique(np.concatenate([active.rows for kept in (best, now) for active in kept.actives]))
    judges = judges.take(np.flatnonzero(~is_among(judges.rows, known)))
    if len(judges.rows) == 0:
        return replace(state.told(judges=0), kept=now)
    before, after = (_loss(context, kept, judges) for kept in (best, now))
    state = state.told(judges=len(judges.rows), loss_before=before, loss=after)
    if after <= before:
        return replace(state, kept=now)
    if not is_last:
        return state
    return replace(state, kernel=best.kernel, likelihoods=best.likelihoods, actives=best.actives)


def _judges(context: Context) -> Pool:
    """Rows held out; where they are too few, rows of the sample: those met last by the first active sets."""
    if len(context.validation.rows) >= FEWEST_JUDGES:
        return context.validation
    order = np.argsort(-context.sample.keys, kind="stable")
    return context.sample.take(np.sort(order[:JUDGES]))


def _loss(context: Context, kept: Kept, judges: Pool) -> float:
    """Mean loss of all heads: the share of misclassified rows; of real targets, minus the log density."""
    weights = sample_weights(context, judges.targets)

    def of_head(head: int) -> float:
        likelihood, targets = kept.likelihoods[head], context.head_targets(judges.targets, head)
        active = kept.actives[head].with_capacity(kept.actives[head].count)
        refresh_factor(active, kept.kernel)
        snapshot = active.snapshot(kept.kernel)
        mean, variance = marginals_in_memory(context, snapshot, judges.features)
        return _head_loss(likelihood, targets, mean, variance, weights, context.settings.calibrate)

    return float(np.mean(side_by_side(context, of_head, context.n_heads)))


def _head_loss(
    likelihood: Likelihood,
    targets: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    weights: FloatArray,
    is_calibrated: bool,
) -> float:
    scale, offset, variance_scale, _ = (
        calibrate(likelihood, targets, mean, variance, weights) if is_calibrated else UNCALIBRATED
    )
    log_density = likelihood.log_predictive_density(targets, scale * mean + offset, variance_scale * variance)
    loss = log_density < np.log(0.5) if likelihood.is_classification else -log_density
    return float(np.average(loss, weights=weights))
