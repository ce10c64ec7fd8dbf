"""A trapezoidal rule whose nodes are dense at an edge and spread away from it.

    ∫ e^{g(t)} dt ≈ Σ_k w_k e^{g(t_k)},  t = corner + width sinh u,  w = width cosh(u) du,  u equidistant

For an analytic integrand that has vanished at both ends the error falls exponentially in the number of nodes.
Equidistant in t, that number would grow with the ratio of the widest to the narrowest scale, the width of a
normal density to that of an edge that cuts it; stretched, with the logarithm of the ratio.
Source: [Trefethen2014].
"""

from __future__ import annotations

import math
from typing import NamedTuple

from streamgp.arrays import FloatArray
from streamgp.numerics.compilation import compiled
from streamgp.numerics.exponential import exp_double


class Stretch(NamedTuple):
    """Where nodes begin and end, where they are densest, and the distance from there at which they spread."""

    low: float
    high: float
    corner: float
    width: float


@compiled
def fill_nodes(stretch: Stretch, nodes: FloatArray, weights: FloatArray) -> None:
    """Fill nodes t and their weights, (n,) each; the first node is low, the last one high."""
    first = math.asinh((stretch.low - stretch.corner) / stretch.width)
    step = (math.asinh((stretch.high - stretch.corner) / stretch.width) - first) / (nodes.size - 1)
    half = 0.5 * stretch.width
    for k in range(nodes.size):
        rise = exp_double(first + step * k)
        fall = 1.0 / rise
        nodes[k] = stretch.corner + half * (rise - fall)
        weights[k] = step * half * (rise + fall)
