"""The last stage of an active set: how far its posterior is to be trusted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.inference.active_set import ActiveSet, left_out_marginals, refresh_factor
from streamgp.kernels import Kernel
from streamgp.passes.candidates import is_among
from streamgp.posterior.calibration import calibrate
from streamgp.training.judge import marginals_in_memory
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Stage, once

CALIBRATION_ROWS = 10_000


def calibration() -> Stage:
    """Calibrate every head by the density of the sample's rows, each as if left out, weighted by class."""
    return once("calibrate", _calibrated)


def _calibrated(problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
    sample = problem.sample
    chosen = np.sort(problem.sample_order(CALIBRATION_ROWS))
    rows, features = sample.rows[chosen], sample.features[chosen]
    weights = problem.sample_weights(sample.targets[chosen])
    calibrations = []
    for head, (active, likelihood) in enumerate(zip(draft.actives, draft.likelihoods, strict=True)):
        targets = problem.head_targets(sample.targets[chosen], head)
        mean, variance = left_out(problem, draft.kernel, active, rows, features)
        calibrations.append(calibrate(likelihood, targets, mean, variance, weights))
    density = float(np.mean([calibration.log_density for calibration in calibrations]))
    return replace(draft, calibrations=tuple(calibrations)), {"left_out_log_density": density}


def left_out(
    problem: Problem, kernel: Kernel, active: ActiveSet, rows: IntArray, stored: Array
) -> tuple[FloatArray, FloatArray]:
    """Marginals of rows (in ascending order), those of active ones without their own site; from scratch.

    To take a site out is to divide by a difference: that needs float64, whatever the others need.
    """
    active = active.with_capacity(active.count)
    refresh_factor(active, kernel)
    snapshot = active.snapshot(kernel)
    mean, variance = np.empty(len(rows)), np.empty(len(rows))
    included = is_among(rows, np.sort(active.rows[: active.count]))
    for chosen, posterior in ((included, snapshot), (~included, problem.in_pass_precision(snapshot))):
        found = marginals_in_memory(posterior, stored[chosen], problem)
        assert found.variance is not None
        mean[chosen], variance[chosen] = found.mean[:, 0], found.variance[:, 0]
    return left_out_marginals(active, rows, mean, variance)
