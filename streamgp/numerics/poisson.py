"""Tilted moments of counts: a trapezoidal rule for each row.

    Z = ∫ N(d; 0, a) exp(k d − M eᵈ) dd,  d = f − h,  k = power y,  M = power e^{h + bias}

The exponent is concave and smooth on a scale of 1, or of its width where that is smaller.
"""

from __future__ import annotations

import math

from streamgp.arrays import FloatArray
from streamgp.numerics.compilation import compiled
from streamgp.numerics.moments import bounded, bounded_curvature

WIDEST = 1e4
"""Largest latent variance that the sweep serves."""

_FAR = 40.0
"""Nats below the peak at which nodes end."""
_STEP, _STEPS_PER_WIDTH = 0.25, 0.6
_LARGEST_LOG = 600.0
_MOST_NODES = 20_000
_LOG_2PI = math.log(2.0 * math.pi)


@compiled
def _mode(count: float, log_rate: float, rate: float, variance: float) -> float:
    """Where −d/a + k − M eᵈ vanishes, by Newton steps in a bracket."""
    low = -variance * rate if log_rate <= 0.0 else -log_rate - variance
    high = variance * count
    if count > 0.0:
        high = min(high, max(math.log(count) - log_rate, 0.0))
    d = high if count > 0.0 else 0.0
    for _ in range(200):
        expected = rate * math.exp(d)
        slope, bend = count - d / variance - expected, 1.0 / variance + expected
        if slope > 0.0:
            low = d
        else:
            high = d
        moved = d + slope / bend
        # Halving replaces a step out of the bracket, and short ones all the way down an exponential.
        if not low <= moved <= high or (math.fabs(moved - d) <= 1.5 and high - low > 20.0):
            moved = 0.5 * (low + high)
        if math.fabs(moved - d) * math.sqrt(bend) < 1e-3:
            return moved
        d = moved
    return d


@compiled
def _row(count: float, log_rate: float, variance: float, moments: FloatArray, place: int) -> None:
    """Fill one column of moments; variance above 0."""
    log_rate = min(log_rate, _LARGEST_LOG)
    rate = math.exp(log_rate)
    centre = _mode(count, log_rate, rate, variance)
    expected = rate * math.exp(centre)
    step = min(_STEP, _STEPS_PER_WIDTH / math.sqrt(1.0 / variance + expected))
    top = count * centre - 0.5 * centre * centre / variance - expected
    tilt, middle = count - centre / variance - expected, expected
    total, first, second, change, square = 0.0, 0.0, 0.0, 0.0, 0.0
    for side in range(2):
        offset = -step if side else 0.0
        for _ in range(_MOST_NODES):
            # Differences from the middle: exponents and both variances would cancel otherwise.
            growth = math.expm1(min(offset, _LARGEST_LOG))
            value = tilt * offset - 0.5 * offset * offset / variance - expected * (growth - offset)
            if value < -_FAR:
                break
            weight, difference = math.exp(min(value, 1.0)), expected * growth
            total += weight
            first += weight * offset
            second += weight * offset * offset
            change += weight * difference
            square += weight * difference * difference
            offset += -step if side else step
    first, change = first / total, change / total
    shrinkage = min(second / total - first * first, variance) / variance
    spread, bends = square / total - change * change, middle + change
    # Both pairs are exact; the smaller terms carry the smaller rounding.
    if variance * (bends + spread) < 1.0:
        slope, curvature = count - bends, bends - spread
    else:
        slope, curvature = (centre + first) / variance, (1.0 - shrinkage) / variance
    moments[0, place] = bounded(top + math.log(total * step) - 0.5 * (_LOG_2PI + math.log(variance)))
    moments[1, place] = bounded(slope)
    moments[2, place] = bounded_curvature(curvature, variance)
    moments[3, place] = shrinkage


@compiled
def poisson_sweep(
    power: float,
    targets: FloatArray,
    log_rates: FloatArray,
    variances: FloatArray,
    moments: FloatArray,
) -> None:
    """Fill moments (4, c) with log Z, slope, curvature and 1 − aν of exp(power (y g − eᵍ)), g = f + bias.

    log_rates h + bias; variances a; the factorial is not in log Z.
    large a:  α = E[d]/a,  ν = (1 − Var[d]/a)/a;    small a:  α = k − E[M eᵈ],  ν = E[M eᵈ] − Var[M eᵈ]
    Rows of variance above 1e4 are not served: their 1 − aν is −1.
    Shapes: (c,) each.  Cost: about 60 nodes a row where a ≤ 1, 36 √a more above; 1 to 2 µs.
    Hazard: nothing cancels; errors are below 1e-11.  Source: [IVM2006] B.1; [Trefethen2014] for the rule.
    """
    log_power = math.log(power)
    for i in range(targets.size):
        variance = variances[i]
        if variance > WIDEST:
            moments[3, i] = -1.0
            continue
        log_rate, count = log_rates[i] + log_power, power * targets[i]
        if variance > 0.0:
            _row(count, log_rate, variance, moments, i)
        else:
            rate = math.exp(min(log_rate, _LARGEST_LOG))
            moments[0, i], moments[1, i] = bounded(-rate), bounded(count - rate)
            moments[2, i], moments[3, i] = bounded_curvature(rate, 0.0), 1.0
        moments[0, i] = bounded(moments[0, i] + count * log_rates[i])
