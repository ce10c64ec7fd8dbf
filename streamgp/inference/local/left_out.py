"""The density of each target given all others, under Gaussian noise, and its gradient, as sums over blocks.

Three rounds over the blocks: moments of the posterior (:func:`~streamgp.inference.local.sweep.exact_block`),
densities (:func:`left_out_block`), and, where a gradient is wanted, slopes (:func:`left_out_slopes`). Under
other likelihoods the cavities of a sweep give the densities, and have no gradient so simple.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamgp.arrays import Array, FloatArray
from streamgp.inference.inducing.basis import Basis
from streamgp.inference.inducing.posterior import InducingPosterior
from streamgp.inference.inducing.slopes import Evidence, gram_gradient
from streamgp.inference.local.factor import factor_block, factor_bytes
from streamgp.inference.local.marginals import BlockMarginals, block_marginals, marginals_bytes
from streamgp.inference.local.prior import BlockPrior
from streamgp.inference.local.slopes import contracted, dual_precision
from streamgp.inference.sites import Sites
from streamgp.kernels import Kernel
from streamgp.likelihoods import Gaussian


class LeftOut(NamedTuple):
    """Predictions of b targets, each by all others: mean, variance (noise included) and log density, (b,)."""

    mean: FloatArray
    variance: FloatArray
    log_density: FloatArray


class LeftOutSums(NamedTuple):
    """Sums over rows: log densities, squared errors, and what their gradient needs of all blocks.

    curvature N = Σ Jᵀ diag(q) J (m, m), pull z = Σ Jᵀ p (m,):  p = d/D_ii,  q = ½ (1/D_ii + p²)
    """

    log_density: float
    squared_error: float
    rows: int
    curvature: FloatArray
    pull: FloatArray


class LeftOutSlopes(NamedTuple):
    """Sums over blocks: gradient by kernel log parameters, by the noise, and Σ Gᵀ W (m, m) for dK_uu."""

    kernel_gradient: FloatArray
    noise_gradient: float
    products: FloatArray


def noise_sites(likelihood: Gaussian, targets: FloatArray) -> Sites:
    """The sites of Gaussian noise: τ = 1/σ², ρ = y/σ²."""
    precision = np.full(len(targets), 1.0 / likelihood.noise)
    return Sites(precision, precision * targets)


def left_out_densities(marginals: BlockMarginals, sites: Sites) -> LeftOut:
    """Each target predicted by all others.

    D_ii = τ q,  mean y − d/D_ii,  variance 1/D_ii
    τ, y = ρ/τ sites; q, d marginals.  Shapes: (b,) each.  Cost: O(b).
    Source: Rasmussen and Williams (2006) eq. 5.12.  Oracle: tests/reference/pic_dense.py
    """
    inverse_variance = sites.precision * marginals.variance_ratio
    error = marginals.dual_weights / inverse_variance
    log_density = 0.5 * (np.log(inverse_variance / (2.0 * np.pi)) - error * marginals.dual_weights)
    targets = sites.precision_mean / sites.precision
    return LeftOut(targets - error, 1.0 / inverse_variance, log_density)


def left_out_block(
    prior: BlockPrior, posterior: InducingPosterior, targets: FloatArray, likelihood: Gaussian
) -> tuple[LeftOut, LeftOutSums]:
    """Left-out predictions of a block's targets, and the block's sums.

    Shapes: targets (b,).  Cost: ⅔ b³ + 2 b² m + 2 b m² flops.
    """
    sites = noise_sites(likelihood, targets)
    marginals = block_marginals(factor_block(prior, sites), posterior)
    found = left_out_densities(marginals, sites)
    error, half_square = _slopes_by_dual(found, targets)
    scaled = np.sqrt(sites.precision * half_square)[:, None] * marginals.solved_features
    pull = (np.sqrt(sites.precision) * error) @ marginals.solved_features
    squared = float((targets - found.mean) @ (targets - found.mean))
    sums = LeftOutSums(float(found.log_density.sum()), squared, len(targets), scaled.T @ scaled, pull)
    return found, sums


def left_out_slopes(
    basis: Basis,
    prior: BlockPrior,
    posterior: InducingPosterior,
    features: Array,
    targets: FloatArray,
    likelihood: Gaussian,
    sums: LeftOutSums,
) -> LeftOutSlopes:
    """What a block adds to the gradient of the sum of left-out log densities.

    σ = D p − J A⁻¹ (z − z_b),  H = A⁻¹ (N − N_b) A⁻¹
    F = sym(σ dᵀ) − D q D − J H Jᵀ: the weights of dK_bb, and of the noise by its trace
    G = d (A⁻¹ z)ᵀ + σ mᵀ − 2 D q J A⁻¹ + 2 J H − 2 F W, one row each;  P = G T_uᵀ: the weights of dK_bu
    ``sums`` are those of all blocks.  Shapes: features (b, p), targets (b,); float64.
    Cost: 3 b³ + 8 b² m + 10 b m² flops, and kernel blocks.
    Oracle: finite differences.
    """
    sites = noise_sites(likelihood, targets)
    factor = factor_block(prior, sites)
    marginals = block_marginals(factor, posterior)
    error, half_square = _slopes_by_dual(left_out_densities(marginals, sites), targets)
    dual, cross = dual_precision(factor, marginals, posterior)
    weighted = factor.root[:, None] * marginals.solved_features
    others = sums.curvature - (half_square[:, None] * weighted).T @ weighted
    other_pull = sums.pull - error @ weighted

    force = dual @ error - cross @ other_pull
    by_dual = half_square[:, None] * dual
    rest = cross @ others
    by_block = np.multiply.outer(force, marginals.dual_weights)
    by_block += by_block.T.copy()
    by_block *= 0.5
    by_block -= by_dual.T @ dual
    by_block -= rest @ cross.T
    by_features = np.multiply.outer(marginals.dual_weights, _solved(posterior, sums.pull))
    by_features += np.multiply.outer(force, posterior.inducing_mean)
    by_features -= 2.0 * (by_dual.T @ cross)
    by_features += 2.0 * _solved(posterior, rest.T).T
    by_features -= 2.0 * (by_block @ prior.features)
    products = by_features.T @ prior.features
    by_noise = float(np.trace(by_block))
    by_kernel, _ = contracted(basis, features, by_block, by_features)
    return LeftOutSlopes(by_kernel, by_noise, products)


def finish_left_out(basis: Basis, likelihood: Gaussian, sums: LeftOutSums, slopes: LeftOutSlopes) -> Evidence:
    """The sum of left-out log densities and its gradient, in the place of an evidence.

    dK_uu weighs −½ T_u sym(Σ Gᵀ W) T_uᵀ;  by log noise: σ² Σ tr F.  Cost: O(m³).
    """
    symmetric = 0.5 * (slopes.products + slopes.products.T)
    by_kernel, _ = gram_gradient(basis, symmetric)
    by_likelihood = np.array([likelihood.noise * slopes.noise_gradient])
    return Evidence(sums.log_density, slopes.kernel_gradient + by_kernel, by_likelihood, None)


def merge_left_out(earlier: LeftOutSums, later: LeftOutSums) -> LeftOutSums:
    """Sums over the blocks of both; the matrix of ``earlier`` is added to in place."""
    curvature = earlier.curvature
    curvature += later.curvature
    return LeftOutSums(
        earlier.log_density + later.log_density,
        earlier.squared_error + later.squared_error,
        earlier.rows + later.rows,
        curvature,
        earlier.pull + later.pull,
    )


def merge_left_out_slopes(earlier: LeftOutSlopes, later: LeftOutSlopes) -> LeftOutSlopes:
    """Sums over the blocks of both; the matrix of ``earlier`` is added to in place."""
    products = earlier.products
    products += later.products
    return LeftOutSlopes(
        earlier.kernel_gradient + later.kernel_gradient,
        earlier.noise_gradient + later.noise_gradient,
        products,
    )


def _slopes_by_dual(found: LeftOut, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The error p = d/D_ii of each prediction, and q = ½ (1/D_ii + p²)."""
    error = targets - found.mean
    return error, 0.5 * (found.variance + error * error)


def _solved(posterior: InducingPosterior, columns: FloatArray) -> FloatArray:
    """A⁻¹ columns.  Shapes: (m,) or (m, k)."""
    spread: FloatArray = np.asarray(posterior.spread, np.float64)
    solved: FloatArray = spread @ (spread.T @ columns)
    return solved


def left_out_bytes(kernel: Kernel, rows: int, n_inducing: int, n_features: int) -> int:
    """Upper bound of the bytes that :func:`left_out_slopes` takes, its result included, the prior not."""
    factor = factor_bytes(rows, 8) + marginals_bytes(rows, n_inducing, 8)
    slopes = 40 * rows * rows + 56 * rows * n_inducing + 24 * n_inducing * n_inducing
    derivatives = 3 * kernel.workspace_bytes(rows, max(rows, n_inducing), n_features, 8)
    return factor + slopes + derivatives + 32 * 8 * rows
