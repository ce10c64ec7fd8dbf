"""Shifting and scaling of features, remembered by the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import DTypeLike

from streamgp.arrays import Array, FloatArray
from streamgp.errors import ParameterError

Standardize = Literal["auto", "common"] | bool


@dataclass(frozen=True, eq=False)
class Standardizer:
    """x ↦ (x − shift) / scale, column by column.

    Shapes: shift, scale (p,).  Computed in float64 and rounded once, so that a column of large mean and small
    spread survives the way to float32.
    """

    shift: FloatArray
    scale: FloatArray

    @property
    def is_common(self) -> bool:
        """Whether all columns have one shift and one scale, as pixels do."""
        return bool(np.ptp(self.shift) == 0 and np.ptp(self.scale) == 0 and len(self.shift) > 1)

    @staticmethod
    def workspace_bytes(rows: int, n_features: int) -> int:
        """Temporary bytes of :meth:`apply` beside its result."""
        return min(rows, _tile_rows(n_features)) * n_features * 8

    def apply(self, features: Array, dtype: DTypeLike, out: Array | None = None) -> Array:
        """Standardised rows, C-contiguous, in the pass's type."""
        if out is None:
            out = np.empty(features.shape, dtype)
        size = _tile_rows(features.shape[1])
        for start in range(0, len(features), size):
            tile = slice(start, start + size)
            centred = np.subtract(features[tile], self.shift, dtype=np.float64)
            np.divide(centred, self.scale, out=out[tile], casting="same_kind")
        return out


def _tile_rows(n_features: int) -> int:
    """Rows at a time, so that their float64 copies stay in cache."""
    return max(1, 2**15 // n_features)


def choose_standardizer(
    mode: Standardize,
    *,
    mean: FloatArray,
    variance: FloatArray,
    lowest: FloatArray,
    highest: FloatArray,
) -> Standardizer:
    """The standardiser that ``standardize=`` asks for, from the columns' summary.

    ``True`` gives every column mean 0 and variance 1; ``"common"`` gives one shift and one scale to all;
    ``False`` changes nothing. ``"auto"`` takes ``"common"`` for columns that share one range, as pixels do (a
    z-score for every pixel blows up those that are nearly always empty), and ``True`` otherwise.
    Constant columns get scale 1.
    """
    if mode not in ("auto", "common") and not isinstance(mode, bool):
        raise ParameterError(f"standardize must be 'auto', True, 'common' or False, not {mode!r}")
    if mode == "auto":
        mode = "common" if _share_one_range(lowest, highest) else True
    if mode is False:
        return Standardizer(np.zeros_like(mean), np.ones_like(mean))
    if mode == "common":
        shift = np.full_like(mean, mean.mean())
        scale = np.full_like(mean, np.sqrt(np.mean(variance + (mean - shift) ** 2)))
    else:
        shift, scale = mean, np.sqrt(variance)
    # A column whose spread is only the rounding of its mean is constant too.
    return Standardizer(shift, np.where(scale > 1e-12 * np.abs(shift), scale, 1.0))


def _share_one_range(lowest: FloatArray, highest: FloatArray) -> bool:
    """Whether columns look like pixels: none leaves the range that more than half of them fill exactly.

    Border pixels are often constant or nearly so, so that is too much to ask of every column.
    """
    bottom, top = lowest.min(), highest.max()
    fills = (lowest == bottom) & (highest >= bottom + 0.95 * (top - bottom))
    return bool(len(lowest) > 1 and top > bottom and np.mean(fills) > 0.5)
