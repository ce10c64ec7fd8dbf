"""The last stage of an active set: how far its posterior is to be trusted."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.inference.active_set import ActiveSet, left_out_marginals, refresh_factor
from streamgp.inference.families import without_families
from streamgp.kernels import Kernel
from streamgp.likelihoods import Gaussian, JointLikelihood, Likelihood, Softmax
from streamgp.passes.candidates import is_among
from streamgp.posterior.calibration import (
    Calibration,
    calibrate,
    calibrate_against_rest,
    calibrate_jointly,
    calibrate_noise,
    calibrate_points,
)
from streamgp.posterior.predictive import ClassPredictive
from streamgp.training.heads import snapshot_of
from streamgp.training.judge import is_better, marginals_in_memory, unconditional_log_density
from streamgp.training.left_out_points import LeftOutPoints, left_out_points
from streamgp.training.left_out_sites import left_out_of_sweeps
from streamgp.training.local import LocalSweeps, block_store, left_out_blocks
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Stage, once

CALIBRATION_ROWS = 10_000
FEWEST_TO_CALIBRATE = 100
FOLDS = 5


def calibration() -> Stage:
    """Calibrate every head by the density of the sample's rows, each as if left out, weighted by class."""
    return once("calibrate", _calibrated)


def _calibrated(problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
    sample = problem.sample
    order = problem.sample_order()
    chosen = np.sort(order[problem.is_labelled(sample.targets[order])][:CALIBRATION_ROWS])
    rows, features = sample.rows[chosen], sample.features[chosen]
    weights = problem.sample_weights(sample.targets[chosen])
    weights *= problem.weights.of_rows(rows, sample.targets[chosen])
    calibrations, baselines = [], []
    for head, (active, likelihood) in enumerate(zip(draft.actives, draft.likelihoods, strict=True)):
        targets = problem.head_targets(sample.targets[chosen], head)
        mean, variance = left_out(problem, draft.kernel, active, rows, features)
        calibrations.append(calibrate(likelihood.of_labels, targets, mean, variance, weights))
        baselines.append(unconditional_log_density(problem, targets, weights))
    told = {
        "rows": len(rows),
        "left_out_log_density": float(np.mean([calibration.log_density for calibration in calibrations])),
        "left_out_baseline": float(np.mean(baselines)),
    }
    return replace(draft, calibrations=tuple(calibrations)), told


def combination() -> Stage:
    """Combine heads of one class against the rest: scale and offsets of their log odds, by rows held out."""

    def work(problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
        held_out = problem.held_out
        if len(held_out.rows) < FEWEST_TO_CALIBRATE:
            return draft, {}
        snapshot, predictive = snapshot_of(draft), ClassPredictive(draft.likelihoods)
        marginals = marginals_in_memory(snapshot, held_out.features, problem)
        codes = held_out.targets.astype(np.intp)
        plain = predictive.log_probabilities(marginals)[np.arange(len(codes)), codes]
        weights = problem.weights.of_rows(held_out.rows, held_out.targets)
        points = LeftOutPoints(predictive.log_odds(marginals), held_out.targets, weights, held_out.keys)
        found, densities = _kept(Softmax(), points, plain)
        told = {"held_out_log_loss": -float(densities.mean()), "uncombined": -float(plain.mean())}
        return replace(draft, combination=found or ()), told

    return once("combine", work)


def _kept(
    likelihood: Likelihood | JointLikelihood, points: LeftOutPoints, plain: FloatArray
) -> tuple[tuple[Calibration, ...] | None, FloatArray]:
    """Scale, or scale and offsets, as far as cross-validation gains by them; and the log densities then.

    A gain is more than a standard error. Rows count as often as they would in the fit. ``plain`` (n,) are
    the log densities of the rows as they are.
    """
    latent, targets, weights, keys = points
    # Keys are random: every fold has rows of everywhere.
    folds = np.argsort(np.argsort(keys, kind="stable")) % FOLDS
    best, found = plain, None
    for with_offsets in (False, True):
        fit = partial(calibrate_points, likelihood, with_offsets=with_offsets)
        densities = np.empty(len(targets))
        for fold in range(FOLDS):
            here = folds == fold
            own = fit(targets[~here], latent[~here], weights[~here])
            densities[here] = likelihood.mode_terms(targets[here], _applied(own, latent[here])).log_density
        if is_better(weights * densities, weights * best):
            best, found = densities, fit(targets, latent, weights)
    return found, best


def point_calibration() -> Stage:
    """Scale and offsets of a mode by rows left out; each is kept only if cross-validation gains by it."""
    return once("calibrate", _calibrated_points)


def _calibrated_points(problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
    [likelihood] = draft.likelihoods
    points = left_out_points(problem, draft)
    if len(points.targets) < FEWEST_TO_CALIBRATE:
        return draft, {"temperature": 1.0}
    if not isinstance(likelihood, JointLikelihood):
        points = points._replace(targets=problem.head_targets(points.targets, 0))
    plain = likelihood.mode_terms(points.targets, points.latent).log_density
    found, densities = _kept(likelihood, points, plain)
    calibrations = found or draft.calibrations
    told = {
        "temperature": 1.0 / calibrations[0].mean_scale,
        "offsets": [one.mean_offset for one in calibrations],
        "rows": len(points.targets),
        "held_out_log_loss": -float(densities.mean()),
        "uncalibrated": -float(plain.mean()),
    }
    return replace(draft, calibrations=calibrations), told


def spread_calibration() -> Stage:
    """Scales of means and variances of joint classes by rows left out, if cross-validation gains by them."""
    return once("calibrate", _calibrated_spread)


def _calibrated_spread(problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
    [likelihood] = draft.likelihoods
    mean, variance, codes, weights, keys = left_out_of_sweeps(problem, draft)
    if len(codes) < FEWEST_TO_CALIBRATE:
        return draft, {}
    folds = np.argsort(np.argsort(keys, kind="stable")) % FOLDS
    plain, densities = likelihood.tilted_moments(codes, mean, variance).log_z, np.empty(len(codes))
    for fold in range(FOLDS):
        here, others = folds == fold, folds != fold
        own = calibrate_jointly(likelihood, codes[others], mean[others], variance[others], weights[others])
        scaled = own.mean_scale * mean[here], own.variance_scale * variance[here]
        densities[here] = likelihood.tilted_moments(codes[here], *scaled).log_z
    gains = is_better(weights * densities, weights * plain)
    found = calibrate_jointly(likelihood, codes, mean, variance, weights) if gains else Calibration()
    told = {
        "mean_scale": found.mean_scale,
        "variance_scale": found.variance_scale,
        "rows": len(codes),
        "left_out_log_density": float(np.average(densities if gains else plain, weights=weights)),
        "uncalibrated": float(np.average(plain, weights=weights)),
    }
    return replace(draft, calibrations=(found,) * problem.n_heads), told


def _applied(calibrations: tuple[Calibration, ...], latent: FloatArray) -> FloatArray:
    scales, offsets, *_ = np.array(calibrations).T
    return np.asarray(latent * scales + offsets)


def local_calibration() -> Stage:
    """Calibrate by the rows of some blocks, each predicted by all others of its block and halo."""
    return once("calibrate", _locally_calibrated)


def _locally_calibrated(problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
    sweeps, store = draft.sweeps, block_store(problem)
    assert isinstance(sweeps, LocalSweeps)
    found = left_out_blocks(problem, sweeps.final_snapshot(problem, draft, store), CALIBRATION_ROWS)
    weights = problem.weights.of_rows(found.numbers, found.targets)
    likelihoods, first = draft.likelihoods, draft.likelihoods[0]
    if problem.n_heads > 1:
        moments = (found.targets, found.mean, found.variance)
        calibrations = calibrate_against_rest(likelihoods, *moments, weights)
    elif isinstance(first, Gaussian):
        moments = (found.targets, found.mean[:, 0], found.variance[:, 0])
        one, noise = calibrate_noise(*moments, first.noise, weights)
        calibrations, likelihoods = (one,), (replace(first, noise=noise),)
    else:
        targets = problem.head_targets(found.targets, 0)
        calibrations = (calibrate(first, targets, found.mean[:, 0], found.variance[:, 0], weights),)
    told = {
        "rows": len(found.targets),
        "left_out_log_density": float(np.mean([calibration.log_density for calibration in calibrations])),
        "left_out_baseline": unconditional_log_density(problem, found.targets, weights),
    }
    return replace(draft, calibrations=calibrations, likelihoods=likelihoods), told


def left_out(
    problem: Problem, kernel: Kernel, active: ActiveSet, rows: IntArray, stored: Array
) -> tuple[FloatArray, FloatArray]:
    """Marginals of rows (in ascending order), those of active ones without their own site; from scratch."""
    active = active.with_capacity(active.count)
    refresh_factor(active, kernel)
    snapshot = problem.in_pass_precision(active.snapshot(kernel))
    mean, variance = np.empty(len(rows)), np.empty(len(rows))
    families = active.rows[: active.count] % problem.n_rows  # a row and its transformations
    outside = ~is_among(rows, np.unique(families))
    found = marginals_in_memory(snapshot, stored[outside], problem)
    assert found.variance is not None
    mean[outside], variance[outside] = found.mean[:, 0], found.variance[:, 0]
    if np.all(families == active.rows[: active.count]):
        return left_out_marginals(active, kernel, rows, mean, variance)
    inputs = problem.inputs(stored[~outside])
    mean[~outside], variance[~outside] = without_families(kernel, active, families, inputs, rows[~outside])
    return mean, variance
