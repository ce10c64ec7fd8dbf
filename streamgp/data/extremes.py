"""Extremes of columns that arithmetic cannot hold, or that leave all other rows in one place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamgp.arrays import Array, FloatArray
from streamgp.data.standardize import Standardizer

BEYOND = 1e4
"""So many times the range of most rows, an extreme is taken for damage: its scale hides all the rest."""
LARGEST = float(np.finfo(np.float32).max)


class Extreme(NamedTuple):
    """The lowest or highest value of a column."""

    column: int
    value: float


def overflowing(lowest: FloatArray, highest: FloatArray, standardizer: Standardizer) -> list[Extreme]:
    """Extremes that float32 cannot hold once standardised, or whose column's spread has no square.

    Shapes: lowest, highest (p,).
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scaled = [
            np.abs((extreme - standardizer.shift) / standardizer.scale) for extreme in (lowest, highest)
        ]
    # The spread is found by its square, which can vanish or overflow where the values themselves do not.
    spread = highest / 2 - lowest / 2
    lost = ~np.isfinite(standardizer.scale) | ((spread > 0) & (spread < np.sqrt(np.finfo(np.float64).tiny)))
    found = []
    for column in range(len(lowest)):
        for extreme, size in zip((lowest, highest), scaled, strict=True):
            if lost[column] or not size[column] <= LARGEST:
                found.append(Extreme(column, float(extreme[column])))
                break
    return found


def outlying(lowest: FloatArray, highest: FloatArray, sample: Array) -> list[Extreme]:
    """Extremes far beyond the 1 to 99 % range of a sample.

    Where that range is a single value, the whole range of the sample counts; a column that is constant there
    has none. So columns of two values, however rare one of them is, are never among them.
    Shapes: lowest, highest (p,), sample (n, p).
    """
    found = []
    for column in range(sample.shape[1]):
        values = np.sort(sample[:, column].astype(np.float64))
        low, high = np.quantile(values, [0.01, 0.99], method="nearest")
        if low == high:
            low, high = values[0], values[-1]
        reach = BEYOND * (high - low) or np.inf
        for value, distance in (
            (lowest[column], low - lowest[column]),
            (highest[column], highest[column] - high),
        ):
            if distance > reach:
                found.append(Extreme(column, float(value)))
    return found
