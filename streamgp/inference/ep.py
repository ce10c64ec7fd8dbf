"""Expectation propagation on the active set, to convergence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dger

from streamgp.arrays import FloatArray
from streamgp.inference.damping import FOR_PREDICTION, Damped, iterate
from streamgp.inference.sites import Sites, inverse_factor
from streamgp.likelihoods import Likelihood
from streamgp.likelihoods.base import TiltedSites

PARALLEL_SWEEPS = 100
SEQUENTIAL_SWEEPS = 30
LEAST_PRECISION = 1e-12
"""Precision of a site, times the row's prior variance, below which it is lifted: where a likelihood is not
log-concave a flat site may carry a mean, and the factor needs some precision to carry it."""
SHARP = 1e-3
"""Precision of a site, times the row's prior variance, from which a = (1 − q)/π has digits enough."""


class ActiveMarginals(NamedTuple):
    """The posterior on the active rows for given sites, (d,) each.

    v = b − π h weights,  h = K v mean,  a variance,  q = 1 − π a variance_ratio,  log|B|
    cavity: a₋ = a/q,  h₋ = h − a₋ v
    """

    weights: FloatArray
    mean: FloatArray
    variance: FloatArray
    variance_ratio: FloatArray
    cavity_mean: FloatArray
    cavity_variance: FloatArray
    log_determinant: float


@dataclass(frozen=True, eq=False)
class Propagated:
    """Where expectation propagation ended.

    ``left_out_log_density`` is log Z_i, the log density of each target given all others. ``residual`` is how
    far tilted moments are from those of the posterior, see :func:`moment_residual`.
    """

    sites: Sites
    marginals: ActiveMarginals
    left_out_log_density: FloatArray
    residual: float
    sweeps: int
    converged: bool
    weights: FloatArray | None = None

    @property
    def log_evidence(self) -> float:
        """Log Z_EP, stationary in the sites where the residual vanishes.

        log Z_EP = Σ log Z_i − ½ Σ (log q_i + v_i h₋_i) − ½ log|B|;  of a row of weight ω, ω terms of v_i/ω
        Hazard: the usual sum of site terms is large and of opposite sign for sharp sites; by b = v + π h it
        becomes this one, which has none of them.  Source: [PASS2012] eq. 1, Rasmussen and Williams (2006)
        eq. 3.65.  Oracle: tests/reference/ep_dense.py
        """
        m = self.marginals
        explained = m.weights * m.cavity_mean
        if self.weights is None:
            own = self.left_out_log_density - 0.5 * (np.log(m.variance_ratio) + explained)
        else:
            own = self.weights * (self.left_out_log_density - 0.5 * np.log(m.variance_ratio))
            own -= 0.5 * np.minimum(self.weights, 1.0) * explained
        return float(own.sum() - 0.5 * m.log_determinant)


def expectation_propagation(
    gram: FloatArray,
    targets: FloatArray,
    likelihood: Likelihood,
    start: Sites | None = None,
    weights: FloatArray | None = None,
    *,
    tolerance: float = FOR_PREDICTION,
    parallel_sweeps: int = PARALLEL_SWEEPS,
    sequential_sweeps: int = SEQUENTIAL_SWEEPS,
) -> Propagated:
    """Sites whose tilted moments are those of the posterior, from flat ones or from ``start``.

    All sites are updated at once, in natural parameters, damped: θ ← θ + δ (θ′ − θ), where δ is halved (down
    to 0.1) when the residual rises and grows by a quarter (up to 1) when it does not. What does not converge
    so is continued one site after the other, from the best sites met.
    A row of weight ω ≥ 1 counts as ω equal rows: the cavity is without one of them. One of weight ω < 1 has
    the site that matches when it is left out, to the power of ω.
    Shapes: gram (d, d), white noise on its diagonal, targets (d,), sites (d,), weights (d,).
    Cost: ⅔ d³ flops a parallel sweep, about ten of them from flat sites to 1e-3, five from near ones.
    Memory: two matrices (d, d) beside gram.
    Hazard: none for log-concave likelihoods, whose sites have positive precision; others are floored by
    the likelihood, and here, and may not converge: the result says so and is the best met, never NaN.
    Source: [PASS2012] section 2, Rasmussen and Williams (2006) section 3.6; the damping is ours.
    Oracle: tests/reference/ep_dense.py
    """
    least = LEAST_PRECISION / np.maximum(gram.diagonal(), 1e-300)

    def sweep(sites: Sites, progress: Damped) -> tuple[Sites, Propagated, float, int]:
        found, proposal = _look(gram, targets, likelihood, sites, weights, progress.sweeps + 1, tolerance)
        # The residual is known before the sites move, so that it decides about this step already.
        step = progress.after(found.residual, 0, tolerance).step
        return _damped(sites, _floored(proposal, least), step), found, found.residual, 0

    flat = Sites(least, np.zeros(len(gram)))
    best, progress = iterate(
        sweep,
        _floored(flat if start is None else start, least),
        Damped(1.0),
        tolerance=tolerance,
        most_sweeps=max(1, parallel_sweeps),
    )
    improved, sweeps = True, progress.sweeps
    while not best.converged and improved and sweeps < progress.sweeps + sequential_sweeps:
        sweeps += 1
        sites = _sequential_sweep(gram, targets, likelihood, best.sites, weights, least)
        last, _ = _look(gram, targets, likelihood, sites, weights, sweeps, tolerance)
        improved = last.residual < best.residual
        best = last if improved else best
    return best


def active_marginals(gram: FloatArray, sites: Sites, weights: FloatArray | None = None) -> ActiveMarginals:
    """The posterior on the active rows, with the cavities; of a row of weight ω > 1, without one of its ω.

    L Lᵀ = B = 1 + S K S,  v = S B⁻¹ S⁻¹ b,  h = K v,  q = diag B⁻¹ = column sums of (L⁻¹)²
    a = (1 − q)/π  where π k ≥ 1e-3, else  a = k − |L⁻¹ S k_i|²
    Shapes: gram (d, d), sites (d,), of positive precision where they carry a mean.
    Cost: ⅔ d³ flops, and 2 d² for each row of nearly flat site.
    Hazard: 1 − q cancels for flat sites, k − |.|² for sharp ones; each is used where it does not.
    """
    precision, precision_mean = sites
    root = np.sqrt(precision)
    inverse, log_determinant = inverse_factor(gram.copy(), root)
    scaled = np.divide(precision_mean, root, out=np.zeros_like(root), where=root > 0.0)
    representer = root * (inverse.T @ (inverse @ scaled))
    mean = gram @ representer
    ratio = np.einsum("ij,ij->j", inverse, inverse)
    prior = gram.diagonal()
    sharp = precision * prior >= SHARP
    variance = np.divide(1.0 - ratio, precision, out=np.zeros_like(ratio), where=sharp)
    flat = np.flatnonzero(~sharp)
    if flat.size:
        stubs = inverse @ (root[:, None] * gram[:, flat])
        variance[flat] = prior[flat] - np.einsum("ij,ij->j", stubs, stubs)
    variance = np.maximum(variance, 1e-14 * prior)
    own = representer
    if weights is not None:
        copies = np.maximum(weights, 1.0)
        own, ratio = own / copies, 1.0 - (1.0 - ratio) / copies
    cavity_variance = variance / ratio
    return ActiveMarginals(
        representer, mean, variance, ratio, mean - cavity_variance * own, cavity_variance, log_determinant
    )


def moment_residual(marginals: ActiveMarginals, tilted: Sites) -> float:
    """Distance of the tilted moments to those of the posterior, 0 at the fixed point.

    RMS of (ĥ − h)/√a, plus the mean of |log â/a|;  â = a₋/(1 + a₋ π′),  ĥ = â (h₋/a₋ + b′)
    (π′, b′) tilted, the sites that match.  Shapes: (d,) each.
    """
    shrunk = 1.0 + marginals.cavity_variance * tilted.precision
    mean = (marginals.cavity_mean + marginals.cavity_variance * tilted.precision_mean) / shrunk
    deviation = (mean - marginals.mean) / np.sqrt(marginals.variance)
    log_ratio = np.log(marginals.cavity_variance / (shrunk * marginals.variance))
    return float(np.sqrt(np.mean(deviation**2)) + np.mean(np.abs(log_ratio)))


def _look(
    gram: FloatArray,
    targets: FloatArray,
    likelihood: Likelihood,
    sites: Sites,
    weights: FloatArray | None,
    sweeps: int,
    tolerance: float,
) -> tuple[Propagated, Sites]:
    """What the sites amount to, and the sites that would match their tilted moments."""
    marginals = active_marginals(gram, sites, weights)
    tilted = likelihood.tilted_sites(targets, marginals.cavity_mean, marginals.cavity_variance)
    left_out = _proposal(tilted, None if weights is None else np.minimum(weights, 1.0))
    residual = moment_residual(marginals, left_out)
    found = Propagated(sites, marginals, tilted.log_z, residual, sweeps, residual <= tolerance, weights)
    return found, left_out if weights is None else _proposal(tilted, weights)


def _proposal(tilted: TiltedSites, powers: FloatArray | float | None = None) -> Sites:
    """The sites that match, to some powers."""
    if powers is None:
        return Sites(tilted.site_precision, tilted.site_precision_mean)
    return Sites(powers * tilted.site_precision, powers * tilted.site_precision_mean)


def _floored(sites: Sites, least: FloatArray) -> Sites:
    return Sites(np.maximum(sites.precision, least), sites.precision_mean)


def _damped(sites: Sites, proposal: Sites, damping: float) -> Sites:
    return Sites(*(old + damping * (new - old) for old, new in zip(sites, proposal, strict=True)))


def _sequential_sweep(
    gram: FloatArray,
    targets: FloatArray,
    likelihood: Likelihood,
    sites: Sites,
    weights: FloatArray | None,
    least: FloatArray,
) -> Sites:
    """Every site once, each with the posterior that all others before it have left.

    Σ ← Σ − Δπ/(1 + Δπ a) s sᵀ,  s column of Σ;  h = Σ b
    Cost: 2 d³ flops, bound by memory; the way out where parallel updates oscillate.
    Source: Rasmussen and Williams (2006), algorithm 3.5.
    """
    precision, precision_mean = sites.precision.copy(), sites.precision_mean.copy()
    root = np.sqrt(precision)
    inverse, _ = inverse_factor(gram.copy(), root)
    stubs = inverse @ (root[:, None] * gram)
    covariance = np.asfortranarray(gram - stubs.T @ stubs)
    for i in range(len(gram)):
        column = covariance[:, i].copy()
        variance, mean = max(column[i], 1e-14 * gram[i, i]), column @ precision_mean
        weight = 1.0 if weights is None else float(weights[i])
        copies = max(weight, 1.0)
        ratio = max(1.0 - precision[i] * variance / copies, 1e-12)
        cavity_variance = variance / ratio
        cavity_mean = (mean - variance * precision_mean[i] / copies) / ratio
        tilted = _proposal(likelihood.tilted_sites(targets[i], cavity_mean, cavity_variance), weight)
        change = max(tilted.precision[0], least[i]) - precision[i]
        precision[i] += change
        precision_mean[i] = tilted.precision_mean[0]
        dger(-change / (1.0 + change * variance), column, column, a=covariance, overwrite_a=1)
    return Sites(precision, precision_mean)
