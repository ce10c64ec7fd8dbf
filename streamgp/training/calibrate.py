"""The last step: how far the posterior is to be trusted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.inference.active_set import ActiveSet, left_out_marginals, refresh_factor
from streamgp.kernels import Kernel
from streamgp.passes.candidates import is_among
from streamgp.posterior.calibration import calibrate
from streamgp.training.context import Context, class_counts
from streamgp.training.marginals import marginals_in_memory
from streamgp.training.select import pass_precision
from streamgp.training.state import State

CALIBRATION_ROWS = 10_000


def calibrate_heads(context: Context, state: State) -> State:
    """Calibrate every head by the density of the sample's rows, each as if left out, weighted by class."""
    if not context.settings.calibrate:
        return replace(state, phase="done")
    sample = context.sample
    chosen = np.sort(np.argsort(sample.keys, kind="stable")[:CALIBRATION_ROWS])
    rows, features = sample.rows[chosen], sample.features[chosen]
    weights = sample_weights(context, sample.targets[chosen])
    calibrations = []
    for head, (active, likelihood) in enumerate(zip(state.actives, state.likelihoods, strict=True)):
        targets = context.head_targets(sample.targets[chosen], head)
        mean, variance = left_out(context, state.kernel, active, rows, features)
        calibrations.append(calibrate(likelihood, targets, mean, variance, weights))
    state = replace(state, calibrations=tuple(calibrations))
    density = float(np.mean([calibration.log_density for calibration in calibrations]))
    return replace(state.told(left_out_log_density=density), phase="done")


def left_out(
    context: Context, kernel: Kernel, active: ActiveSet, rows: IntArray, stored: Array
) -> tuple[FloatArray, FloatArray]:
    """Marginals of rows (in ascending order), those of active ones without their own site; from scratch.

    To take a site out is to divide by a difference: that needs float64, whatever the others need.
    """
    active = active.with_capacity(active.count)
    refresh_factor(active, kernel)
    snapshot = active.snapshot(kernel)
    mean, variance = np.empty(len(rows)), np.empty(len(rows))
    included = is_among(rows, np.sort(active.rows[: active.count]))
    for chosen, posterior in ((included, snapshot), (~included, pass_precision(context, snapshot))):
        mean[chosen], variance[chosen] = marginals_in_memory(context, posterior, stored[chosen])
    return left_out_marginals(active, rows, mean, variance)


def sample_weights(context: Context, encoded: FloatArray) -> FloatArray:
    """How many training rows each row of the sample stands for: rare classes were drawn more often."""
    counts = class_counts(context.prepared)
    if len(counts) == 1:
        return np.ones(len(encoded))
    codes = encoded.astype(np.intp)
    drawn = np.bincount(codes, minlength=len(counts))
    ratio: FloatArray = (counts / np.maximum(drawn, 1))[codes]
    weights: FloatArray = ratio * (len(encoded) / ratio.sum())
    return weights
