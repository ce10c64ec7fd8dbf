"""What active rows and candidates add to the learning criterion, and its slopes by their moments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference.sites import Sites, inverse_factor
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.numerics.projection import multiply_triangle


class ActivePosterior(NamedTuple):
    """The posterior on the active rows.

    T = S L⁻ᵀ,  M = K_II T,  β = L⁻¹ S⁻¹ b,  v = T β = b − π h,  q = diag B⁻¹ = 1 − π a = a/a_cav,  log|B|
    projection T, upper triangular, and stubs M: (d, d); projected_targets β, weights v, variance_ratio q:
    (d,).
    """

    projection: FloatArray
    stubs: FloatArray
    projected_targets: FloatArray
    weights: FloatArray
    variance_ratio: FloatArray
    prior_variance: FloatArray
    log_determinant: float


class Terms(NamedTuple):
    """What some rows add to φ, and its slopes: e⁽¹⁾ = −∂φ/∂h and diag E⁽²⁾ = ∂φ/∂a, (c,) each."""

    value: float
    likelihood_gradient: FloatArray
    mean_slope: FloatArray
    variance_slope: FloatArray


def active_posterior(kernel: Kernel, active: FloatArray, sites: Sites) -> ActivePosterior:
    """The posterior on the active rows, from scratch.

    q is a sum of squares, the columns of L⁻¹: it stays positive where 1 − π a would cancel.
    Cost: O(d³).  Source: [IVM2006] eq. 4.
    """
    gram = np.asarray(kernel.gram(active), np.float64)
    prior_variance = gram.diagonal().copy()
    root = np.sqrt(sites.precision)
    inverse, log_determinant = inverse_factor(gram.copy(), root)
    scaled_mean = np.divide(sites.precision_mean, root, out=np.zeros_like(root), where=root > 0.0)
    projected_targets = inverse @ scaled_mean
    variance_ratio = np.einsum("ij,ij->j", inverse, inverse)
    projection = inverse.T
    projection *= root[:, None]
    weights = projection @ projected_targets
    multiply_triangle(gram, projection, transposed=False)
    return ActivePosterior(
        projection, gram, projected_targets, weights, variance_ratio, prior_variance, log_determinant
    )


def active_terms(
    likelihood: Likelihood, targets: FloatArray, sites: Sites, posterior: ActivePosterior
) -> Terms:
    """Share of the active rows in φ, all but their covariances' own part of the gradient.

    −Σ log Z_i + Σ log Z̃_i + ½ (log|B| − hᵀb) = −Σ log Z_i + ½ Σ (log q + v h_cav) + ½ log|B|
    e⁽¹⁾ = (α − v)/q,  E⁽²⁾ = −½ (e⁽¹⁾² − (ν − π q)/q²),  α, ν at the cavity
    Hazard: log Z̃ and hᵀb are large and of opposite sign for sharp sites; the form above, by b = v + π h, has
    neither.  Source: [IVM2006] eq. 11 and appendix C.2.
    """
    ratio, weights = posterior.variance_ratio, posterior.weights
    mean, variance = _cavity(sites, posterior)
    log_z, slope, curvature = likelihood.tilted_moments(targets, mean, variance)
    value = 0.5 * (posterior.log_determinant + np.sum(np.log(ratio) + weights * mean)) - np.sum(log_z)
    mean_slope = (slope - weights) / ratio
    variance_slope = -0.5 * (mean_slope**2 - (curvature - sites.precision * ratio) / ratio**2)
    likelihood_gradient = -likelihood.parameter_gradient(targets, mean, variance).sum(axis=1)
    return Terms(float(value), likelihood_gradient, mean_slope, variance_slope)


def _cavity(sites: Sites, posterior: ActivePosterior) -> tuple[FloatArray, FloatArray]:
    """Means and variances of the active rows without their own sites.

    a_cav = a/q,  h_cav = h − a_cav v;  or, the same, a_cav = (1 − q)/(π q),  h_cav = (b − v/q)/π
    Hazard: the first cancels where the site is sharper than the prior (π k > 1), the second where it is not.
    Source: [IVM2006] B.1, with b − π h = v and 1 − π a = q.
    """
    precision, precision_mean = sites
    stubs, ratio, weights = posterior.stubs, posterior.variance_ratio, posterior.weights
    sharp = precision * posterior.prior_variance > 1.0
    inverse = np.divide(1.0, precision, out=np.zeros_like(ratio), where=sharp)
    explained = np.einsum("ij,ij->i", stubs, stubs)
    variance = np.where(sharp, (1.0 - ratio) * inverse, posterior.prior_variance - explained)
    cavity_variance = np.maximum(variance, 0.0) / ratio
    mean = stubs @ posterior.projected_targets
    by_marginal, by_site = mean - cavity_variance * weights, (precision_mean - weights / ratio) * inverse
    return np.where(sharp, by_site, by_marginal), cavity_variance


def candidate_terms(
    likelihood: Likelihood, targets: FloatArray, mean: FloatArray, variance: FloatArray, weight: float
) -> Terms:
    """Share of candidates in φ: −w Σ log Z, with ∂ log Z/∂h = α and ∂ log Z/∂a = ½ (α² − ν)."""
    log_z, slope, curvature = likelihood.tilted_moments(targets, mean, variance)
    gradient = -weight * likelihood.parameter_gradient(targets, mean, variance).sum(axis=1)
    variance_slope = -0.5 * weight * (slope * slope - curvature)
    return Terms(-weight * float(np.sum(log_z)), gradient, weight * slope, variance_slope)
