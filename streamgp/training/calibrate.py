"""The last stage of an active set: how far its posterior is to be trusted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.inference.active_set import ActiveSet, left_out_marginals, refresh_factor
from streamgp.kernels import Kernel
from streamgp.likelihoods import JointLikelihood
from streamgp.passes.candidates import is_among
from streamgp.posterior.calibration import Calibration, calibrate
from streamgp.training.heads import inducing_of
from streamgp.training.judge import marginals_in_memory
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Stage, once

CALIBRATION_ROWS = 10_000
MOST_TEMPERATURE = 1.5
"""Largest change of the logarithm of a temperature."""


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


def joint_calibration() -> Stage:
    """One temperature for all classes, by rows held out; kept only if it lowers their log loss."""
    return once("calibrate", _joint_temperature)


def _joint_temperature(problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
    held_out, [likelihood] = problem.held_out, draft.likelihoods
    assert draft.sweeps is not None
    assert isinstance(likelihood, JointLikelihood)
    if len(held_out.rows) == 0:
        return draft, {"temperature": 1.0}
    snapshot = draft.sweeps.snapshot(draft.kernel, inducing_of(draft), draft.calibrations)
    mean, variance = marginals_in_memory(snapshot, held_out.features, problem)
    assert variance is not None
    codes, every = held_out.targets.astype(np.intp), np.arange(len(held_out.rows))

    def loss(log_scale: float) -> float:
        scale = np.exp(log_scale)
        log_p = likelihood.log_probabilities(scale * mean, scale**2 * variance)
        return -float(log_p[every, codes].mean())

    found = minimize_scalar(loss, bounds=(-MOST_TEMPERATURE, MOST_TEMPERATURE), method="bounded")
    plain = loss(0.0)
    scale = float(np.exp(found.x)) if found.fun < plain else 1.0
    calibrations = tuple(
        Calibration(scale, 0.0, scale**2, -min(plain, found.fun)) for _ in draft.calibrations
    )
    told = {
        "temperature": 1.0 / scale,
        "held_out_log_loss": min(plain, float(found.fun)),
        "uncalibrated": plain,
    }
    return replace(draft, calibrations=calibrations), told


def left_out(
    problem: Problem, kernel: Kernel, active: ActiveSet, rows: IntArray, stored: Array
) -> tuple[FloatArray, FloatArray]:
    """Marginals of rows (in ascending order), those of active ones without their own site; from scratch."""
    active = active.with_capacity(active.count)
    refresh_factor(active, kernel)
    snapshot = problem.in_pass_precision(active.snapshot(kernel))
    mean, variance = np.empty(len(rows)), np.empty(len(rows))
    outside = ~is_among(rows, np.sort(active.rows[: active.count]))
    found = marginals_in_memory(snapshot, stored[outside], problem)
    assert found.variance is not None
    mean[outside], variance[outside] = found.mean[:, 0], found.variance[:, 0]
    return left_out_marginals(active, kernel, rows, mean, variance)
