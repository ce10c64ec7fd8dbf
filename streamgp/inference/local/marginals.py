"""What a block's rows are thought to be, given the posterior of the inducing variables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamgp.arrays import Array, FloatArray, Floats
from streamgp.inference.inducing.posterior import InducingPosterior
from streamgp.inference.local.factor import RESOLVED, BlockFactor
from streamgp.numerics import factors
from streamgp.numerics import projection as numerics


class BlockMarginals(NamedTuple):
    """Posterior of the latent values of b rows; (b,) each, but solved_features (b, m).

    dual_weights d = ρ − τ mean: mean = W m + R d, and predictions of new rows by the block are wᵀm + R*ᵀd
    variance_ratio q = 1 − τ variance: what the cavity's precision is of the marginal's. Where the likelihood
    is Gaussian, q τ is C⁻¹_ii and d is C⁻¹ y, C the covariance of all targets.
    solved_features Z = B⁻¹ S W, in the type of the posterior's spread
    """

    mean: FloatArray
    variance: FloatArray
    variance_ratio: FloatArray
    dual_weights: FloatArray
    solved_features: Floats


def block_marginals(factor: BlockFactor, posterior: InducingPosterior) -> BlockMarginals:
    """Marginals of a block's rows, where the posterior holds the block's own share too.

    Z = B⁻¹ S W,  g = diag B⁻¹,  h = row sums of (Z L_A⁻ᵀ)²
    d = e − S Z m,  mean = W m + R d,  q = g − h,  variance = (1 − g + h)/τ
    where 1 − g < 1e-6:  variance = R_ii − |L⁻¹ S R_·i|² + |L_A⁻¹ E_i|²,  E = W − R S Z
    e, B, S factor; m, L_A⁻ᵀ = spread posterior, in whose type products with m columns are taken.
    Shapes: b rows, m inducing inputs.  Cost: ⅓ b³ + 2 b² m + b m² flops; memory :func:`marginals_bytes`.
    Hazard: neither form divides by a small τ nor subtracts nearly equal numbers; S Z/τ, which is E, loses
    digits only as the root of what a row's precision is of the block's largest.
    Source: [PIC2007].  Oracle: tests/reference/pic_dense.py
    """
    precision, root, residual = factor.sites.precision, factor.root, factor.prior.residual
    features, spread = factor.prior.features, posterior.spread
    inverse = factor.lower.copy()
    factors.invert_lower(inverse)
    gain = np.empty(len(root))
    factors.lower_column_squares(inverse, gain)
    solved = (root[:, None] * features).astype(spread.dtype, copy=False)
    triangle = inverse.astype(spread.dtype, copy=False)
    factors.multiply_lower(triangle, solved)
    factors.multiply_lower(triangle, solved, transposed=True)
    solved_mean, explained = numerics.project(solved, spread, posterior.projected_targets)
    dual = factor.own_weights - root * solved_mean
    mean = features @ posterior.inducing_mean + residual @ dual

    has_digits = 1.0 - gain >= RESOLVED
    variance = np.divide(1.0 - gain + explained, precision, out=np.zeros_like(gain), where=has_digits)
    flat = np.flatnonzero(~has_digits)
    if flat.size:
        variance[flat] = _flat_variances(factor, inverse, solved, spread, flat)
    return BlockMarginals(mean, variance, gain - explained, dual, solved)


def _flat_variances(
    factor: BlockFactor, inverse: FloatArray, solved: Floats, spread: Array, chosen: Array
) -> FloatArray:
    """Variances of chosen rows whose own sites say next to nothing; see :func:`block_marginals`."""
    residual, root = factor.prior.residual, factor.root
    left_over = factor.prior.features[chosen].astype(spread.dtype)
    known = residual.diagonal()[chosen].copy()
    if root.any():
        covariance = residual[chosen] * root
        left_over -= covariance.astype(spread.dtype, copy=False) @ solved
        stubs = np.ascontiguousarray(covariance.T)
        factors.multiply_lower(inverse, stubs)
        known -= np.einsum("ij,ij->j", stubs, stubs)
    _, by_inducing = numerics.project(left_over, spread, np.zeros(len(spread)))
    return np.maximum(known, 0.0) + by_inducing


def marginals_bytes(rows: int, n_inducing: int, itemsize: int) -> int:
    """Upper bound of the bytes of :func:`block_marginals`, its result included, the factor not.

    Twice what it takes where few sites are flat: before the first sweep all of them are.
    """
    inverse = rows * rows * (8 + (itemsize if itemsize < 8 else 0))
    products = rows * n_inducing * (8 + itemsize) + numerics.workspace_bytes(rows, itemsize)
    flat = rows * rows * (8 + itemsize) + rows * n_inducing * (8 + itemsize)
    return inverse + products + flat + 96 * rows
