"""The evidence of converged sites and its gradient, as sums over blocks of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streamgp.arrays import Array, FloatArray
from streamgp.inference.inducing.basis import Approximation, Basis, WhitenedRows, whiten, whiten_bytes
from streamgp.inference.inducing.posterior import InducingPosterior
from streamgp.inference.inducing.updates import CAVITY_FLOOR, update_rows
from streamgp.inference.sites import Sites
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.numerics import projection as numerics


class Evidence(NamedTuple):
    """Log evidence in nats, without hyperpriors, and its gradients by what is learned.

    kernel_gradient is by ``kernel.log_parameters``, likelihood_gradient by ``likelihood.parameters``,
    input_gradient by the inducing inputs, (m, p), or None where it was not asked for.
    """

    value: float
    kernel_gradient: FloatArray
    likelihood_gradient: FloatArray
    input_gradient: FloatArray | None


class EvidenceSums(NamedTuple):
    """Sums over rows, in float64: an :class:`Evidence` less the share of K_uu, and E = Σ ω e w wᵀ (m, m).

    ``skipped`` counts rows without a cavity, which are missing from all sums.
    """

    evidence: float
    kernel_gradient: FloatArray
    likelihood_gradient: FloatArray
    input_gradient: FloatArray | None
    slope_moments: FloatArray
    skipped: int


def evidence_block(
    basis: Basis,
    posterior: InducingPosterior,
    features: Array,
    targets: FloatArray,
    likelihood: Likelihood,
    sites: Sites,
    approximation: Approximation,
    weights: FloatArray | None = None,
    *,
    inputs: bool = False,
) -> EvidenceSums:
    """What a block adds to the evidence and its gradient, where the posterior is that of converged sites.

    e = (g² − ν)/(2α) s;  G = v mᵀ − τ W A⁻¹ − 2 e W,  one row each;  P = G T_uᵀ
    Σ: evidence, ⟨P, dK_nu⟩ + Σ e dk(x, x), (1/α) Σ ∂ log Z/∂θ, E = Σ e w wᵀ;  each row times its weight
    v, g, ν of :func:`update_rows`.  At the fixed point no derivative by the sites is needed.
    Shapes: features (c, p) in the basis's type, others (c,); ``inputs``: the inducing inputs' gradient too.
    Cost: 5 m² flops a row and the kernel block twice (three times with inputs): values, then derivatives.
    Hazard: exact only at the fixed point; the error of the gradient is of the order of the moment residual.
    Source: [FITC2007] section 4.  Oracle: finite differences with full re-convergence.
    """
    weight = np.ones(len(targets)) if weights is None else weights
    return evidence_whitened(
        basis,
        posterior,
        whiten(basis, features),
        features,
        targets,
        likelihood,
        sites,
        approximation,
        weight,
        inputs=inputs,
    )


def evidence_whitened(
    basis: Basis,
    posterior: InducingPosterior,
    rows: WhitenedRows,
    features: Array,
    targets: FloatArray,
    likelihood: Likelihood,
    sites: Sites,
    approximation: Approximation,
    weight: FloatArray,
    *,
    inputs: bool,
) -> EvidenceSums:
    """The same for rows that are whitened already, and stay as they are."""
    power, residual = approximation.power, approximation.residual
    whitened, projected = rows.features, rows.features.copy()
    numerics.multiply_triangle(projected, posterior.spread, transposed=False)
    mean, variance = np.zeros(len(targets)), np.zeros(len(targets))
    numerics.add_row_moments(projected, posterior.projected_targets, mean, variance)
    residual_variance = residual * rows.residual_variance
    update = update_rows(
        likelihood, targets, sites, mean, variance, residual_variance, power, CAVITY_FLOOR[basis.dtype]
    )
    by_likelihood = likelihood.parameter_gradient(
        targets, update.cavity_mean, update.cavity_variance + residual_variance, power=power
    )
    slope = weight * residual * (update.slope**2 - update.curvature) / (2.0 * power)

    own = weight * sites.precision, weight * update.precision_gap, slope
    row_slopes(posterior, whitened, projected, *own)
    numerics.multiply_triangle(projected, basis.whitening, transposed=True)

    kernel, inducing = basis.kernel, basis.inducing
    return EvidenceSums(
        float(weight @ update.evidence),
        kernel.parameter_gradient(features, inducing, projected) + kernel.diagonal_gradient(features, slope),
        by_likelihood @ (weight * update.has_cavity) / power,
        kernel.input_gradient(features, inducing, projected) if inputs else None,
        numerics.weighted_moments(whitened, slope),
        int(np.count_nonzero(~update.has_cavity & (weight > 0.0))),
    )


def row_slopes(
    posterior: InducingPosterior,
    whitened: Array,
    projected: Array,
    precision: FloatArray,
    gap: FloatArray,
    slope: FloatArray,
) -> None:
    """G = v mᵀ − τ W A⁻¹ − 2 e W in the place of ``projected`` W R, as τ W A⁻¹ = τ (W R) Rᵀ.

    τ precision, v gap, e slope, (c,) each, times the rows' weights already.
    """
    dtype = projected.dtype
    projected *= (-precision).astype(dtype)[:, None]
    numerics.multiply_triangle(projected, posterior.spread, transposed=True)
    projected += gap.astype(dtype)[:, None] * posterior.inducing_mean.astype(dtype)
    projected -= (2.0 * slope).astype(dtype)[:, None] * whitened


def merge_evidence(earlier: EvidenceSums, later: EvidenceSums) -> EvidenceSums:
    """Sums over the rows of both; the large matrix of ``earlier`` is added to in place."""
    moments = earlier.slope_moments
    moments += later.slope_moments
    by_input = earlier.input_gradient
    if by_input is not None and later.input_gradient is not None:
        by_input = by_input + later.input_gradient
    return EvidenceSums(
        earlier.evidence + later.evidence,
        earlier.kernel_gradient + later.kernel_gradient,
        earlier.likelihood_gradient + later.likelihood_gradient,
        by_input,
        moments,
        earlier.skipped + later.skipped,
    )


def finish_evidence(basis: Basis, posterior: InducingPosterior, sums: EvidenceSums) -> Evidence:
    """The evidence and its gradient, from sums over all rows: that of one head."""
    return finish_together(basis, (posterior,), sums)


def finish_together(basis: Basis, posteriors: Sequence[InducingPosterior], sums: EvidenceSums) -> Evidence:
    """The evidence of heads that share a kernel and its gradient, from sums over all their rows.

    Σ g wᵀ = m mᵀ − 1 + A⁻¹ − 2 E of each (g the rows of G), whose weight of dK_uu is :func:`gram_gradient`'s
    log Z_EP = −½ Σ log|A| + Σ evidence
    Shapes: m inducing inputs.  Cost: O(m³) a head, two kernel blocks (m, m).  Source: [FITC2007] section 4.
    """
    products = -2.0 * sums.slope_moments
    for posterior in posteriors:
        spread = np.asarray(posterior.spread, np.float64)
        products += spread @ spread.T
        products += np.outer(posterior.inducing_mean, posterior.inducing_mean)
    products[np.diag_indices_from(products)] -= len(posteriors)
    by_kernel, by_input = gram_gradient(basis, products, inputs=sums.input_gradient is not None)
    if sums.input_gradient is not None and by_input is not None:
        by_input = by_input + sums.input_gradient
    value = sums.evidence - 0.5 * sum(posterior.log_determinant for posterior in posteriors)
    return Evidence(value, sums.kernel_gradient + by_kernel, sums.likelihood_gradient, by_input)


def gram_gradient(
    basis: Basis, products: FloatArray, *, inputs: bool = False
) -> tuple[FloatArray, FloatArray | None]:
    """What the whitening itself adds to a gradient: by log parameters, and by inducing inputs if asked for.

    dL = ⟨H, dK_uu⟩,  H = −½ T_u (Σ g wᵀ) T_uᵀ, from Σ g wᵀ products (m, m), symmetric, which is overwritten
    The jitter ε mean(diag K_uu) moves with the kernel: its weight is ε tr(H)/m on every diagonal element.
    Cost: O(m³) and a kernel block (m, m), two with inputs.
    """
    kernel = basis.kernel
    inducing = np.asarray(basis.inducing, np.float64)
    whitening = np.asarray(basis.whitening, np.float64)
    # Twice from the right, with a transposition between: the matrix is symmetric.
    numerics.multiply_triangle(products, whitening, transposed=True)
    weights = np.ascontiguousarray(products.T)
    numerics.multiply_triangle(weights, whitening, transposed=True)
    weights *= -0.5
    # The diagonal of K_uu is exact and has jitter on it: it goes its own way.
    diagonal = weights.diagonal().copy()
    np.fill_diagonal(weights, 0.0)
    with_jitter = diagonal + basis.jitter * diagonal.mean()
    by_kernel = kernel.parameter_gradient(inducing, inducing, weights)
    by_kernel += kernel.smooth_diagonal_gradient(inducing, with_jitter)
    if not inputs:
        return by_kernel, None
    by_input = 2.0 * kernel.input_gradient(inducing, inducing, weights)
    by_input += kernel.smooth_diagonal_input_gradient(inducing, with_jitter)
    return by_kernel, by_input


def evidence_bytes(kernel: Kernel, rows: int, n_inducing: int, n_features: int, itemsize: int) -> int:
    """Upper bound of the bytes of :func:`evidence_block` and its result, without the likelihood's."""
    blocks = 3 * rows * n_inducing * itemsize
    # Derivatives hold a few more matrices (m, p) and tiles than values do: three times covers all families.
    derivatives = 3 * kernel.workspace_bytes(rows, n_inducing, n_features, itemsize)
    moments = n_inducing * n_inducing * (8 + 2 * itemsize) + 16 * n_inducing * n_features
    local = 48 * 8 * rows
    whitening = whiten_bytes(kernel, rows, n_inducing, n_features, itemsize)
    return whitening + blocks + derivatives + moments + local
