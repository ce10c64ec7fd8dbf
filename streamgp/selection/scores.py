"""How much a row would teach: scores of candidates, larger is better, in nats."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from streamgp.arrays import FloatArray

Score = Callable[[FloatArray, FloatArray, FloatArray, FloatArray], FloatArray]


def information_gain(
    mean: FloatArray, variance: FloatArray, precision: FloatArray, precision_mean: FloatArray
) -> FloatArray:
    """Relative entropy of the marginal after the inclusion to the one before.

    ½ (log q + 1/q − 1 + (h′ − h)²/a),  q = 1 + a π,  h′ − h = a (b − π h)/q
    h mean, a variance; (π, b) the site that an inclusion would set.  Shapes: (c,) each.  Cost: O(c).
    Hazard: log q + 1/q − 1 cancels for small a π; log1p keeps its first digits.  Source: [IVM2006] eq. 5.
    """
    ratio = variance * precision
    shift = (precision_mean - precision * mean) / (1.0 + ratio)
    gain: FloatArray = 0.5 * (np.log1p(ratio) - ratio / (1.0 + ratio) + variance * shift * shift)
    return gain


def entropy_reduction(
    mean: FloatArray, variance: FloatArray, precision: FloatArray, precision_mean: FloatArray
) -> FloatArray:
    """Loss of differential entropy of the marginal: ½ log(1 + a π); the mean plays no part.

    a variance, π precision.  Shapes: (c,) each.  Source: [IVM2003] eq. 4.
    """
    reduction: FloatArray = 0.5 * np.log1p(variance * precision)
    return reduction


SCORES: Mapping[str, Score] = {
    "information_gain": information_gain,
    "entropy_reduction": entropy_reduction,
}
