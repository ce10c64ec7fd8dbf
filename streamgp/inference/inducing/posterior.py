"""The posterior of the whitened inducing variables, and what it predicts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import LinAlgError, solve_triangular

from streamgp.arrays import Array, FloatArray
from streamgp.inference.inducing.basis import Basis, inverse_factor, with_enough_jitter
from streamgp.numerics.projection import multiply_triangle
from streamgp.posterior import Head

ROUNDING = 1e-13
"""Where a Cholesky factor fails, the jitter that is tried first, relative to the matrix."""


SMALLEST_GAIN = 1e-12
"""Share of the prior variance |w|² that a head takes off for the sake of its factor."""


@dataclass(frozen=True, eq=False)
class InducingPosterior:
    """q(u) = N(m, A⁻¹) of the whitened inducing variables, frozen.

    A = 1 + Σ τ w wᵀ = L_A L_Aᵀ,  r = Σ ρ w,  m = A⁻¹ r;  s = wᵀu has mean wᵀm and variance |Rᵀw|²
    R = L_A⁻ᵀ spread, upper triangular; Rᵀ r projected_targets, so that wᵀm = (Rᵀw)·(Rᵀr).
    Shapes: spread (m, m) in the type of the arithmetic of a pass, vectors (m,).
    """

    spread: Array
    projected_targets: FloatArray
    inducing_mean: FloatArray
    log_determinant: float
    jitter: float = 0.0
    """What had to be added to A because rounding had made it indefinite; 0 but for broken sums."""

    def astype(self, dtype: DTypeLike) -> InducingPosterior:
        """The same posterior for passes in another precision."""
        return replace(self, spread=self.spread.astype(dtype, copy=False))


def prior_posterior(n_inducing: int) -> InducingPosterior:
    """The posterior of flat sites: the prior."""
    zeros = np.zeros(n_inducing)
    return InducingPosterior(np.eye(n_inducing), zeros, zeros, 0.0)


def posterior_from_moments(moment_matrix: FloatArray, moment_vector: FloatArray) -> InducingPosterior:
    """The posterior that sums over all rows imply, in float64.

    A = 1 + Σ τ w wᵀ from scratch, moment_matrix Σ τ w wᵀ, moment_vector r = Σ ρ w.
    Shapes: (m, m), (m,).  Cost: O(m³); memory: three matrices (m, m).
    Hazard: A ≥ 1 in exact arithmetic as τ ≥ 0, but float32 blocks with sites sharper than 1e7 times the prior
    lose that; then A is refreshed with the least jitter that restores it, which is reported.
    Source: [FITC2007] section 3, the refresh.
    """
    precision = moment_matrix + np.eye(len(moment_matrix))
    jitter = 0.0
    try:
        spread = inverse_factor(precision.copy())
    except LinAlgError:
        jitter = with_enough_jitter(precision, ROUNDING * float(np.mean(precision.diagonal())))[1]
        precision[np.diag_indices_from(precision)] += jitter
        spread = inverse_factor(precision)
    log_determinant = -2.0 * float(np.log(spread.diagonal()).sum())
    projected = moment_vector @ spread
    return InducingPosterior(spread, projected, spread @ projected, log_determinant, jitter)


def head_from_posterior(
    basis: Basis, posterior: InducingPosterior, columns: slice = slice(None), *, residual: float = 1.0
) -> Head:
    """The posterior as a head over the inducing inputs: what prediction needs, without the training rows.

    mean = wᵀm,  variance = s D0 + |Rᵀw|², where s = 1: k(x, x) − wᵀ(1 − A⁻¹) w
    s = 1:  C Cᵀ = 1 − A⁻¹ (+ jitter), C upper triangular;  projection T = T_u C,  C β = m
    s < 1:  T = T_u R,  β = Rᵀr,  and T_u itself unless s = 0
    s residual, as in training, so that new rows are treated as training rows were: at s = 0, D0 in full made
    the log loss of MNIST 9-vs-rest 0.137 instead of 0.053. With s = 1 here, sites of s = 0 predict as the
    projected process does, whose variance far from all inducing inputs is the prior's.
    Shapes: m inducing inputs.  Cost: O(m³); memory: four matrices (m, m).
    Hazard: 1 − A⁻¹ is singular in directions that no row speaks about; the jitter (1e-12, more if that is not
    enough) makes variances smaller by so much of |w|².
    Source: [FITC2007] section 3.1.  Oracle: tests/reference/fitc_dense.py
    """
    spread = np.asarray(posterior.spread, np.float64)
    whitening = np.ascontiguousarray(basis.whitening, np.float64)
    projection = whitening.copy()
    if residual < 1.0:
        multiply_triangle(projection, spread, transposed=False)
        kept = whitening if residual > 0.0 else None
        return Head(projection, posterior.projected_targets, columns, residual=residual, whitening=kept)
    gain = spread @ spread.T
    np.negative(gain, out=gain)
    gain[np.diag_indices_from(gain)] += 1.0
    # A Cholesky factor of the matrix turned by 180 degrees, turned back, is upper triangular.
    factor = with_enough_jitter(gain[::-1, ::-1], SMALLEST_GAIN)[0][::-1, ::-1]
    targets = solve_triangular(factor, posterior.inducing_mean, lower=False, check_finite=False)
    multiply_triangle(projection, np.ascontiguousarray(factor), transposed=False)
    return Head(projection, targets, columns)
