"""Sweeps that turn a tile of inner products into kernel values, in place, while it is in cache.

Stationary families are functions of s = −½ |x − z|² in scaled inputs, with r = √(−2cs):

| code | k/v | c | ∂k/∂s / v |
|---|---|---|---|
| RBF | eˢ | | eˢ |
| MATERN12 | e⁻ʳ | 1 | e⁻ʳ/r |
| MATERN32 | (1 + r) e⁻ʳ | 3 | 3 e⁻ʳ |
| MATERN52 | (1 + r + r²/3) e⁻ʳ | 5 | 5/3 (1 + r) e⁻ʳ |

Derivatives by s are finite at s = 0, where the usual form by distance is 0/0; all but that of MATERN12, which
has a kink there: it counts as 0, and s itself must be exact where it is small.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.arrays import BoolArray, Floats
from streamgp.numerics.compilation import compiled
from streamgp.numerics.exponential import fast_exp

RBF = 0
MATERN32 = 1
MATERN52 = 2
MATERN12 = 3


@compiled
def scale_rows(
    rows: Floats, center: Floats, inverse_scale: Floats, scaled: Floats, half_norms: Floats
) -> None:
    """Centre and scale rows, and take half of their squared norms.

    scaled = (rows − center) ∘ inverse_scale,  half_norms = ½ |scaled|²
    Shapes: rows, scaled (c, p); center, inverse_scale (p,); half_norms (c,).  Cost: O(c p), one sweep.
    """
    half = scaled.dtype.type(0.5)
    zero = scaled.dtype.type(0.0)
    for i in range(rows.shape[0]):
        norm = zero
        for q in range(rows.shape[1]):
            value = (rows[i, q] - center[q]) * inverse_scale[q]
            scaled[i, q] = value
            norm += value * value
        half_norms[i] = half * norm


@compiled
def _rbf_row(row: Floats, left_half: Any, right_half: Floats, variance: Any) -> None:
    zero = row.dtype.type(0.0)
    for j in range(row.size):
        s = row[j] - left_half - right_half[j]
        # Not max(): NaN must stay NaN.
        row[j] = variance * fast_exp(zero if s > zero else s)


@compiled
def _matern12_row(row: Floats, left_half: Any, right_half: Floats, variance: Any) -> None:
    zero, two = row.dtype.type(0.0), row.dtype.type(2.0)
    for j in range(row.size):
        s = row[j] - left_half - right_half[j]
        row[j] = np.sqrt(two * (zero if s > zero else -s))
    # A loop of its own, in the first cache: root and exponential in one chain would wait for each other.
    for j in range(row.size):
        row[j] = variance * fast_exp(-row[j])


@compiled
def _matern32_row(row: Floats, left_half: Any, right_half: Floats, variance: Any) -> None:
    zero, one, six = row.dtype.type(0.0), row.dtype.type(1.0), row.dtype.type(6.0)
    for j in range(row.size):
        s = row[j] - left_half - right_half[j]
        row[j] = np.sqrt(six * (zero if s > zero else -s))
    for j in range(row.size):
        r = row[j]
        row[j] = variance * (one + r) * fast_exp(-r)


@compiled
def _matern52_row(row: Floats, left_half: Any, right_half: Floats, variance: Any) -> None:
    zero, one, ten = row.dtype.type(0.0), row.dtype.type(1.0), row.dtype.type(10.0)
    third = row.dtype.type(1.0 / 3.0)
    for j in range(row.size):
        s = row[j] - left_half - right_half[j]
        row[j] = np.sqrt(ten * (zero if s > zero else -s))
    for j in range(row.size):
        r = row[j]
        row[j] = variance * (one + r + third * (r * r)) * fast_exp(-r)


@compiled
def stationary_tile(
    products: Floats, left_half_norms: Floats, right_half_norms: Floats, family: int, variance: float
) -> None:
    """Replace inner products of scaled inputs by the values of a stationary kernel.

    s = min(products − left_half_norms − right_half_norms, 0),  products ← v f(s)
    v variance; f the function of family (see the table above)
    Shapes: products (c, d); left_half_norms (c,); right_half_norms (d,).  Cost: O(c d), one sweep.
    Hazard: s is a difference; :func:`refine_tile` restores it where that matters.
    Source: [IVM2006] appendix C.2.1.  Oracle: tests/reference/kernels_dense.py
    """
    v = products.dtype.type(variance)
    for i in range(products.shape[0]):
        if family == RBF:
            _rbf_row(products[i], left_half_norms[i], right_half_norms, v)
        elif family == MATERN12:
            _matern12_row(products[i], left_half_norms[i], right_half_norms, v)
        elif family == MATERN32:
            _matern32_row(products[i], left_half_norms[i], right_half_norms, v)
        else:
            _matern52_row(products[i], left_half_norms[i], right_half_norms, v)


@compiled
def rbf_and_linear_tile(
    products: Floats,
    half_norms: tuple[Floats, Floats],
    offsets: tuple[Floats, Floats],
    variance: float,
    slope: float,
) -> None:
    """Replace inner products of scaled inputs by the sum of an RBF and a linear function of them.

    products ← v exp(min(products − a − b, 0)) + slope products + o + q
    v variance; (a, b) half_norms, (o, q) offsets, of left rows (c,) and of right rows (d,)
    Shapes: products (c, d).  Cost: O(c d), one sweep.  Hazard: as :func:`stationary_tile`.
    """
    v, w, zero = products.dtype.type(variance), products.dtype.type(slope), products.dtype.type(0.0)
    left_half, right_half = half_norms
    left_offset, right_offset = offsets
    for i in range(products.shape[0]):
        row, half, offset = products[i], left_half[i], left_offset[i]
        for j in range(row.size):
            product = row[j]
            s = product - half - right_half[j]
            row[j] = v * fast_exp(zero if s > zero else s) + w * product + (offset + right_offset[j])


@compiled
def _doubtful_row(
    row: Floats,
    left_half: Any,
    right_half: Floats,
    doubt: tuple[float, float, float, float],
    marks: BoolArray,
) -> int:
    """Row of inner products → row of s; marks those whose error may show, and counts them."""
    zero, one, two = row.dtype.type(0.0), row.dtype.type(1.0), row.dtype.type(2.0)
    unit, tolerance = row.dtype.type(doubt[0]), row.dtype.type(doubt[1])
    reach, kink = row.dtype.type(doubt[2]), row.dtype.type(doubt[3])
    count = 0
    for j in range(row.size):
        s = row[j] - left_half - right_half[j]
        s = zero if s > zero else s
        row[j] = s
        error = unit * (left_half + right_half[j])
        # The least that the squared distance can be: within it the error of s is divided by the distance.
        nearest = -two * (s + error)
        scale = (one - kink) + kink * (nearest if nearest > zero else zero)
        mark = (error * error > tolerance * tolerance * scale) & (s + reach + error > zero)
        marks[j] = mark
        count += mark
    return count


@compiled
def _refine_row(
    row: Floats, left_row: Floats, right: Floats, inverse_scale: Floats, marks: BoolArray
) -> None:
    zero, half = row.dtype.type(0.0), row.dtype.type(0.5)
    for j in range(row.size):
        if marks[j]:
            norm = zero
            for q in range(left_row.size):
                difference = (left_row[q] - right[j, q]) * inverse_scale[q]
                norm += difference * difference
            row[j] = -half * norm


@compiled
def refine_tile(
    products: Floats,
    left_half_norms: Floats,
    right_half_norms: Floats,
    left: Floats,
    right: Floats,
    inverse_scale: Floats,
    doubt: tuple[float, float, float, float],
    refined: BoolArray,
) -> None:
    """Replace inner products by s, taken from the differences themselves where rounding would show.

    s = min(products − a − b, 0), with error at most e = unit (a + b);
    where e > tolerance and s > −reach − e:  s = −½ |(l − r) ∘ inverse_scale|²
    with a kink of 1 (MATERN12: ∂k/∂s grows as 1/d, d² = −2s) where e > tolerance d instead
    a, b left_half_norms, right_half_norms; (unit, tolerance, reach, kink) doubt; l, r rows of left, right as
    they came, neither centred nor scaled.  refined: set to where that was done.
    Shapes: products, refined (c, d); left (c, p); right (d, p).  Cost: O(c d) and O(p) for each refined pair.
    Hazard: none; this is the remedy where norms are so large that their difference has lost its digits.
    """
    for i in range(products.shape[0]):
        doubtful = _doubtful_row(products[i], left_half_norms[i], right_half_norms, doubt, refined[i])
        if doubtful > 0:
            _refine_row(products[i], left[i], right, inverse_scale, refined[i])


@compiled
def _power_row(row: Floats, base: Floats, degree: int) -> None:
    """Row of bases → row of powers; a few sweeps in the first cache are faster than one pow per number."""
    for j in range(row.size):
        base[j] = row[j]
    for _ in range(degree - 1):
        for j in range(row.size):
            row[j] *= base[j]


@compiled
def polynomial_tile(products: Floats, shift: float, degree: int, variance: float) -> None:
    """Replace inner products by the values of a polynomial kernel.

    products ← v (products + shift)^degree
    v variance.  Shapes: products (c, d).  Cost: O(c d degree), in cache.
    Hazard: overflows where the power does.
    """
    v, o = products.dtype.type(variance), products.dtype.type(shift)
    base = np.empty(products.shape[1], products.dtype)
    for i in range(products.shape[0]):
        row = products[i]
        for j in range(row.size):
            row[j] += o
        _power_row(row, base, degree)
        for j in range(row.size):
            row[j] *= v


@compiled
def mirror_lower(matrix: Floats) -> None:
    """Copy the lower triangle of a square matrix onto its upper one, in place."""
    for i in range(matrix.shape[0]):
        for j in range(i):
            matrix[j, i] = matrix[i, j]
