"""From a kernel block to the marginals of its rows."""

from __future__ import annotations

import numpy as np

from streamgp.arrays import Array, FloatArray
from streamgp.numerics.compilation import compiled
from streamgp.numerics.factors import multiply_by_upper

COLUMNS_PER_TILE = 128
"""Columns of W that are formed at a time: enough for BLAS, few enough to stay in cache."""


@compiled
def add_row_moments(
    tile: Array,
    targets: FloatArray,
    mean: FloatArray,
    explained: FloatArray,
) -> None:
    """Add a tile's share to the means and explained variances of its rows, in place.

    mean_i += Σ_j W_ij β_j,  explained_i += Σ_j W_ij²
    W tile, β targets.  Shapes: tile (c, t), targets (t,), mean and explained (c,).  Cost: O(c t).
    Hazard: sums of many float32 values; both are accumulated in float64.
    """
    for i in range(tile.shape[0]):
        dot = 0.0
        square = 0.0
        for j in range(tile.shape[1]):
            value = np.float64(tile[i, j])
            dot += value * targets[j]
            square += value * value
        mean[i] += dot
        explained[i] += square


def project(block: Array, projection: Array, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Posterior means and explained variances of a kernel block.

    W = K T,  h = W β,  explained = row sums of W²
    K block, T projection (upper triangular), β targets.
    Shapes: block (c, d), projection (d, d), targets (d,) → (c,), (c,).
    Cost: c d² flops and a little more: tile j of W needs only the first rows of T, so nearly half of the full
    product is skipped. Memory: one tile (c, 128), never W.
    """
    rows, active = block.shape
    mean, explained = np.zeros(rows), np.zeros(rows)
    for start in range(0, active, COLUMNS_PER_TILE):
        stop = min(start + COLUMNS_PER_TILE, active)
        tile = block[:, :stop] @ projection[:stop, start:stop]
        add_row_moments(tile, targets[start:stop], mean, explained)
    return mean, explained


def workspace_bytes(rows: int, itemsize: int) -> int:
    """Temporary bytes of :func:`project`, with its result."""
    return rows * (COLUMNS_PER_TILE * itemsize + 16)


def multiply_triangle(block: Array, projection: Array, *, transposed: bool) -> None:
    """Block T, or block Tᵀ, in place.

    T projection, upper triangular.  Shapes: (c, d), (d, d), of one type.  Cost: c d² flops.
    """
    multiply_by_upper(block, projection, transposed=transposed)


@compiled
def row_squares(rows: Array, out: FloatArray) -> None:
    """out_i = Σ_j rows_ij², accumulated in float64.  Shapes: (c, d), (c,)."""
    for i in range(rows.shape[0]):
        square = 0.0
        for j in range(rows.shape[1]):
            value = np.float64(rows[i, j])
            square += value * value
        out[i] = square


@compiled
def gather_rows(
    rows: Array,
    scale: FloatArray,
    weights: FloatArray,
    total: FloatArray,
) -> int:
    """Add the weighted rows up, and move those of positive scale, scaled, to the front, in place.

    total_j += Σ_i weights_i rows_ij;  the first k rows become scale_i rows_i, i in order; k is returned
    Shapes: rows (c, d), scale and weights (c,), total (d,).  Cost: O(c d), one sweep through memory.
    Hazard: a sum of many float32 values; it is accumulated in float64.
    """
    kept = 0
    for i in range(rows.shape[0]):
        weight, factor = weights[i], scale[i]
        if weight != 0.0:
            for j in range(rows.shape[1]):
                total[j] += weight * np.float64(rows[i, j])
        if factor > 0.0:
            for j in range(rows.shape[1]):
                rows[kept, j] = factor * rows[i, j]
            kept += 1
    return kept


def weighted_moments(rows: Array, weights: FloatArray) -> FloatArray:
    """Rowsᵀ diag(weights) rows: (c, d), (c,) → (d, d) in float64.

    Rows are parted by the sign of their weights: NumPy takes half the flops for a product with its own
    transpose.  Cost: c d² flops; memory: a copy of the rows.
    """
    moments = np.zeros((rows.shape[1], rows.shape[1]))
    for positive in (True, False):
        chosen = np.flatnonzero(weights > 0.0 if positive else weights < 0.0)
        scaled = rows[chosen]
        scaled *= np.sqrt(np.abs(weights[chosen]))[:, None].astype(rows.dtype)
        if positive:
            moments += scaled.T @ scaled
        else:
            moments -= scaled.T @ scaled
    return moments
