"""From a kernel block to the marginals of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgp.numerics.compilation import compiled

COLUMNS_PER_TILE = 128
"""Columns of W that are formed at a time: enough for BLAS, few enough to stay in cache."""


@compiled
def add_row_moments(
    tile: NDArray[Any],
    targets: NDArray[np.float64],
    mean: NDArray[np.float64],
    explained: NDArray[np.float64],
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


def project(
    block: NDArray[Any], projection: NDArray[Any], targets: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
