"""The learning criterion of the informative vector machine, and its gradient, with sites held fixed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dger

from streamgp.arrays import Array, FloatArray
from streamgp.inference.criterion_terms import (
    ActivePosterior,
    Terms,
    active_posterior,
    active_terms,
    candidate_terms,
)
from streamgp.inference.sites import Sites
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.numerics.projection import multiply_triangle, weighted_moments
from streamgp.passes.blas import single_threaded_blas
from streamgp.passes.threads import Threads

TILE_ROWS = 512
"""Candidates that are worked on at a time: enough for BLAS, and no matrix is as long as the candidates."""

TILES_PER_WORKER = 2
"""Tiles whose results may wait for their turn to be added up, for each worker."""


class Criterion(NamedTuple):
    """φ = −log Q(D|θ) in nats, without hyperpriors, and its gradients by the learned parameters.

    kernel_gradient is by ``kernel.log_parameters``, likelihood_gradient by ``likelihood.parameters``.
    """

    value: float
    kernel_gradient: FloatArray
    likelihood_gradient: FloatArray


class Sums(NamedTuple):
    """Sums over rows: φ, its gradients, C = Mᵀ E⁽²⁾ M stub_moments (d, d), r = Mᵀ e⁽¹⁾ stub_slopes (d,)."""

    value: float
    kernel_gradient: FloatArray
    likelihood_gradient: FloatArray
    stub_moments: FloatArray
    stub_slopes: FloatArray


class Begun(NamedTuple):
    """What every tile of candidates needs, and what active rows add themselves."""

    kernel: Kernel
    likelihood: Likelihood
    active: FloatArray
    posterior: ActivePosterior
    own: Terms
    weight: float


def criterion(
    kernel: Kernel,
    likelihood: Likelihood,
    active_inputs: Array,
    active_targets: Array,
    sites: Sites,
    candidate_inputs: Array,
    candidate_targets: Array,
    *,
    candidate_weight: float = 1.0,
    workers: int = 1,
) -> Criterion:
    """The negative log marginal likelihood over active rows and candidates, and its gradient.

    φ = −Σ_I log Z_i − w Σ_J log Z_j + Σ_I log Z̃_i + ½ (log|B| − h_Iᵀ b)
    dφ = Σ_IJ E⁽²⁾ dk + ⟨−2 E⁽²⁾ E⁽¹⁾ − e⁽¹⁾ vᵀ, dK_IJ,I⟩
         + ⟨E⁽¹⁾ᵀ E⁽²⁾ E⁽¹⁾ + ½ T Tᵀ + (E⁽¹⁾ᵀ e⁽¹⁾ − ½ v) vᵀ, dK_I⟩
    with T = S L⁻ᵀ, E⁽¹⁾ = M Tᵀ, v = T β; log Z of an active row is that of its cavity, of a candidate that of
    its marginal; e⁽¹⁾ and E⁽²⁾ of candidates hold the factor w.
    I active_inputs, active_targets, sites; J candidate_inputs, candidate_targets; w candidate_weight.
    White noise is in the variance of every row and in no covariance between two rows, equal or not.
    Shapes: (d, p), (d,), sites (d,), (s, p), (s,); d at least 1, s may be 0.
    Cost: 3 s d² flops in matrix products, and the kernel block (s, d) twice: values, then their derivatives;
    tiles of candidates run side by side on so many workers, whose number does not change a bit of the sums.
    Memory: :func:`workspace_bytes`: two tiles (512, d) and three (d, d) for each worker, six (d, d) more.
    Hazard: variances are differences, clamped at zero; 1 − π a is not one, and is positive by construction.
    Sites must not have negative precision; one without precision must carry no mean, and drops out.
    Source: [IVM2006] eq. 11, 12, 14.  Oracle: tests/reference/criterion_dense.py
    """
    # NumPy and SciPy bring a pool of BLAS threads each. Where calls alternate, these wait for one another:
    # measured ten times slower than one thread on a busy machine.
    with single_threaded_blas():
        shared = begin_criterion(kernel, likelihood, active_inputs, active_targets, sites, candidate_weight)
        sums = None
        if len(candidate_inputs):
            inputs, targets = candidate_inputs, np.asarray(candidate_targets, np.float64)
            tiles = (slice(start, start + TILE_ROWS) for start in range(0, len(inputs), TILE_ROWS))
            items = ((inputs[tile], targets[tile]) for tile in tiles)
            fold = Threads(workers, advance=lambda: None, window=TILES_PER_WORKER * workers)
            sums = fold(candidate_sums, shared, items, merge_sums)
        return end_criterion(shared, sums)


def begin_criterion(
    kernel: Kernel,
    likelihood: Likelihood,
    active_inputs: Array,
    active_targets: Array,
    sites: Sites,
    candidate_weight: float = 1.0,
) -> Begun:
    """What does not depend on candidates; see :func:`criterion`."""
    active = np.ascontiguousarray(active_inputs, np.float64)
    posterior = active_posterior(kernel, active, sites)
    own = active_terms(likelihood, np.asarray(active_targets, np.float64), sites, posterior)
    return Begun(kernel, likelihood, active, posterior, own, candidate_weight)


def end_criterion(begun: Begun, sums: Sums | None) -> Criterion:
    """φ and its gradient from the sums over candidates, None: there are none; begun is used up."""
    total = _summed(len(begun.kernel.parameter_names), begun.own, begun.posterior.stubs)
    if sums is not None:
        total = merge_sums(total, sums)
    weights = _active_weights(begun.posterior, begun.own, total.stub_moments, total.stub_slopes)
    own_gradient = _active_gradient(begun.kernel, begun.active, weights, begun.own)
    return Criterion(total.value, total.kernel_gradient + own_gradient, total.likelihood_gradient)


def workspace_bytes(
    kernel: Kernel, n_candidates: int, n_active: int, n_features: int, *, workers: int = 1
) -> int:
    """Upper bound of the bytes that :func:`criterion` allocates, without those of the likelihood.

    The likelihood takes its own ``workspace_bytes`` of n_active rows, then of 512 rows for each worker.
    """
    tile = min(TILE_ROWS, n_candidates)
    waiting = TILES_PER_WORKER * workers + 1 if n_candidates else 0
    # Derivatives hold a few more matrices (d, p) and tiles than values do: three times covers all families.
    one_task = 8 * tile * (2 * n_active + n_features + 32)
    one_task += 3 * kernel.workspace_bytes(tile, n_active, n_features, 8)
    alone = 3 * kernel.workspace_bytes(n_active, n_active, n_features, 8)
    matrices = 8 * n_active * ((5 + workers + waiting) * n_active + 2 * n_features + 32)
    return matrices + max(workers * one_task, alone)


def candidate_sums(shared: Begun, inputs: Array, targets: FloatArray) -> Sums:
    """Sums over one tile of candidates.

    M = K_J,I T,  h = M β,  a = k − row sums of M²;  weights of dK_J,I: −(2 E⁽²⁾ M + e⁽¹⁾ βᵀ) Tᵀ
    K_J,I, M and the weights take turns in one array.  Source: [IVM2006] eq. 14.
    """
    kernel, posterior = shared.kernel, shared.posterior
    rows = np.ascontiguousarray(inputs, np.float64)
    stubs = np.asarray(kernel.block(rows, shared.active), np.float64)
    multiply_triangle(stubs, posterior.projection, transposed=False)
    mean = stubs @ posterior.projected_targets
    variance = np.maximum(kernel.diagonal(rows) - np.einsum("ij,ij->i", stubs, stubs), 0.0)
    terms = candidate_terms(shared.likelihood, targets, mean, variance, shared.weight)
    sums = _summed(len(kernel.parameter_names), terms, stubs)
    weights = _pulled_back(stubs, terms, posterior)
    multiply_triangle(weights, posterior.projection, transposed=True)
    gradient = kernel.parameter_gradient(rows, shared.active, weights)
    return sums._replace(kernel_gradient=gradient + kernel.diagonal_gradient(rows, terms.variance_slope))


def _summed(n_parameters: int, terms: Terms, stubs: FloatArray) -> Sums:
    """Sums over rows, the kernel gradient not yet among them."""
    moments = weighted_moments(stubs, terms.variance_slope)
    slopes = terms.mean_slope @ stubs
    return Sums(terms.value, np.zeros(n_parameters), terms.likelihood_gradient, moments, slopes)


def no_sums(begun: Begun) -> Sums:
    """Sums over no candidates."""
    sizes = len(begun.kernel.parameter_names), len(begun.likelihood.parameter_names)
    d = len(begun.active)
    return Sums(0.0, np.zeros(sizes[0]), np.zeros(sizes[1]), np.zeros((d, d)), np.zeros(d))


def merge_sums(left: Sums, right: Sums) -> Sums:
    """Sums over the rows of both; the large matrix of left is added to in place."""
    moments = left.stub_moments
    moments += right.stub_moments
    return Sums(
        left.value + right.value,
        left.kernel_gradient + right.kernel_gradient,
        left.likelihood_gradient + right.likelihood_gradient,
        moments,
        left.stub_slopes + right.stub_slopes,
    )


def _pulled_back(stubs: FloatArray, terms: Terms, posterior: ActivePosterior) -> FloatArray:
    """−2 E⁽²⁾ M − e⁽¹⁾ βᵀ, in the place of M; times Tᵀ these are the weights of the rows' kernel block."""
    stubs *= -2.0 * terms.variance_slope[:, None]
    dger(-1.0, posterior.projected_targets, terms.mean_slope, a=stubs.T, overwrite_a=1)
    return stubs


def _active_weights(
    posterior: ActivePosterior, own: Terms, stub_moments: FloatArray, stub_slopes: FloatArray
) -> FloatArray:
    """Weights of dK_II in dφ, but for E⁽²⁾ on its diagonal; the posterior's stubs are overwritten, and C.

    (T (C + ½ 1 + (r − ½ β) βᵀ) − 2 E⁽²⁾ M − e⁽¹⁾ βᵀ) Tᵀ
    C stub_moments and r stub_slopes, over active rows and candidates.  Shapes: (d, d).  Cost: 2 d³.
    """
    targets = posterior.projected_targets
    # Transposed, so that one kind of triangular product does both sides; C is symmetric.
    stub_moments += np.outer(targets, stub_slopes - 0.5 * targets)
    stub_moments[np.diag_indices_from(stub_moments)] += 0.5
    multiply_triangle(stub_moments, posterior.projection, transposed=True)
    weights = _pulled_back(posterior.stubs, own, posterior)
    weights += stub_moments.T
    multiply_triangle(weights, posterior.projection, transposed=True)
    return weights


def _active_gradient(kernel: Kernel, active: FloatArray, weights: FloatArray, own: Terms) -> FloatArray:
    """Contract dK_II with its weights, of which the diagonal is overwritten.

    The diagonal of K_II is exact and has white noise on it, unlike that of a block: it goes its own way.
    """
    diagonal = weights.diagonal() + own.variance_slope
    np.fill_diagonal(weights, 0.0)
    between = kernel.parameter_gradient(active, active, weights)
    return between + kernel.diagonal_gradient(active, diagonal)
