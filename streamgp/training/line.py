"""A linear model of some rows of the sample: what a fit is to be better than.

Written out: to import scikit-learn's linear models would add ten megabytes to the memory of every fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from streamgp.arrays import FloatArray, IntArray
from streamgp.budget import parse_size
from streamgp.data import RealTargets
from streamgp.likelihoods import Gaussian
from streamgp.passes.candidates import Pool
from streamgp.training.problem import Problem

ROWS, STEPS = 2000, 100
MOST_CELLS, MOST_FEATURES = 2_000_000, 1000
"""Rows times features that it learns from: a second at most."""
BUDGET_PART = 64
"""Its rows, and a matrix of its features, have this part of the memory budget at most, each."""


def line_log_densities(problem: Problem, judges: Pool, likelihood: Any) -> FloatArray | None:
    """Log density of each judge's target by logistic or ridge regression, in the targets' own units.

    None where there are weights, a likelihood that is no normal one, a class that the judges alone have, or
    so many features that it would take long, or more memory than there is.
    """
    targets = problem.prepared.targets
    is_real = isinstance(targets, RealTargets)
    if not problem.weights.are_even or (is_real and not isinstance(likelihood, Gaussian)):
        return None
    room, width = parse_size(problem.settings.memory_budget) // (8 * BUDGET_PART), problem.n_features + 1
    if width > MOST_FEATURES or width**2 > room:
        return None
    order = problem.sample_order(min(ROWS, MOST_CELLS // width, room // width))
    rows = problem.sample.take(order[problem.is_labelled(problem.sample.targets[order])])
    known = np.unique(rows.targets)
    if len(known) < 2 or not (is_real or np.all(np.isin(judges.targets, known))):
        return None
    inputs, asked = (
        np.column_stack([np.ones(len(pool.rows)), problem.inputs(pool.features)]) for pool in (rows, judges)
    )
    if isinstance(targets, RealTargets):
        found: FloatArray = _normal(inputs, rows.targets, asked, judges.targets) - np.log(targets.scale)
        return found
    codes, wanted = np.searchsorted(known, rows.targets), np.searchsorted(known, judges.targets)
    return _logistic(inputs, codes, problem.sample_weights(rows.targets), asked, wanted)


def _normal(inputs: FloatArray, targets: FloatArray, asked: FloatArray, wanted: FloatArray) -> FloatArray:
    """Ridge regression: w = (XᵀX + 1)⁻¹ Xᵀy,  variance = s² (1 + x (XᵀX + 1)⁻¹ xᵀ).

    s² = |y − Xw|² / (n − tr X (XᵀX + 1)⁻¹ Xᵀ).
    """
    inverse = np.linalg.inv(inputs.T @ inputs + np.eye(inputs.shape[1]))
    weights = inverse @ (inputs.T @ targets)
    free = len(targets) - float(np.sum((inputs @ inverse) * inputs))
    noise = max(float(np.sum((targets - inputs @ weights) ** 2)) / max(free, 1.0), 1e-12)
    variance = noise * (1.0 + np.sum((asked @ inverse) * asked, axis=1))
    found: FloatArray = -0.5 * (np.log(2.0 * np.pi * variance) + (wanted - asked @ weights) ** 2 / variance)
    return found


def _logistic(
    inputs: FloatArray, codes: IntArray, counts: FloatArray, asked: FloatArray, wanted: IntArray
) -> FloatArray:
    """argmin_W  −Σ c_i log softmax(x_i W)_{y_i} + |W|²/2, but for the row of W that is the bias."""
    labels = np.eye(codes.max() + 1)[codes]
    shape = inputs.shape[1], labels.shape[1]
    strength = np.ones(shape)
    strength[0] = 0.0

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        weights = vector.reshape(shape)
        logs = log_softmax(inputs @ weights, axis=1)
        loss = -float(counts @ np.sum(labels * logs, axis=1))
        slope = inputs.T @ (counts[:, None] * (np.exp(logs) - labels)) + strength * weights
        return loss + 0.5 * float(np.sum(strength * weights**2)), slope.ravel()

    start = np.zeros(shape).ravel()
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    logs = log_softmax(asked @ found.x.reshape(shape), axis=1)
    densities: FloatArray = logs[np.arange(len(wanted)), wanted]
    return densities
