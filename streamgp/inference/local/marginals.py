"""What a block's rows are thought to be, given the posterior of the inducing variables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamgp.arrays import FloatArray, Floats, IntArray
from streamgp.inference.inducing.posterior import InducingPosterior
from streamgp.inference.local.factor import BlockFactor, projected_features
from streamgp.inference.local.workspace import Workspace
from streamgp.numerics import factors
from streamgp.numerics import projection as numerics

NO_PRECISION = 1e-30
"""Up to here a site's precision counts as none: what comes of it may not be a float32."""
INVERSES = {np.dtype(np.float64): "inverse", np.dtype(np.float32): "triangle"}
"""Where L⁻¹ is in a workspace: a rounded one is all that products in float32 need."""


class BlockMarginals(NamedTuple):
    """Posterior of the latent values of b rows; (b,) each, but solved_features (b, m).

    dual_weights d = ρ − τ mean: mean = W m + R d, and predictions of new rows by the block are wᵀm + R*ᵀd
    residual_variance: what of the variance would be left if u were known
    variance_ratio q = 1 − τ variance: what the cavity's precision is of the marginal's. Where the likelihood
    is Gaussian, q τ is C⁻¹_ii and d is C⁻¹ y, C the covariance of all targets.
    solved_features Z = B⁻¹ S W, in the type of the posterior's spread
    """

    mean: FloatArray
    variance: FloatArray
    residual_variance: FloatArray
    variance_ratio: FloatArray
    dual_weights: FloatArray
    solved_features: Floats


def block_marginals(
    factor: BlockFactor,
    posterior: InducingPosterior,
    room: Workspace | None = None,
    projected: Floats | None = None,
) -> BlockMarginals:
    """Marginals of a block's rows, where the posterior holds the block's own share too.

    Z = B⁻¹ S W = L⁻ᵀ Y,  Y ``projected`` where it is known,  g = diag B⁻¹,  h = row sums of (Z L_A⁻ᵀ)²
    d = e − S Z m,  mean = W m + R d,  q = g − h,  variance = (1 − g)/τ + h/τ, the first if u were known
    where τ = 0:  variance = R_ii − |L⁻¹ S R_·i|² + |L_A⁻¹ E_i|²,  E = W − R S Z
    e, B, S factor; m, L_A⁻ᵀ = spread posterior, in whose type products with m columns are taken; Z is in
    ``room`` if that is given.
    Shapes: b rows, m inducing inputs.  Cost: ⅓ b³ + 2 b² m + b m² flops; memory :func:`marginals_bytes`.
    Hazard: 1 − g is not taken as a difference where g is near 1 (:func:`~factors.inverse_diagonal`); S Z/τ,
    which is E, loses digits only as the root of what a row's precision is of the block's largest.
    Source: [PIC2007].  Oracle: tests/reference/pic_dense.py
    """
    precision, root, residual = factor.sites.precision, factor.root, factor.prior.residual
    features, spread = factor.prior.features, posterior.spread
    room = Workspace() if room is None else room
    solved = room.take("solved", features.shape, spread.dtype)
    if projected is None:
        projected_features(factor, spread.dtype, room)
    else:
        solved[...] = projected
    inverse = room.take(INVERSES[factor.lower.dtype], factor.lower.shape, factor.lower.dtype)
    inverse[...] = factor.lower
    factors.invert_lower(inverse)
    gain, taken = np.empty((2, len(root)))
    factors.inverse_diagonal(factor.lower, inverse, precision * residual.diagonal(), gain, taken)
    triangle = room.cast("triangle", inverse, spread.dtype)
    factors.multiply_lower(triangle, solved, transposed=True)
    spreads = room.take("projected", features.shape, spread.dtype)
    spreads[...] = solved
    solved_mean, explained = projected_rows(spreads, posterior)
    dual = factor.own_weights - root * solved_mean
    mean = features @ posterior.inducing_mean + residual @ dual

    has_site = precision > NO_PRECISION
    own = np.divide(taken, precision, out=np.zeros_like(gain), where=has_site)
    by_inducing = np.divide(explained, precision, out=np.zeros_like(gain), where=has_site)
    flat = np.flatnonzero(~has_site)
    if flat.size:
        own[flat], by_inducing[flat] = _flat_variances(factor, solved, posterior, flat)
    return BlockMarginals(mean, own + by_inducing, own, gain - explained, dual, solved)


def _flat_variances(
    factor: BlockFactor, solved: Floats, posterior: InducingPosterior, chosen: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Both parts of the variance of chosen rows whose own sites say nothing."""
    residual, root = factor.prior.residual, factor.root
    left_over = factor.prior.features[chosen].astype(solved.dtype, copy=False)
    own = residual.diagonal()[chosen].copy()
    if root.any():
        covariance = residual[chosen] * root
        left_over -= covariance.astype(solved.dtype, copy=False) @ solved
        stubs = np.ascontiguousarray(covariance.T, factor.lower.dtype)
        factors.solve_lower(factor.lower, stubs)
        own -= np.einsum("ij,ij->j", stubs, stubs)
    return np.maximum(own, 0.0), projected_rows(left_over, posterior)[1]


def projected_rows(rows: Floats, posterior: InducingPosterior) -> tuple[FloatArray, FloatArray]:
    """Rows times m, and the row sums of (rows L_A⁻ᵀ)², (b,) each; rows (b, m) are overwritten."""
    mean, squares = np.zeros(len(rows)), np.zeros(len(rows))
    numerics.multiply_triangle(rows, posterior.spread, transposed=False)
    numerics.add_row_moments(rows, posterior.projected_targets, mean, squares)
    return mean, squares


def marginals_bytes(rows: int, n_inducing: int, itemsize: int) -> int:
    """Upper bound of the bytes of :func:`block_marginals`, its result included, the factor not.

    Half of it is for rows whose sites are flat: there may be none, or all.
    """
    cast = itemsize if itemsize < 8 else 0
    triangles = rows * rows * (8 + cast) + 2 * rows * n_inducing * itemsize
    flat = rows * rows * (16 + cast) + rows * n_inducing * (8 + itemsize)
    return triangles + flat + 96 * rows
