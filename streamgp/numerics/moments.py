"""Moments of the tilted distribution N(f; h, a) p(y|f)/Z for the likelihoods with a closed form.

Scalar functions for use inside other compiled loops, and sweeps over a chunk. A likelihood is a family code
and its natural parameters: PROBIT (bias,), GAUSSIAN (noise variance,). Everywhere log_z = log Z,
slope = d log Z/dh, curvature = −d² log Z/dh², and a negative variance (rounding) counts as 0.
"""

from __future__ import annotations

import math

from streamgp.arrays import FloatArray
from streamgp.numerics.compilation import compiled
from streamgp.numerics.normal import normal_terms

PROBIT = 0
GAUSSIAN = 1

# a × curvature stays below 1 by a few units in the last place; nearer to 1 their difference is rounding only.
CURVATURE_MARGIN = 2e-15
_LARGEST = 1e300
_LOG_2PI = math.log(2.0 * math.pi)


@compiled(reassociate=False)
def bounded(value: float) -> float:
    """The value clipped to ±1e300, so that sums of it stay finite; NaN passes."""
    if value > _LARGEST:
        return _LARGEST
    return -_LARGEST if value < -_LARGEST else value


@compiled(reassociate=False)
def bounded_curvature(curvature: float, variance: float) -> float:
    """The curvature clipped to 0 ≤ ν < 1/a, the exact range for a log-concave likelihood."""
    if curvature < 0.0:
        return 0.0
    # Without this product a variance of 1e-320 would divide to infinity.
    if variance > 0.0 and curvature * variance > 1.0 - CURVATURE_MARGIN:
        return (1.0 - CURVATURE_MARGIN) / variance
    return min(curvature, _LARGEST)


@compiled(reassociate=False)
def probit_moments(target: float, mean: float, variance: float, bias: float) -> tuple[float, float, float]:
    """Log Z, slope and curvature of the probit likelihood Φ(y (f + bias)).

    z = y (h + bias)/√(1+a),  log Z = log Φ(z),  α = y λ(z)/√(1+a),  ν = w(z)/(1+a)
    y target in {−1, +1}; h mean; a variance; λ, w of :func:`~streamgp.numerics.normal.normal_terms`
    Cost: about 0.1 µs.  Hazard: ν = α (α + (h+bias)/(1+a)) cancels in the left tail, w does not.
    Source: [IVM2006] B.1.  Oracle: tests/reference/likelihoods_dense.py
    """
    variance = max(variance, 0.0)
    scale = math.sqrt(1.0 + variance)
    log_cdf, hazard, drop, _ = normal_terms(target * (mean + bias) / scale)
    return log_cdf, target * hazard / scale, bounded_curvature(drop / (1.0 + variance), variance)


@compiled(reassociate=False)
def probit_site(target: float, mean: float, variance: float, bias: float) -> tuple[float, float, float]:
    """Log Z and the site (π, b) that the probit likelihood gives after one EP update.

    π = ν/(1 − aν) = w/(1 + aκ),   b = (α + νh)/(1 − aν) = (y λ √(1+a) + w h)/(1 + aκ)
    w, κ = 1 − w of :func:`~streamgp.numerics.normal.normal_terms`; other symbols as in :func:`probit_moments`
    Hazard: 1 − aν tends to 1/(1+a); written with κ it keeps all its digits for any a.
    Source: [IVM2006] B.1.
    """
    variance = max(variance, 0.0)
    scale = math.sqrt(1.0 + variance)
    log_cdf, hazard, drop, complement = normal_terms(target * (mean + bias) / scale)
    # λ = w/λ − z: in the left tail the first form of b is a small difference of two numbers as large as h.
    if target * (mean + bias) < 0.0:
        numerator = target * scale * (drop / hazard) - complement * mean - bias
    else:
        numerator = target * hazard * scale + drop * mean
    divisor = 1.0 + variance * complement
    return log_cdf, drop / divisor, bounded(numerator / divisor)


@compiled(reassociate=False)
def gaussian_moments(target: float, mean: float, variance: float, noise: float) -> tuple[float, float, float]:
    """Log Z, slope and curvature of the Gaussian likelihood N(y; f, noise).

    v = a + noise,  log Z = −½ (log 2πv + (y−h)²/v),  α = (y−h)/v,  ν = 1/v;  noise is a variance
    Hazard: quotients are clipped at ±1e300.  Source: [IVM2006] B.1 (t Gaussian: ν = 1/(a + σ²)).
    """
    variance = max(variance, 0.0)
    total = max(variance + noise, 1.0 / _LARGEST)
    slope = bounded((target - mean) / total)
    log_z = -0.5 * (_LOG_2PI + math.log(total) + (target - mean) * slope)
    return bounded(log_z), slope, bounded_curvature(1.0 / total, variance)


@compiled(reassociate=False)
def gaussian_site(target: float, mean: float, variance: float, noise: float) -> tuple[float, float, float]:
    """Log Z and the site of the Gaussian likelihood: π = 1/noise, b = y/noise, whatever h and a are."""
    return gaussian_moments(target, mean, variance, noise)[0], bounded(1.0 / noise), bounded(target / noise)


@compiled(reassociate=False)
def site_from_moments(slope: float, curvature: float, mean: float, variance: float) -> tuple[float, float]:
    """The site (π, b) of one EP update from the derivatives of log Z alone.

    π = ν/(1 − aν),   b = (α + νh)/(1 − aν)
    α slope; ν curvature; h mean; a variance (cavity moments)
    Hazard: 1 − aν cancels when a is large; it is held at 2e-15 or above. :func:`probit_site`,
    :func:`gaussian_site` and ``Likelihood.tilted_sites`` do not cancel.
    Source: [IVM2006] B.1.
    """
    divisor = max(1.0 - max(variance, 0.0) * curvature, CURVATURE_MARGIN)
    return bounded(curvature / divisor), bounded((slope + curvature * mean) / divisor)


@compiled(reassociate=False)
def tilted_moments(
    family: int, parameters: FloatArray, target: float, mean: float, variance: float
) -> tuple[float, float, float]:
    """Log Z, slope and curvature of one row; family and parameters as in the module's head."""
    if family == PROBIT:
        return probit_moments(target, mean, variance, parameters[0])
    return gaussian_moments(target, mean, variance, parameters[0])


@compiled(reassociate=False)
def tilted_site(
    family: int, parameters: FloatArray, target: float, mean: float, variance: float
) -> tuple[float, float, float]:
    """Log Z and the site (π, b) of one row; family and parameters as in :func:`tilted_moments`."""
    if family == PROBIT:
        return probit_site(target, mean, variance, parameters[0])
    return gaussian_site(target, mean, variance, parameters[0])


@compiled(reassociate=False)
def moments_sweep(
    family: int,
    parameters: FloatArray,
    targets: FloatArray,
    latent_mean: FloatArray,
    latent_variance: FloatArray,
    moments: FloatArray,
) -> None:
    """Fill moments (3, c) with log Z, slope and curvature of every row of a chunk."""
    for i in range(targets.shape[0]):
        moments[0, i], moments[1, i], moments[2, i] = tilted_moments(
            family, parameters, targets[i], latent_mean[i], latent_variance[i]
        )


@compiled(reassociate=False)
def sites_sweep(
    family: int,
    parameters: FloatArray,
    targets: FloatArray,
    latent_mean: FloatArray,
    latent_variance: FloatArray,
    sites: FloatArray,
) -> None:
    """Fill sites (3, c) with log Z, site precision and site precision times mean of every row of a chunk."""
    for i in range(targets.shape[0]):
        sites[0, i], sites[1, i], sites[2, i] = tilted_site(
            family, parameters, targets[i], latent_mean[i], latent_variance[i]
        )
