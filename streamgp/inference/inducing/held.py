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

    def packed(self) -> HeldRows:
        """The same rows to 16 bits: each number errs by at most 2e-5 of the largest of its row."""
        unit = np.maximum(np.abs(self.features).max(axis=1), np.finfo(np.float32).tiny) / LARGEST
        whole = np.rint(self.features / unit[:, None]).astype(np.int16)
        return self._replace(features=whole, unit=unit.astype(np.float32))


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
        whitened = whiten(self.basis, np.ascontiguousarray(features[counts])).features
        rows = HeldRows(whitened, encoded[counts], weight[counts])
        return None, [(rows.packed() if self.packed else rows,)]


def merge_held(earlier: tuple[HeldRows, ...], later: tuple[HeldRows, ...]) -> tuple[HeldRows, ...]:
    """The rows of both, in order."""
    return earlier + later


def held_bytes(rows: int, n_inducing: int, itemsize: int) -> int:
    """Bytes of so many whitened rows."""
    return rows * (n_inducing * itemsize + 32)
