"""Where a density times distribution functions has its mass, for the nodes of a rule.

The tilted density of a class label is, as a function of one variable t, a density times distribution
functions:

    NORMAL:  g(t) = −t²/2 + Σ_c log Φ(offset_c + ratio_c t)
    GUMBEL:  g(t) = log F′(t, own) + Σ_c log F(offset_c + t, variance_c),  F of streamgp.numerics.gumbel

It is log-concave and steepest to its left, where distribution functions vanish: a wide normal may be cut
there by an edge a thousand times narrower. So the corner of the stretched rule stands on the left, and 32
nodes suffice whatever the variances are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.numerics.compilation import compiled
from streamgp.numerics.fast_normal import fast_normal_terms
from streamgp.numerics.gumbel import gumbel_profile
from streamgp.numerics.noise import GUMBEL
from streamgp.numerics.stretched_rule import Stretch

# Nats below the peak: where nodes end, and where they are densest. An edge that lies deeper than that is not
# resolved, which costs at most its weight e⁻⁹ and in practice a thousandth of that.
FAR, NEAR = 28.0, 9.0
# Nodes start to spread at this many standard deviations (of the curvature at the corner) from the corner.
_STRETCH = 6.0
_TINY = 1e-300


class Factors(NamedTuple):
    """The integrand g of one row; see the module's head.

    ``with_own`` is False for the product of distribution functions alone, without −t²/2 or log F′.
    """

    noise: int
    with_own: bool
    own: float  # variance of the true class (GUMBEL)
    log_own: float
    offset: FloatArray  # (m,)
    ratio: FloatArray  # (m,); taken as 1 if GUMBEL
    log_variance: FloatArray  # (m,); GUMBEL only


@compiled
def evaluate(factors: Factors, t: float) -> tuple[float, float, float]:
    """g(t), g′(t) and −g″(t); of GUMBEL factors the profile, which is near enough to g for finding its mass.

    Cost: one distribution function for each factor, vectorised over factors.
    """
    offset, ratio = factors.offset, factors.ratio
    value, slope, curvature = 0.0, 0.0, 0.0
    if factors.noise == GUMBEL:
        for i in range(offset.size):
            log_share, hazard, drop = gumbel_profile(offset[i] + t, factors.log_variance[i])
            value += log_share
            slope += hazard
            curvature += drop
        if factors.with_own:
            log_share, hazard, drop = gumbel_profile(t - factors.own, factors.log_own)
            value += log_share + (0.5 * factors.own - t)
            slope += hazard - 1.0
            curvature += drop
        return value, slope, curvature
    for i in range(offset.size):
        log_share, hazard, drop = fast_normal_terms(offset[i] + ratio[i] * t)
        value += log_share
        slope += ratio[i] * hazard
        curvature += ratio[i] * ratio[i] * drop
    if factors.with_own:
        value, slope, curvature = value - 0.5 * t * t, slope - t, curvature + 1.0
    return value, slope, curvature


@compiled
def _bracket(factors: Factors) -> tuple[float, float, float]:
    """Two points with the mode between them, and where to start."""
    if factors.noise != GUMBEL:
        return 0.0, evaluate(factors, 0.0)[1], 0.0
    # At the largest mean no factor is steeper than 1: further left, steps on a double exponential are short.
    highest = max(0.0, -np.min(factors.offset))
    return 0.0, max(highest, 0.5 * factors.own) + math.log(factors.offset.size + 1.0) + 2.0, highest


@compiled
def _mode(factors: Factors) -> tuple[float, float, float]:
    """The mode to a tenth of a standard deviation, with g and −g″ there, by Newton steps inside a bracket."""
    low, high, t = _bracket(factors)
    value, curvature = 0.0, 1.0
    for _ in range(100):
        value, slope, curvature = evaluate(factors, t)
        if slope * slope <= 0.01 * curvature:
            break
        if slope > 0.0:
            low = t
        else:
            high = t
        step = slope / (curvature + _TINY)
        if factors.noise == GUMBEL and slope > 1.0:
            # Steps on a double exponential are short; its logarithm falls by at most one for each unit of t.
            step = max(step, math.log(slope))
        t = t + step if low < t + step < high else 0.5 * (low + high)
    return t, value, curvature


@compiled
def _descend(
    factors: Factors, start: float, top: float, side: float, nats: float, first: float
) -> tuple[float, float]:
    """Distance from start to where g is nats to nats + 4 below top, and −g″ there; side −1 or +1.

    The drop is convex in the distance: a Newton step from too near ends too far, one from too far does not
    pass the goal. Bisection where a step leaves the bracket, or g is so steep that steps would be short.
    """
    near, far, distance, curvature = 0.0, math.inf, first, 1.0
    for _ in range(100):
        value, slope, curvature = evaluate(factors, start + side * distance)
        drop = top - value
        if nats <= drop <= nats + 4.0:
            break
        if drop < nats:
            near = distance
        else:
            far = distance
        target = distance + (nats - drop) / (_TINY - side * slope)
        if near < target < far and drop < 8.0 * nats:
            distance = target
        else:
            distance = 0.5 * (near + far) if far < math.inf else 2.0 * distance
    return distance, curvature


@compiled
def find_mass(factors: Factors) -> Stretch:
    """Find where e^g has its mass: its mode, 28 nats below it on both sides, and the corner on the left.

    corner: 9 nats below the mode on the left;  width = 6/√(−g″) there
    Cost: 10 to 15 evaluations of g.  Hazard: g must be log-concave; there are no other conditions.
    """
    mode, top, curvature = _mode(factors)
    scale = 1.0 / math.sqrt(curvature + _TINY)
    left, _ = _descend(factors, mode, top, -1.0, FAR, math.sqrt(2.0 * FAR) * scale)
    right, _ = _descend(factors, mode, top, 1.0, FAR, math.sqrt(2.0 * FAR) * scale)
    near, edge = _descend(factors, mode, top, -1.0, NEAR, math.sqrt(2.0 * NEAR) * scale)
    return Stretch(mode - left, mode + right, mode - near, _STRETCH / math.sqrt(edge + _TINY))


@compiled
def find_rise(factors: Factors, high: float, depth: float) -> Stretch:
    """Find where a product of distribution functions rises: from e^{−depth} up to high, where it is 1.

    corner and width as in :func:`find_mass`.  Its derivative has its mass there, and so have shares of it
    down to e^{−depth/2} or so.
    """
    left, _ = _descend(factors, high, 0.0, -1.0, depth, high)
    near, edge = _descend(factors, high, 0.0, -1.0, NEAR, high)
    return Stretch(high - left, high, high - near, _STRETCH / math.sqrt(edge + _TINY))
