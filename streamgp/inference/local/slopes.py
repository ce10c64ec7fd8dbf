"""The evidence of converged sites and its gradient, as sums over blocks.

The sums are those of blocks of one row, :class:`~streamgp.inference.inducing.slopes.EvidenceSums`: they are
merged and finished by the same functions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamgp.arrays import Array, FloatArray
from streamgp.inference.inducing.basis import FITC, Basis
from streamgp.inference.inducing.posterior import InducingPosterior
from streamgp.inference.inducing.slopes import EvidenceSums
from streamgp.inference.inducing.updates import CAVITY_FLOOR, update_rows
from streamgp.inference.local.factor import BlockFactor, factor_block, factor_bytes
from streamgp.inference.local.marginals import BlockMarginals, block_marginals, marginals_bytes
from streamgp.inference.local.prior import BlockPrior
from streamgp.inference.local.sweep import weighted
from streamgp.inference.sites import Sites
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.numerics import factors
from streamgp.numerics import projection as numerics


def evidence_block(
    basis: Basis,
    prior: BlockPrior,
    posterior: InducingPosterior,
    features: Array,
    targets: FloatArray,
    likelihood: Likelihood,
    sites: Sites,
    *,
    weights: FloatArray | None = None,
    inputs: bool = False,
) -> EvidenceSums:
    """What a block adds to the evidence and its gradient, where the posterior is that of converged sites.

    F = ½ (d dᵀ − D),  D of :func:`dual_precision`: the weights of dK_bb
    G = d mᵀ − J A⁻¹ − 2 F W, one row each;  P = G T_uᵀ: the weights of dK_bu;  E = Wᵀ F W: of dK_uu
    Σ: evidence, ⟨P, dK_bu⟩ + ⟨F, dK_bb⟩, ∂ log Z/∂θ, E.  At the fixed point no derivative by sites is needed.
    The Gaussian likelihood is at its fixed point from the start, and its evidence by this form is exact.
    Shapes: features (b, p), others (b,); everything in float64; ``inputs``: inducing inputs' gradient too.
    Cost: 4/3 b³ + 6 b² m + 5 b m² flops, the kernel blocks and their derivatives.
    Hazard: exact only at the fixed point; the error of the gradient is of the order of the moment residual.
    Source: as [FITC2007] section 4.  Oracle: finite differences with full re-convergence.
    """
    weight = np.ones(len(targets)) if weights is None else weights
    factor = factor_block(prior, weighted(sites, weight))
    marginals = block_marginals(factor, posterior)
    nothing, floor = np.zeros(len(targets)), CAVITY_FLOOR[np.dtype(np.float64)]
    update = update_rows(
        likelihood, targets, sites, marginals.mean, marginals.variance, nothing, FITC.power, floor
    )
    by_likelihood = likelihood.parameter_gradient(targets, update.cavity_mean, update.cavity_variance)
    dual = dual_precision(factor, marginals, posterior)
    by_block = dual.matrix
    np.negative(by_block, out=by_block)
    by_block += np.multiply.outer(marginals.dual_weights, marginals.dual_weights)
    by_block *= 0.5
    by_features = dual.cross
    np.negative(by_features, out=by_features)
    by_features += np.multiply.outer(marginals.dual_weights, posterior.inducing_mean)
    pulled = by_block @ prior.features
    by_features -= 2.0 * pulled
    by_kernel, by_input = contracted(basis, features, by_block, by_features, inputs=inputs)
    return EvidenceSums(
        float(weight @ update.evidence) - 0.5 * factor.log_determinant,
        by_kernel,
        by_likelihood @ (weight * update.has_cavity),
        by_input,
        prior.features.T @ pulled,
        int(np.count_nonzero(~update.has_cavity & (weight > 0.0))),
    )


class DualPrecision(NamedTuple):
    """D (b, b), the block of C⁻¹ where C = cov(f) + T⁻¹ of all rows, and J A⁻¹ (b, m), J = S B⁻¹ S W."""

    matrix: FloatArray
    cross: FloatArray


def dual_precision(
    factor: BlockFactor, marginals: BlockMarginals, posterior: InducingPosterior
) -> DualPrecision:
    """The block of the inverse covariance of all targets, T^½ (1 + S cov(f) S)⁻¹ T^½, which allows τ = 0.

    D = S B⁻¹ S − J A⁻¹ Jᵀ,  J = S Z;  J A⁻¹ = (J L_A⁻ᵀ) L_A⁻¹
    Shapes: (b, b), (b, m).  Cost: b³ + b² m + 2 b m² flops.
    """
    root = factor.root
    matrix = factor.lower.astype(np.float64)
    factors.invert_lower(matrix)
    factors.gram_of_inverse(matrix)
    matrix *= root
    matrix *= root[:, None]
    cross = root[:, None] * marginals.solved_features
    numerics.multiply_triangle(cross, posterior.spread, transposed=False)
    factors.subtract_gram(matrix, cross)
    numerics.multiply_triangle(cross, posterior.spread, transposed=True)
    return DualPrecision(matrix, cross)


def contracted(
    basis: Basis, features: Array, by_block: FloatArray, by_features: FloatArray, *, inputs: bool = False
) -> tuple[FloatArray, FloatArray | None]:
    """⟨F, dK_bb⟩ + ⟨G T_uᵀ, dK_bu⟩ by log parameters, and the latter by inducing inputs if asked for.

    F by_block (b, b), symmetric, G by_features (b, m); both are overwritten.
    The diagonal of K_bb is exact, unlike that of a kernel block: it goes its own way.
    """
    kernel = basis.kernel
    diagonal = by_block.diagonal().copy()
    np.fill_diagonal(by_block, 0.0)
    numerics.multiply_triangle(by_features, basis.whitening, transposed=True)
    by_kernel = kernel.parameter_gradient(features, features, by_block)
    by_kernel += kernel.diagonal_gradient(features, diagonal)
    by_kernel += kernel.parameter_gradient(features, basis.inducing, by_features)
    by_input = kernel.input_gradient(features, basis.inducing, by_features) if inputs else None
    return by_kernel, by_input


def evidence_bytes(
    kernel: Kernel, likelihood: Likelihood, rows: int, n_inducing: int, n_features: int
) -> int:
    """Upper bound of the bytes that :func:`evidence_block` takes, its result included, the prior not."""
    factor = factor_bytes(rows, 8) + marginals_bytes(rows, n_inducing, 8)
    slopes = 16 * rows * rows + 24 * rows * n_inducing + 8 * n_inducing * (n_inducing + n_features)
    # Derivatives hold a few more matrices (b, p) and tiles than values do: three times covers all families.
    derivatives = 3 * kernel.workspace_bytes(rows, max(rows, n_inducing), n_features, 8)
    return factor + slopes + derivatives + 48 * 8 * rows + likelihood.workspace_bytes(rows)
