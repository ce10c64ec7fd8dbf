"""What an inclusion would teach about rows of the probit likelihood, in one loop over a block of a pass."""

from __future__ import annotations

import math

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.numerics.compilation import compiled
from streamgp.numerics.normal import normal_terms

INFORMATION_GAIN, ENTROPY_REDUCTION = 0, 1

LOWEST, HIGHEST = -30, 40
"""Exponents of two between which variances have bounds of their own."""
FARTHEST = 40.0
"""Margins in deviations that bounds are looked for among."""
_HALVINGS = 60
_SMALL = 1e-4
_ROUNDING = 1e-9


@compiled(reassociate=False)
def probit_score(kind: int, z: float, variance: float) -> tuple[float, float]:
    """Score of an inclusion, and the precision of its site.

    π = w/(1 + aκ),  r = aπ;  entropy reduction ½ log(1 + r);  information gain
    ½ (log(1 + r) − r/(1 + r) + (h′ − h)²/a) with h′ − h = a y λ/√(1 + a)
    z = y (h + bias)/√(1 + a); a variance; λ, w, κ of :func:`~streamgp.numerics.normal.normal_terms`
    Both scores fall with z and grow with a, as λ and w fall with z.
    Cost: about 0.1 µs.  Hazard: log(1 + r) − r/(1 + r) cancels for small r; there it is r²/2 − 2r³/3 + ...
    Source: [IVM2006] eq. 5, B.1.  Oracle: streamgp.selection.scores
    """
    _, hazard, drop, complement = normal_terms(z)
    precision = drop / (1.0 + variance * complement)
    ratio = variance * precision
    if kind == ENTROPY_REDUCTION:
        return 0.5 * math.log1p(ratio), precision
    if ratio < _SMALL:
        lost = ratio * ratio * (0.5 - ratio * (2.0 / 3.0 - ratio * (0.75 - 0.8 * ratio)))
    else:
        lost = math.log1p(ratio) - ratio / (1.0 + ratio)
    moved = variance / (1.0 + variance) * hazard * hazard
    return 0.5 * (lost + moved), precision


@compiled(reassociate=False)
def _fill_limits(kind: int, floor: float, limits: FloatArray) -> None:
    for place in range(limits.shape[0]):
        variance = 2.0 ** (LOWEST + place)
        low, high = -FARTHEST, FARTHEST
        if probit_score(kind, high, variance)[0] >= floor:
            continue
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            if probit_score(kind, middle, variance)[0] >= floor:
                low = middle
            else:
                high = middle
        limits[place] = high * abs(high)


def score_limits(kind: int, floor: float) -> FloatArray:
    """From which margin on a row surely scores less than ``floor``, by the variance.

    Entry e − LOWEST belongs to variances below 2^e and says z |z|, where z is the least margin at which the
    score of a row of variance 2^e is below the floor: no row of that margin and less variance scores more.
    Infinite where none is known.  Shape: (HIGHEST − LOWEST + 1,).
    """
    limits = np.full(HIGHEST - LOWEST + 1, np.inf)
    if floor > 0.0:
        _fill_limits(kind, floor * (1.0 - _ROUNDING), limits)
    return limits


@compiled(reassociate=False)
def probit_scores(
    kind: int,
    bias: float,
    least_precision: float,
    limits: FloatArray,
    targets: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    scores: FloatArray,
) -> None:
    """Fill ``scores`` of rows: −inf where the site would be too flat, or the score surely below the limits.

    targets in {−1, +1}; limits as of :func:`score_limits`.  Shapes: (c,) but for the limits.
    Cost: O(c); rows beyond the limits cost a twentieth of the others.
    """
    for i in range(targets.shape[0]):
        a = max(variance[i], 0.0)
        margin = targets[i] * (mean[i] + bias)
        exponent = math.frexp(a)[1]
        limit = limits[max(exponent, LOWEST) - LOWEST] if exponent <= HIGHEST else np.inf
        if margin * abs(margin) >= limit * (1.0 + a):
            scores[i] = -np.inf
            continue
        score, precision = probit_score(kind, margin / math.sqrt(1.0 + a), a)
        scores[i] = score if precision > least_precision and math.isfinite(score) else -np.inf
