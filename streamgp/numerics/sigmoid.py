"""Tilted moments of logit likelihoods, and of probit raised to a power: a trapezoidal rule per row."""

from __future__ import annotations

import math

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.numerics.compilation import compiled
from streamgp.numerics.moments import bounded_curvature
from streamgp.numerics.normal import normal_terms

LOGISTIC, NORMAL = 0, 1
"""Codes of the distribution function F by which a margin becomes a probability."""

WIDEST = 256.0
"""Largest latent variance that these functions serve: the number of nodes grows with its root."""

LOWEST = (-math.inf, -100.0)
"""Smallest margin that they serve, by code: log Φ falls as x², and its rounding with it."""

_REACH = 9.0
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


@compiled(reassociate=False)
def _logistic_terms(margin: float) -> tuple[float, float, float]:
    """Log σ(x), σ(−x) and σ(x) σ(−x), from one exponential that cannot overflow."""
    decay = math.exp(-abs(margin))
    share = 1.0 / (1.0 + decay)
    log_share = -math.log1p(decay)
    if margin >= 0.0:
        return log_share, decay * share, decay * share * share
    return log_share + margin, share, decay * share * share


@compiled(reassociate=False)
def _terms(code: int, margin: float) -> tuple[float, float, float]:
    """Log F(x), its derivative, and minus its second derivative, both of them positive."""
    if code == NORMAL:
        log_share, hazard, drop, _ = normal_terms(margin)
        return log_share, hazard, drop
    return _logistic_terms(margin)


@compiled(reassociate=False)
def _centre(code: int, margin: float, root: float, power: float) -> float:
    """Mode of −t²/2 + power log F(x), x = margin + root t, to a thousandth: t = root power (log F)′(x)."""
    low, high = 0.0, root * power * _terms(code, margin)[1]
    t = 0.0
    for _ in range(50):
        _, score, slope = _terms(code, margin + root * t)
        excess = t - root * power * score
        if excess > 0.0:
            high = t
        else:
            low = t
        step = excess / (1.0 + root * root * power * slope)
        if abs(step) < 1e-3:
            break
        t = t - step if low < t - step < high else 0.5 * (low + high)
    return t


@compiled(reassociate=False)
def _sums(code: int, margin: float, root: float, power: float) -> tuple[float, float, FloatArray]:
    """Centre, score there, and sums over the nodes of step × weight × (1, u, u², ds, ds², s′)."""
    centre = _centre(code, margin, root, power)
    log_middle, score_middle, _ = _terms(code, margin + root * centre)
    step = 0.5 / max(1.0, root)
    count = math.ceil(_REACH / step)
    sums = np.zeros(6)
    for k in range(-count, count + 1):
        u = k * step
        log_share, score, slope = _terms(code, margin + root * (centre + u))
        weight = step * math.exp(-u * (centre + 0.5 * u) + power * (log_share - log_middle))
        change = power * (score - score_middle)
        sums[0] += weight
        sums[1] += weight * u
        sums[2] += weight * u * u
        sums[3] += weight * change
        sums[4] += weight * change * change
        sums[5] -= weight * power * slope
    return centre, power * score_middle, sums


@compiled(reassociate=False)
def sigmoid_moments(
    code: int, target: float, mean: float, variance: float, bias: float, power: float
) -> tuple[float, float, float, float]:
    """Log Z, slope, curvature and 1 − aν of the likelihood F(y (f + bias))^power, for variances up to 256.

    Z = ∫ N(t; 0, 1) F(x + √a t)^power dt,  x = y (h + bias);  s = d log p/df
    large a:  α = E[t]/√a,  ν = (1 − Var[t])/a;    small a:  α = E[s],  ν = −E[s′] − Var[s];  1 − aν = Var[t]
    y target; h mean; a variance.  Nodes: step ½/max(1, √a) over ±9 around the mode, which holds all but e⁻⁴⁰.
    The integrand is analytic up to |Im t| = π/√a, where F is logistic, or 2.8/√a, where it is normal (the
    first zero of Φ), so the error is of order e^{−2π²/(step max(1, √a))} or e^{−5.6π/(step max(1, √a))}.
    Cost: 37 max(1, √a) nodes, at a = 2 about 2 µs (logistic), 6 µs (normal).
    Hazard: nothing cancels; |x| is clipped at 1e150.
    Source: [IVM2006] B.1, B.2; Trefethen and Weideman 2014 for the trapezoidal rule.
    """
    variance = max(variance, 0.0)
    root = math.sqrt(variance)
    margin = min(max(target * (mean + bias), -1e150), 1e150)
    centre, middle, sums = _sums(code, margin, root, power)
    offset, change = sums[1] / sums[0], sums[3] / sums[0]
    shrinkage = min(sums[2] / sums[0] - offset * offset, 1.0)
    spread = sums[4] / sums[0] - change * change
    bend = -sums[5] / sums[0]
    log_z = math.log(sums[0]) + power * _terms(code, margin + root * centre)[0]
    log_z += -0.5 * centre * centre - _LOG_SQRT_2PI
    # Both pairs are exact; the smaller terms carry the smaller rounding.
    if variance * (bend + spread) < 1.0:
        slope, curvature = middle + change, bend - spread
    else:
        slope, curvature = (centre + offset) / root, (1.0 - shrinkage) / variance
    return min(log_z, 0.0), target * slope, bounded_curvature(curvature, variance), shrinkage


@compiled(reassociate=False)
def sigmoid_sweep(
    code: int,
    bias: float,
    power: float,
    targets: FloatArray,
    latent_mean: FloatArray,
    latent_variance: FloatArray,
    moments: FloatArray,
) -> None:
    """Fill moments (4, c) with log Z, slope, curvature, 1 − aν; rows of 1 − aν below 0 are not served.

    Those are rows of variance above 256, or of a margin below the code's lowest.
    """
    lowest = LOWEST[code]
    for i in range(targets.shape[0]):
        moments[3, i] = -1.0
        if latent_variance[i] <= WIDEST and targets[i] * (latent_mean[i] + bias) >= lowest:
            moments[0, i], moments[1, i], moments[2, i], moments[3, i] = sigmoid_moments(
                code, targets[i], latent_mean[i], latent_variance[i], bias, power
            )
