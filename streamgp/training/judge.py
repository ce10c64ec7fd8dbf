"""The judge of held-out rows: what a posterior in memory says about rows in memory, and which is better."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from streamgp.arrays import Array, FloatArray
from streamgp.inference.local.snapshot import LocalSnapshot, marginals_side_by_side
from streamgp.likelihoods import Likelihood
from streamgp.passes import PassSettings
from streamgp.passes.blas import single_threaded_blas
from streamgp.passes.run import available_threads
from streamgp.posterior import Marginals, Snapshot
from streamgp.posterior.calibration import UNCALIBRATED, calibrate
from streamgp.training.problem import Problem

BLOCK = 512
"""Rows at a time: their kernel block is small beside the factor."""
CUT = 0.01
"""Share of rows on either side whose differences count as outliers."""


def marginals_in_memory(
    snapshot: Snapshot | LocalSnapshot, rows: Array, problem: Problem | None = None
) -> Marginals:
    """Latent means and variances of rows, by all heads of a snapshot and in its precision.

    Rows are as stored if the ``problem`` is given, which standardises them, else they are standardised.
    Shapes: rows (n, p) → (n, heads) each.  Cost: O(n d (p + d)) a head, blocks side by side.
    """
    if isinstance(snapshot, LocalSnapshot):
        if problem is None:
            return marginals_side_by_side(snapshot, rows, PassSettings(BLOCK, available_threads()))
        return marginals_side_by_side(snapshot, problem.inputs(rows), problem.pass_settings)
    mean, variance = np.empty((2, len(rows), len(snapshot.heads)))

    def fill(start: int) -> None:
        here = slice(start, start + BLOCK)
        block = rows[here] if problem is None else problem.inputs(rows[here], snapshot.dtype)
        found = snapshot.marginals(block)
        assert found.variance is not None
        mean[here], variance[here] = found.mean, found.variance

    with single_threaded_blas(), ThreadPoolExecutor(available_threads()) as pool:
        list(pool.map(fill, range(0, len(rows), BLOCK)))
    return Marginals(mean, variance)


def log_densities(
    likelihood: Likelihood,
    targets: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    *,
    calibrated: bool,
    weights: FloatArray | None = None,
) -> FloatArray:
    """Log density of each target under its marginal, ``calibrated`` by the same (weighted) rows or as it is.

    Without calibration, small active sets are overconfident and would be judged for that alone.
    Shapes: (c,) each.
    """
    likelihood = likelihood.of_labels
    found = calibrate(likelihood, targets, mean, variance, weights) if calibrated else UNCALIBRATED
    scaled = found.mean_scale * mean + found.mean_offset
    return likelihood.log_predictive_density(targets, scaled, found.variance_scale * variance)


def is_better(densities: FloatArray, others: FloatArray, errors: float = 1.0) -> bool:
    """Whether rows prefer one model to another by more than so many standard errors of the mean difference.

    Shapes: log densities of the same rows, of any equal shape.
    """
    return _exceeds(np.ravel(densities - others), errors)


def is_better_but_for_outliers(densities: FloatArray, others: FloatArray, errors: float = 1.0) -> bool:
    """As :func:`is_better`, in the mean of all rows or of differences cut at their outer hundredths.

    One row on which the others lose 50 nats widens the standard error as much as it moves the mean: it says
    nothing against a model that most rows prefer.
    """
    difference = np.ravel(densities - others)
    if difference.size < 2 or not difference.mean() > 0.0:
        return False
    cut = np.clip(difference, *np.quantile(difference, [CUT, 1.0 - CUT]))
    return _exceeds(difference, errors) or _exceeds(cut, errors)


def _exceeds(difference: FloatArray, errors: float) -> bool:
    if difference.size < 2:
        return False
    return bool(difference.mean() > errors * difference.std() / np.sqrt(difference.size))


def unconditional_log_density(problem: Problem, targets: FloatArray, weights: FloatArray) -> float:
    """Mean log density of targets by their own distribution: shares of classes, or a normal one."""
    shares = weights / weights.sum()
    if problem.is_classification:
        _, codes = np.unique(targets, return_inverse=True)
        of_classes = np.bincount(codes, shares)
        return float(of_classes @ np.log(of_classes))
    variance = float(shares @ np.square(targets - shares @ targets))
    return -0.5 * (math.log(2.0 * math.pi * variance) + 1.0)
