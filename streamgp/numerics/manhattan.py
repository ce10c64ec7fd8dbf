"""Sweeps of the Laplacian kernel: distances as sums over features, which no matrix product gives.

The right rows come transposed, so that a sweep runs along one feature of all of them: four features at a time
while a row of the tile is in cache. Differences are taken before they are scaled: no digits are lost.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.arrays import FloatArray, Floats
from streamgp.numerics.compilation import compiled
from streamgp.numerics.exponential import fast_exp


@compiled
def _add_four(
    row: Floats, x: Floats, scale: Floats, first: Floats, second: Floats, third: Floats, fourth: Floats
) -> None:
    for j in range(row.size):
        near = abs(x[0] - first[j]) * scale[0] + abs(x[1] - second[j]) * scale[1]
        row[j] += near + (abs(x[2] - third[j]) * scale[2] + abs(x[3] - fourth[j]) * scale[3])


@compiled
def _add_one(row: Floats, x: Any, scale: Any, feature: Floats) -> None:
    for j in range(row.size):
        row[j] += abs(x - feature[j]) * scale


@compiled
def _distances(row: Floats, x: Floats, scale: Floats, features: Floats) -> None:
    """Row ← Σ_q |x_q − z_jq| scale_q."""
    row[:] = row.dtype.type(0.0)
    in_fours = x.size - x.size % 4
    for q in range(0, in_fours, 4):
        _add_four(
            row, x[q : q + 4], scale[q : q + 4],
            features[q], features[q + 1], features[q + 2], features[q + 3],
        )  # fmt: skip
    for q in range(in_fours, x.size):
        _add_one(row, x[q], scale[q], features[q])


@compiled
def laplacian_tile(
    values: Floats, left: Floats, features: Floats, inverse_scale: Floats, variance: float
) -> None:
    """Values of the Laplacian kernel.

    values ← v exp(−Σ_q |x_q − z_q| inverse_scale_q)
    v variance.  Shapes: values (c, d); left (c, p); features (p, d), the right rows transposed;
    inverse_scale (p,).  Cost: O(c d p), no matrix product.  Hazard: none.
    Oracle: tests/reference/kernels_dense.py
    """
    v = values.dtype.type(variance)
    for i in range(left.shape[0]):
        row = values[i]
        _distances(row, left[i], inverse_scale, features)
        for j in range(row.size):
            row[j] = v * fast_exp(-row[j])


@compiled
def _contract_row(row: Floats, weights: Floats, variance: Any) -> tuple[Any, Any]:
    """Row of distances → G = weights ∘ k; its sum, and the sum of G times distance."""
    value, stretch = row.dtype.type(0.0), row.dtype.type(0.0)
    for j in range(row.size):
        distance = row[j]
        g = weights[j] * variance * fast_exp(-distance)
        row[j] = g
        value += g
        stretch += g * distance
    return value, stretch


@compiled
def _stretch(row: Floats, x: Any, feature: Floats) -> Any:
    """Σ_j G_j |x − z_j|."""
    total = row.dtype.type(0.0)
    for j in range(row.size):
        total += row[j] * abs(x - feature[j])
    return total


@compiled
def _add_slopes(row: Floats, x: Any, feature: Floats, slopes: Floats) -> None:
    """slopes_j += G_j sign(x − z_j)."""
    zero = row.dtype.type(0.0)
    for j in range(row.size):
        difference = x - feature[j]
        g = row[j]
        # At the kink there is no direction in which to move: no slope.
        slopes[j] += (g if difference > zero else zero) - (g if difference < zero else zero)


@compiled
def contract_laplacian_tile(
    slopes: Floats,
    weights: Floats,
    left: Floats,
    features: Floats,
    inverse_scale: Floats,
    variance: float,
    stretches: FloatArray,
    inputs: Floats,
) -> tuple[float, float]:
    """Contract weights with the derivatives of the Laplacian kernel.

    G = weights ∘ k,  δ = (x − z) ∘ inverse_scale;  returns Σ G and Σ G Σ_q |δ_q|;  slopes ← G
    stretches[q] += Σ G |δ_q|, by log lengthscale_q;  inputs[q, j] += Σ_i G sign(δ_q), by z_jq/lengthscale_q;
    Shapes: slopes, weights (c, d); left (c, p); features (p, d); inverse_scale (p,); stretches (p,) and
    inputs (p, d), or empty where they are not asked for.
    Cost: O(c d p).  Hazard: sums run in the tile's precision within a row, stretches in float64 across rows.
    Oracle: tests/reference/kernels_dense.py
    """
    v = slopes.dtype.type(variance)
    value_total, stretch_total = 0.0, 0.0
    for i in range(left.shape[0]):
        row = slopes[i]
        _distances(row, left[i], inverse_scale, features)
        value, stretch = _contract_row(row, weights[i], v)
        value_total += np.float64(value)
        stretch_total += np.float64(stretch)
        for q in range(stretches.size):
            stretches[q] += np.float64(_stretch(row, left[i, q], features[q]) * inverse_scale[q])
        if inputs.size > 0:
            for q in range(left.shape[1]):
                _add_slopes(row, left[i, q], features[q], inputs[q])
    return value_total, stretch_total
