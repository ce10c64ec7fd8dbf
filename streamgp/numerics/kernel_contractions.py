"""Sweeps that contract a tile of weights with the derivatives of kernel values, all parameters at once.

The tile of inner products is replaced by G = weights ∘ ∂k/∂s (s = −½ |x − z|² in scaled inputs, or the inner
product itself), from which one more matrix product gives all derivatives for lengthscales and inputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.arrays import BoolArray, FloatArray, Floats
from streamgp.numerics.compilation import compiled
from streamgp.numerics.exponential import fast_exp
from streamgp.numerics.kernel_sweeps import MATERN12, MATERN32, RBF


@compiled
def _rbf_row(
    row: Floats, weights: Floats, left_half: Any, right_half: Floats, variance: Any, column_sums: Floats
) -> tuple[Any, Any, Any]:
    zero = row.dtype.type(0.0)
    row_sum, stretch = zero, zero
    for j in range(row.size):
        s = row[j] - left_half - right_half[j]
        s = zero if s > zero else s
        g = weights[j] * variance * fast_exp(s)
        row[j] = g
        row_sum += g
        stretch += g * s
        column_sums[j] += g
    return row_sum, row_sum, stretch


@compiled
def _matern12_row(
    row: Floats, weights: Floats, left_half: Any, right_half: Floats, variance: Any, column_sums: Floats
) -> tuple[Any, Any, Any]:
    zero, one, two = row.dtype.type(0.0), row.dtype.type(1.0), row.dtype.type(2.0)
    row_sum, value, stretch = zero, zero, zero
    for j in range(row.size):
        s = row[j] - left_half - right_half[j]
        s = zero if s > zero else s
        r = np.sqrt(-two * s)
        decayed = weights[j] * variance * fast_exp(-r)
        # At the kink there is no direction in which to move: no slope.
        g = (zero if r == zero else decayed) / (one if r == zero else r)
        row[j] = g
        row_sum += g
        value += decayed
        stretch += g * s
        column_sums[j] += g
    return row_sum, value, stretch


@compiled
def _matern32_row(
    row: Floats, weights: Floats, left_half: Any, right_half: Floats, variance: Any, column_sums: Floats
) -> tuple[Any, Any, Any]:
    zero, one = row.dtype.type(0.0), row.dtype.type(1.0)
    three, six = row.dtype.type(3.0), row.dtype.type(6.0)
    row_sum, value, stretch = zero, zero, zero
    for j in range(row.size):
        s = row[j] - left_half - right_half[j]
        s = zero if s > zero else s
        r = np.sqrt(-six * s)
        decayed = weights[j] * variance * fast_exp(-r)
        g = three * decayed
        row[j] = g
        row_sum += g
        value += decayed * (one + r)
        stretch += g * s
        column_sums[j] += g
    return row_sum, value, stretch


@compiled
def _matern52_row(
    row: Floats, weights: Floats, left_half: Any, right_half: Floats, variance: Any, column_sums: Floats
) -> tuple[Any, Any, Any]:
    zero, one, ten = row.dtype.type(0.0), row.dtype.type(1.0), row.dtype.type(10.0)
    third, five_thirds = row.dtype.type(1.0 / 3.0), row.dtype.type(5.0 / 3.0)
    row_sum, value, stretch = zero, zero, zero
    for j in range(row.size):
        s = row[j] - left_half - right_half[j]
        s = zero if s > zero else s
        r_squared = -ten * s
        r = np.sqrt(r_squared)
        decayed = weights[j] * variance * fast_exp(-r)
        g = five_thirds * decayed * (one + r)
        row[j] = g
        row_sum += g
        value += decayed * (one + r + third * r_squared)
        stretch += g * s
        column_sums[j] += g
    return row_sum, value, stretch


@compiled
def contract_stationary_tile(
    products: Floats,
    weights: Floats,
    left_half_norms: Floats,
    right_half_norms: Floats,
    family: int,
    variance: float,
    row_sums: Floats,
    column_sums: Floats,
) -> tuple[float, float]:
    """Contract weights with the derivatives of a stationary kernel: by log v and by log lengthscale.

    s = min(products − left_half_norms − right_half_norms, 0),  G = weights ∘ ∂k/∂s
    returns Σ weights ∘ k  and  −2 Σ G ∘ s  (∂s/∂log l = −2s);  products ← G
    row_sums ← sums of G's rows;  column_sums += sums of its columns
    Shapes: products, weights (c, d); left_half_norms, row_sums (c,); right_half_norms, column_sums (d,).
    Cost: O(c d), one sweep.
    Hazard: sums run in the tile's precision within a row, in float64 across rows.
    Source: [IVM2006] appendix C.2.1.  Oracle: tests/reference/kernels_dense.py
    """
    v = products.dtype.type(variance)
    value_total, stretch_total = 0.0, 0.0
    for i in range(products.shape[0]):
        left_half = left_half_norms[i]
        if family == RBF:
            sums = _rbf_row(products[i], weights[i], left_half, right_half_norms, v, column_sums)
        elif family == MATERN12:
            sums = _matern12_row(products[i], weights[i], left_half, right_half_norms, v, column_sums)
        elif family == MATERN32:
            sums = _matern32_row(products[i], weights[i], left_half, right_half_norms, v, column_sums)
        else:
            sums = _matern52_row(products[i], weights[i], left_half, right_half_norms, v, column_sums)
        row_sums[i] = sums[0]
        value_total += np.float64(sums[1])
        stretch_total += np.float64(sums[2])
    return value_total, -2.0 * stretch_total


@compiled
def contract_close_pairs(
    slopes: Floats,
    refined: BoolArray,
    left: Floats,
    right: Floats,
    inverse_scale: Floats,
    squares: FloatArray,
    inputs: FloatArray,
) -> None:
    """Contract the refined pairs of a tile from their differences, and take them out of it.

    squares[q] += Σ G (δ_q)²,  inputs[j, q] += Σᵢ G δ_q,  δ = (l − r) ∘ inverse_scale;  G ← 0 there
    G slopes.  Shapes: slopes, refined (c, d); left (c, p); right, inputs (d, p); squares (p,).
    Cost: O(c d), and O(p) for each refined pair.
    Hazard: none; these are the pairs whose sum by matrix products would be a difference of large numbers.
    """
    zero = slopes.dtype.type(0.0)
    for i in range(slopes.shape[0]):
        for j in range(slopes.shape[1]):
            if refined[i, j]:
                g = np.float64(slopes[i, j])
                slopes[i, j] = zero
                for q in range(left.shape[1]):
                    difference = np.float64((left[i, q] - right[j, q]) * inverse_scale[q])
                    squares[q] += g * difference * difference
                    inputs[j, q] += g * difference


@compiled
def contract_polynomial_tile(
    products: Floats, weights: Floats, shift: float, degree: int, variance: float
) -> tuple[float, float]:
    """Contract weights with the derivatives of a polynomial kernel.

    u = products + shift,  G = degree v weights ∘ u^(degree−1);  returns Σ v weights ∘ u^degree, Σ G ∘ (1 − u)
    v variance;  products ← G
    Shapes: products, weights (c, d).  Cost: O(c d degree), in cache.
    Hazard: overflows where the power does.
    """
    one, zero = products.dtype.type(1.0), products.dtype.type(0.0)
    o, slope = products.dtype.type(shift), products.dtype.type(degree * variance)
    base = np.empty(products.shape[1], products.dtype)
    value_total, offset_total = 0.0, 0.0
    for i in range(products.shape[0]):
        row = products[i]
        for j in range(row.size):
            base[j] = row[j] + o
            row[j] = slope * weights[i, j]
        for _ in range(degree - 1):
            for j in range(row.size):
                row[j] *= base[j]
        value, offset = zero, zero
        for j in range(row.size):
            value += row[j] * base[j]
            offset += row[j] * (one - base[j])
        value_total += np.float64(value)
        offset_total += np.float64(offset)
    return value_total / degree, offset_total
