"""One power-EP update for each of many rows: cavity, tilted moments, site, share of the evidence."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from streamgp.arrays import BoolArray, FloatArray
from streamgp.inference.inducing.basis import Approximation
from streamgp.inference.sites import Sites
from streamgp.likelihoods import Gaussian
from streamgp.likelihoods.base import TiltedSites

CAVITY_FLOOR = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}
"""A row whose site holds more than all but this share of its marginal has no cavity to speak of."""


class Tilts(Protocol):
    """What an update needs of a likelihood."""

    def tilted_sites(
        self, targets: FloatArray, latent_mean: FloatArray, latent_variance: FloatArray, *, power: float
    ) -> TiltedSites:
        """Log Z and sites that match tilted moments."""


class RowUpdate(NamedTuple):
    """What one update says about c rows; (c,) each, or (c, C) of C classes whose sites are updated together.

    ``has_cavity``: where it is false the row is skipped: its site stays, its other entries are zero.
    ``precision_gap`` v = ρ − τ ms; ``slope`` g and ``curvature`` ν of log Z by mc; ``cavity_variance`` vc;
    ``log_z`` log Z, at power 1 the log density of the target given all others.
    """

    sites: Sites
    has_cavity: BoolArray
    cavity_mean: FloatArray
    cavity_variance: FloatArray
    precision_gap: FloatArray
    slope: FloatArray
    curvature: FloatArray
    mean_change: FloatArray
    log_variance_change: FloatArray
    log_z: FloatArray
    evidence: FloatArray


def update_rows(
    likelihood: Tilts,
    targets: FloatArray,
    sites: Sites,
    mean: FloatArray,
    variance: FloatArray,
    residual_variance: FloatArray,
    power: float,
    floor: float,
) -> RowUpdate:
    """New sites of rows, undamped, from their marginals.

    q = 1 − α τ vs,  vc = vs/q,  v = ρ − τ ms,  mc = ms − α vc v;  a = vc + D
    (log Z, π, b) tilted by p(y|f)^α under N(f; mc, a);  τ' = π/(1 + D π)/α,  ρ' = b/(1 + D π)/α
    g = (b − π mc)/(1 + a π),  ν = π/(1 + a π);  these τ', ρ' are ν/(1 − vc ν)/α, (mc ν + g)/(1 − vc ν)/α
    change of mean √vs (g − α v)/q/α, in deviations; of log variance log((1 + D π)/(1 + a π)/q)/α; both 0 at
    the fixed point, and those of the whole site: tilting by a share α moves moments by that share only.
    evidence = (log Z − ½ log q)/α − ½ v mc, so that log Z_EP = −½ log|A| + Σ evidence
    (ms, vs) mean, variance of s = wᵀu; D residual_variance, times s already; α power.
    Shapes: (c,) each.  Cost: O(c), and the likelihood's own; quadrature for probit with power below 1.
    Hazard: the textbook's 1 − vc ν and mc²/vc − ms²/vs cancel; written as above nothing does, at vs = 0 too.
    A q of ``floor`` or less counts as no cavity.
    Source: [FITC2007] sections 3, 4; [Bui2017].  Oracle: tests/reference/fitc_dense.py
    """
    precision, precision_mean = sites
    ratio = 1.0 - power * precision * variance
    has_cavity = ratio > floor
    ratio = np.where(has_cavity, ratio, 1.0)
    gap = precision_mean - precision * mean
    cavity_variance = variance / ratio
    cavity_mean = mean - power * cavity_variance * gap
    total_variance = cavity_variance + residual_variance
    log_z, tilted_precision, tilted_mean = likelihood.tilted_sites(
        targets, cavity_mean, total_variance, power=power
    )
    shrinkage = 1.0 + residual_variance * tilted_precision
    stiffness = 1.0 + total_variance * tilted_precision
    slope = (tilted_mean - tilted_precision * cavity_mean) / stiffness
    new = Sites(
        np.where(has_cavity, tilted_precision / shrinkage / power, precision),
        np.where(has_cavity, tilted_mean / shrinkage / power, precision_mean),
    )
    return RowUpdate(
        sites=new,
        has_cavity=has_cavity,
        cavity_mean=cavity_mean,
        cavity_variance=cavity_variance,
        precision_gap=gap,
        slope=has_cavity * slope,
        curvature=has_cavity * tilted_precision / stiffness,
        mean_change=has_cavity * np.sqrt(variance) * (slope / power - gap) / ratio,
        log_variance_change=has_cavity * (np.log(shrinkage / stiffness) - np.log(ratio)) / power,
        log_z=has_cavity * log_z,
        evidence=has_cavity * ((log_z - 0.5 * np.log(ratio)) / power - 0.5 * gap * cavity_mean),
    )


class ExactRows(NamedTuple):
    """Sites of c rows under Gaussian noise, and their share of the evidence, (c,)."""

    sites: Sites
    evidence: FloatArray


def exact_rows(
    likelihood: Gaussian, targets: FloatArray, residual_variance: FloatArray, approximation: Approximation
) -> ExactRows:
    """Sites under Gaussian noise, which need no iteration: they do not depend on the posterior.

    τ = 1/(σ² + α D),  ρ = y τ;  evidence = ½ (log(τ/2π) − y² τ − (1 − α)/α log(1 + α D/σ²)),
    so that log Z = −½ log|A| + ½ rᵀm + Σ evidence;  D = s D0
    FITC at α = 1, DTC at s = 0, the variational bound as α → 0.
    Shapes: (c,) each.  Source: [Bui2017].  Oracle: tests/reference/fitc_dense.py
    """
    power = approximation.power
    scaled = power * approximation.residual * residual_variance
    precision = 1.0 / (likelihood.noise + scaled)
    penalty = (1.0 - power) / power * np.log1p(scaled / likelihood.noise)
    evidence = 0.5 * (np.log(precision / (2.0 * np.pi)) - targets**2 * precision - penalty)
    return ExactRows(Sites(precision, precision * targets), evidence)
