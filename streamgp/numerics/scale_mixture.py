"""Tilted moments of likelihoods that are normal mixtures over a variance: a trapezoidal rule for each row.

    Z = ∫ e^{E(u)} du,  E(u) = p u − eᵘ − ½ log(a + v) − ½ r²/(a + v),  v = c e^{∓u}

a latent variance, r = y − h. Given v all is normal; what is left is an integral over u that is smooth on a
scale of 1 whatever a, r and c are, even where the tilted density has two peaks.
STUDENT: (1 + r²/2c)^{−k} with v = c e^{−u}, p = k − ½;  LAPLACE: e^{−|r| √(2/c)} with v = c eᵘ, p = 1.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from streamgp.arrays import FloatArray
from streamgp.numerics.compilation import compiled
from streamgp.numerics.moments import bounded, bounded_curvature

STUDENT = 0
LAPLACE = 1

_FAR = 40.0
"""Nats below the peak at which nodes end."""
_STEP, _STEPS_PER_WIDTH = 0.2, 2.0
_MOST_NODES = 20_000


@compiled
def _exponent(
    family: int, shape: float, spread: float, square: float, variance: float, u: float
) -> tuple[float, float]:
    """E(u) and v; shape is k or 1, spread c, square r², variance a."""
    t = math.exp(u)
    if family == STUDENT:
        v, power = spread / t, shape - 0.5
    else:
        v, power = spread * t, 1.0
    total = variance + v
    return power * u - t - 0.5 * math.log(total) - 0.5 * square / total, v


@compiled
def _edges(
    family: int, shape: float, spread: float, square: float, variance: float
) -> tuple[float, float, float]:
    """Where u begins to be left of all peaks, where it begins to be right of them, and the step of the rule.

    STUDENT: dE/du > 0 for eᵘ < k/(1 + (r² + a)/2c), < 0 for eᵘ > k; peaks are not narrower than 1/√k.
    LAPLACE: dE/du > 0 for eᵘ < ½ or < (q|r| − q²a)/2, < 0 for eᵘ > 1 + q|r|/2 or > 1 + r²/8a; q = √(2/c).
    """
    if family == STUDENT:
        low, high = shape / (1.0 + 0.5 * (square + variance) / spread), shape
    else:
        far = math.sqrt(0.5 * square / spread)
        low = max(0.5, far - variance / spread)
        high = 1.0 + (far if 8.0 * variance * far <= square else square / (8.0 * variance))
    return math.log(low), math.log(high), min(_STEP, 1.0 / (_STEPS_PER_WIDTH * math.sqrt(high)))


@compiled
def _row(
    family: int,
    shape: float,
    spread: float,
    residual: float,
    variance: float,
    moments: FloatArray,
    place: int,
) -> None:
    """Fill one column of moments; see :func:`mixture_sweep`."""
    square = residual * residual
    left, right, step = _edges(family, shape, spread, square, variance)
    top, total, share, share2, rest, rest2 = -math.inf, 0.0, 0.0, 0.0, 0.0, 0.0
    inverse, inverse2, by_spread, at = 0.0, 0.0, 0.0, 0.0
    for side in range(2):
        u = right - step if side else right
        for _ in range(_MOST_NODES):
            value, v = _exponent(family, shape, spread, square, variance, u)
            if value > top:
                # All sums so far were relative to a smaller peak.
                factor = math.exp(top - value)
                total, share, share2, rest, rest2 = (
                    total * factor,
                    share * factor,
                    share2 * factor,
                    rest * factor,
                    rest2 * factor,
                )
                inverse, inverse2, by_spread = inverse * factor, inverse2 * factor, by_spread * factor
                at, top = at * factor, value
            elif value < top - _FAR and (side == 0 or u < left):
                break
            weight = math.exp(value - top)
            one = 1.0 / (variance + v)
            x, y = variance * one, v * one
            total += weight
            share += weight * x
            share2 += weight * x * x
            rest += weight * y
            rest2 += weight * y * y
            inverse += weight * one
            inverse2 += weight * one * one
            by_spread += weight * 0.5 * (x + square * y * one)
            at += weight * u
            u += -step if side else step
    share, share2, rest, rest2 = share / total, share2 / total, rest / total, rest2 / total
    inverse, inverse2 = inverse / total, inverse2 / total
    # Var[a/(a + v)] = Var[v/(a + v)]: of the smaller one, where nothing cancels.
    scatter = max(share2 - share * share if share < 0.5 else rest2 - rest * rest, 0.0)
    if variance > 0.0:
        shrinkage = rest + square / variance * scatter
        curvature = inverse - square * (scatter / variance) / variance
        if shrinkage < 0.5:
            curvature = (1.0 - shrinkage) / variance
    else:
        shrinkage, curvature = 1.0, inverse - square * max(inverse2 - inverse * inverse, 0.0)
    if not curvature > 0.0:
        shrinkage = 1.0
    moments[0, place] = bounded(top + math.log(total * step))
    moments[1, place] = bounded(residual * inverse)
    moments[2, place] = bounded_curvature(curvature, variance)
    moments[3, place] = min(max(shrinkage, 1e-300), 1.0)
    moments[4, place] = by_spread / total
    moments[5, place] = at / total


@compiled
def mixture_sweep(
    family: int,
    shape: float,
    spread: float,
    residuals: FloatArray,
    variances: FloatArray,
    moments: FloatArray,
) -> None:
    """Fill moments (6, c): log ∫ e^E du, slope, curvature, 1 − aν, E[∂/∂log v] and E[u] of each row.

    α = r E[1/(a+v)],  ν = E[1/(a+v)] − r² Var[1/(a+v)],  1 − aν = E[v/(a+v)] + (r²/a) Var[v/(a+v)]
    Expectations are over u, weighted by e^E. The fifth is ½ E[a/(a+v) + r² v/(a+v)²]: by how much the log
    density of a component rises where its variance v grows by a factor e.
    Shapes: residuals r, variances a (c,).  Cost: 100 to 300 nodes, 2 to 6 µs a row; more where k is small.
    Hazard: ν may be negative where a target is far out (the tilted density has two peaks): it is clipped to
    0 and 1 − aν to 1.  Source: [Trefethen2014] for the rule.  Oracle: tests/reference/likelihoods_dense.py
    """
    for i in range(residuals.size):
        _row(family, shape, spread, residuals[i], max(variances[i], 0.0), moments, i)


def student_mass(scale: float, degrees: float, residuals: FloatArray, variances: FloatArray) -> FloatArray:
    """Distribution function of Student's noise plus a normal, by the same rule.

    P(e < r) = Σ_j w_j Φ(r/√(a + c e^{−u_j})),  w_j ∝ exp(½ν u_j − e^{u_j}),  c = ½ν scale²
    Shapes: residuals r, variances a (c,) → (c,).  Nodes are the same for all rows.
    Cost: 100 to 200 values of Φ a row; more where ν is small.
    Hazard: the upper tail is one minus this: its digits are those of 1.
    Source: [Trefethen2014] for the rule.  Oracle: tests/reference/likelihoods_dense.py
    """
    shape = 0.5 * degrees
    low = math.log(shape) - 1.0 - _FAR / shape
    high = math.log(shape + _FAR + math.sqrt(2.0 * _FAR * shape))
    step = min(_STEP, 1.0 / (_STEPS_PER_WIDTH * math.sqrt(shape)))
    nodes = np.linspace(low, high, min(_MOST_NODES, 2 + int((high - low) / step)))
    weights = np.exp(shape * nodes - np.exp(nodes) - shape * math.log(shape) + shape)
    weights /= weights.sum()
    mass = np.zeros(residuals.shape)
    for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
        spread = shape * scale**2 * math.exp(min(-node, 600.0))
        mass += weight * ndtr(residuals / np.sqrt(np.maximum(variances, 0.0) + spread))
    return mass
