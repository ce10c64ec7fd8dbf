"""The last step: how far the posterior is to be trusted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from streamgp.inference.active_set import ActiveSet, Candidates, catch_up, left_out_marginals, refresh_factor
from streamgp.kernels import Kernel
from streamgp.posterior.calibration import calibrate
from streamgp.training.context import Context, class_counts
from streamgp.training.state import State

FloatArray = NDArray[np.float64]

CALIBRATION_ROWS = 10_000


def calibrate_heads(context: Context, state: State) -> State:
    """Calibrate every head by the density of the sample's rows, each as if left out, weighted by class."""
    if not context.settings.calibrate:
        return replace(state, phase="done")
    sample = context.sample
    chosen = np.sort(np.argsort(sample.keys, kind="stable")[:CALIBRATION_ROWS])
    inputs = context.inputs(sample.features[chosen])
    weights = sample_weights(context, sample.targets[chosen])
    calibrations = []
    for head, (active, likelihood) in enumerate(zip(state.actives, state.likelihoods, strict=True)):
        targets = context.head_targets(sample.targets[chosen], head)
        mean, variance = sample_marginals(state.kernel, active, sample.rows[chosen], inputs, targets)
        calibrations.append(calibrate(likelihood, targets, mean, variance, weights))
    state = replace(state, calibrations=tuple(calibrations))
    density = float(np.mean([calibration.log_density for calibration in calibrations]))
    return replace(state.told(left_out_log_density=density), phase="done")


def sample_marginals(
    kernel: Kernel, active: ActiveSet, rows: NDArray[np.int64], inputs: FloatArray, targets: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Marginals of rows, those of active ones without their own site; from scratch, 2000 rows at a time."""
    active = active.with_capacity(active.count)
    refresh_factor(active, kernel)
    pieces = []
    for start in range(0, len(rows), 2000):
        here = slice(start, start + 2000)
        block = Candidates.new(rows[here], inputs[here], targets[here], kernel, active.count)
        catch_up(active, block, kernel, since=0)
        pieces.append(left_out_marginals(active, block))
    return np.concatenate([mean for mean, _ in pieces]), np.concatenate([variance for _, variance in pieces])


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
