"""The joint mode of several classes, seen through inducing inputs: means alone, without any spread.

f_c = wᵀu_c,  u_c ~ N(0, 1) for every class c;  the mode maximises Σ log p(y|f) − ½ Σ |u_c|²
Its cost grows with m C for each row, not with m²: the kernel block is met by weights T_u U, never whitened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from streamgp.arrays import Array, FloatArray
from streamgp.inference.inducing.basis import Basis, inverse_factor
from streamgp.inference.inducing.heads import RowWeights
from streamgp.likelihoods import JointLikelihood
from streamgp.numerics.projection import weighted_moments

CURVED_ROWS = 4096
"""Rows at a time whose curvature is summed: bounds the float32 products."""


class ModeSums(NamedTuple):
    """Sums over rows: log p(y|f), and its gradient by the weights of the kernel block, (m, C)."""

    log_density: float
    gradient: FloatArray


def merge_modes(earlier: ModeSums, later: ModeSums) -> ModeSums:
    """Sums over the rows of both; the array of ``earlier`` is added to in place."""
    gradient = earlier.gradient
    gradient += later.gradient
    return ModeSums(earlier.log_density + later.log_density, gradient)


@dataclass(frozen=True, eq=False)
class ModeStep:
    """What rows add to the log density and its gradient, as the step of a pass.

    f = K V,  V = T_u U;  Σ ω log p(y|f),  Σ Kᵀ ω (d log p/df)
    Shapes: weights V (m, C), in the type of the basis.  Cost: 2 p m + 4 m C flops a row.
    Hazard: V is large where K_uu is nearly singular: in float32 f errs by about 3e-3.
    """

    basis: Basis
    weights: Array
    likelihood: JointLikelihood
    row_weights: RowWeights

    def __call__(
        self, start: int, features: Array, encoded: FloatArray, sites: FloatArray | None
    ) -> tuple[None, list[ModeSums]]:
        """The sums of a block; there are no sites."""
        block = self.basis.prepared.block(features)
        weight = self.row_weights(start, encoded)
        value, slopes = _weighted_slopes(self.likelihood, block @ self.weights, encoded, weight)
        gradient = block.T @ slopes.astype(block.dtype)
        return None, [ModeSums(value, gradient.astype(np.float64))]


def _weighted_slopes(
    likelihood: JointLikelihood, latent: Array, encoded: FloatArray, weight: FloatArray
) -> tuple[float, FloatArray]:
    terms = likelihood.mode_terms(encoded, latent)
    return float(weight @ terms.log_density), weight[:, None] * terms.gradient


class Mode(NamedTuple):
    """Whitened weights U (m, C) at the maximum, and its value, the log prior included."""

    weights: FloatArray
    value: float


def find_mode(
    features: Array,
    encoded: FloatArray,
    weight: FloatArray,
    likelihood: JointLikelihood,
    *,
    variance: float = 1.0,
    start: FloatArray | None = None,
    n_classes: int,
    most_steps: int = 100,
) -> Mode:
    """The mode of rows in memory by L-BFGS: u ~ N(0, variance), features w as given.

    Shapes: features (n, m), encoded and weight (n,), start (m, C).  Cost: 4 n m C flops an evaluation.
    Oracle: a dense optimiser, tests/inference/test_mode.py
    """
    m = features.shape[1]

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        u = vector.reshape(m, n_classes)
        latent = features @ u.astype(features.dtype)
        value, slopes = _weighted_slopes(likelihood, latent, encoded, weight)
        gradient = (features.T @ slopes.astype(features.dtype)).astype(np.float64)
        prior = float(vector @ vector) / (2.0 * variance)
        return prior - value, (u / variance - gradient).ravel()

    first = np.zeros(m * n_classes) if start is None else start.ravel()
    found = minimize(
        objective, first, jac=True, method="L-BFGS-B", options={"maxiter": most_steps, "maxcor": 20}
    )
    return Mode(np.asarray(found.x).reshape(m, n_classes), -float(found.fun))


def mode_scale(
    features: Array, weight: FloatArray, latent: FloatArray, likelihood: JointLikelihood
) -> FloatArray:
    """R, upper triangular: with U = R Z the problem is round, where rows like these decide about it.

    R Rᵀ = (1 + Σ ω h w wᵀ)⁻¹,  h the mean curvature of a row's classes
    Shapes: features w (n, m), weight ω (n,), latent (n, C) → (m, m).  Cost: n m² + m³ flops.
    """
    codes = np.argmax(latent, axis=1)
    curvature = weight * likelihood.mode_terms(codes, latent).curvature.mean(axis=1)
    matrix = np.eye(features.shape[1])
    for begin in range(0, len(features), CURVED_ROWS):
        here = slice(begin, begin + CURVED_ROWS)
        matrix += weighted_moments(np.ascontiguousarray(features[here]), curvature[here])
    return inverse_factor(matrix)
