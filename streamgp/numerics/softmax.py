"""The softmax of a point: log probability of a label, its gradient and the diagonal of its curvature."""

from __future__ import annotations

import math

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.numerics.compilation import compiled
from streamgp.numerics.exponential import exp_double


@compiled
def softmax_sweep(
    codes: IntArray,
    biases: FloatArray,
    points: Array,
    log_density: FloatArray,
    gradient: FloatArray,
    curvature: FloatArray,
) -> None:
    """Fill log p_y, 1[c = y] − p_c and p_c (1 − p_c) of every row, p the softmax of points + biases.

    Shapes: codes and log_density (n,), biases (C,), all others (n, C).  Cost: C exponentials a row.
    Hazard: 1 − p_c of the largest class is the sum of the others, which keeps its digits.
    """
    n_classes = biases.size
    for i in range(codes.size):
        shares, rests, largest = gradient[i], curvature[i], 0
        for c in range(n_classes):
            shares[c] = points[i, c] + biases[c]
            if shares[c] > shares[largest]:
                largest = c
        top, others = shares[largest], 0.0
        log_density[i] = shares[codes[i]] - top
        for c in range(n_classes):
            shares[c] = exp_double(shares[c] - top) if c != largest else 0.0
            others += shares[c]
        shares[largest] = 1.0
        total = 1.0 + others
        log_density[i] -= math.log1p(others)
        for c in range(n_classes):
            rest = others if c == largest else total - shares[c]
            rests[c] = shares[c] * rest / (total * total)
            shares[c] = rest / total if c == codes[i] else -shares[c] / total
