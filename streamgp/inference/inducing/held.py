"""Whitened rows that are held in memory, to be met as often as a search needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from streamgp.arrays import Array, FloatArray
from streamgp.inference.inducing.basis import Basis, whiten
from streamgp.inference.inducing.heads import RowWeights

LARGEST = 32_767.0
"""Of whole numbers of 16 bits."""
TILE_ROWS = 256
"""Rows that are packed at a time."""


class HeldRows(NamedTuple):
    """Whitened rows in memory: features (c, m); encoded targets, weights and residual variances (c,).

    Where there is a ``unit`` (c,), features are whole numbers of it, in half the memory.
    """

    features: Array
    encoded: FloatArray
    weights: FloatArray
    residual_variance: FloatArray | None = None
    unit: Array | None = None

    @property
    def whitened(self) -> Array:
        """The rows w in the type of arithmetic."""
        if self.unit is None:
            return self.features
        return np.multiply(self.features, self.unit[:, None], dtype=self.unit.dtype)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of arithmetic."""
        return self.features.dtype if self.unit is None else self.unit.dtype

    def packed(self, room: Array | None = None) -> HeldRows:
        """The same rows to 16 bits, in ``room``: errors are at most 2e-5 of the largest of a row."""
        whole = np.empty(self.features.shape, np.int16) if room is None else room
        units = np.empty(len(whole), np.float32)
        for begin in range(0, len(whole), TILE_ROWS):  # so that temporaries do not count beside the rows
            tile = slice(begin, begin + TILE_ROWS)
            part = self.features[tile]
            unit = np.maximum(np.abs(part).max(axis=1), np.finfo(np.float32).tiny) / LARGEST
            whole[tile], units[tile] = np.rint(part / unit[:, None]), unit
        return self._replace(features=whole, unit=units)


@dataclass(frozen=True, eq=False)
class HoldStep:
    """Whitens the rows that count and gives them back, as the step of a pass; ``packed`` to 16 bits."""

    basis: Basis
    row_weights: RowWeights
    packed: bool = False

    def __call__(
        self, start: int, features: Array, encoded: FloatArray, sites: FloatArray | None
    ) -> tuple[None, list[tuple[HeldRows, ...]]]:
        """The rows of a block; there are no sites."""
        weight = self.row_weights(start, encoded)
        counts = weight > 0.0
        if not counts.any():
            return None, [()]
        # First what stays, then what does not: between arrays that stay, the holes of others stay too.
        encoded, weight = encoded[counts], weight[counts]
        room = np.empty((len(encoded), len(self.basis.inducing)), np.int16) if self.packed else None
        rows = HeldRows(whiten(self.basis, np.ascontiguousarray(features[counts])).features, encoded, weight)
        return None, [(rows if room is None else rows.packed(room),)]


def merge_held(earlier: tuple[HeldRows, ...], later: tuple[HeldRows, ...]) -> tuple[HeldRows, ...]:
    """The rows of both, in order."""
    return earlier + later


def held_bytes(rows: int, n_inducing: int, itemsize: int) -> int:
    """Bytes of so many whitened rows."""
    return rows * (n_inducing * itemsize + 32)
