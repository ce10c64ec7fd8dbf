"""Shifting and scaling of features, remembered by the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from streamgp.arrays import Array, FloatArray
from streamgp.errors import ParameterError
from streamgp.numerics.shifts import can_shift, shift_and_scale


@dataclass(frozen=True)
class Bend:
    """Columns of long tails, which are drawn in: x ↦ arcsinh((x − centre) / width), near the centre a line.

    ``shift`` and ``scale`` are mean and deviation of the columns then. One number of each for each column.
    """

    columns: tuple[int, ...]
    centre: tuple[float, ...]
    width: tuple[float, ...]
    shift: tuple[float, ...]
    scale: tuple[float, ...]

    @staticmethod
    def of(record: Mapping[str, Sequence[Any]]) -> Bend:
        """What was written as plain lists."""
        return Bend(**{name: tuple(values) for name, values in record.items()})

    def record(self) -> dict[str, list[Any]]:
        """The same as plain lists, ready for JSON."""
        return {name: list(values) for name, values in asdict(self).items()}

    @staticmethod
    def of_sample(features: Array, columns: Sequence[int]) -> Bend:
        """Centre: the median; width: the mean distance from it, or the median of those not zero if less.

        Shapes: features (n, p). No column is constant.
        """
        values = features[:, list(columns)].astype(np.float64)
        centre = np.median(values, axis=0)
        far = np.abs(values - centre).T
        width = np.array([min(each.mean(), np.median(each[each > 0])) for each in far])
        bent = np.arcsinh((values - centre) / width)
        numbers = (centre, width, bent.mean(axis=0), bent.std(axis=0))
        return Bend(tuple(int(column) for column in columns), *(tuple(each.tolist()) for each in numbers))


Standardize = Literal["auto", "common"] | bool | Bend


@dataclass(frozen=True, eq=False)
class Standardizer:
    """x ↦ (x − shift) / scale, column by column; columns of a ``bend`` are bent first.

    Shapes: shift, scale (p,).  Computed in float64 and rounded once, so that a column of large mean and small
    spread survives the way to float32.
    """

    shift: FloatArray
    scale: FloatArray
    bend: Bend | None = None

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
        if self.bend is None and can_shift(features) and can_shift(out):
            shift_and_scale(features, self.shift, self.scale, out)
            return out
        size = _tile_rows(features.shape[1])
        for start in range(0, len(features), size):
            tile = slice(start, start + size)
            centred = np.subtract(features[tile], self.shift, dtype=np.float64)
            if self.bend is not None:
                self._bend_columns(features[tile], centred)
            np.divide(centred, self.scale, out=out[tile], casting="same_kind")
        return out

    def _bend_columns(self, features: Array, centred: FloatArray) -> None:
        """Put bent columns, less their shift, into the place of what is not bent; one at a time."""
        assert self.bend is not None
        for column, centre, width in zip(self.bend.columns, self.bend.centre, self.bend.width, strict=True):
            bent = np.arcsinh((features[:, column].astype(np.float64) - centre) / width)
            centred[:, column] = bent - self.shift[column]

    def undone(self, standardised: Array) -> FloatArray:
        """Rows in the features' own units again."""
        rows: FloatArray = self.shift + self.scale * np.asarray(standardised, np.float64)
        if self.bend is not None:
            columns = list(self.bend.columns)
            rows[:, columns] = self.bend.centre + np.asarray(self.bend.width) * np.sinh(rows[:, columns])
        return rows

    def bent(self, bend: Bend) -> Standardizer:
        """The same, but some columns are bent first."""
        shift, scale = self.shift.copy(), self.scale.copy()
        shift[list(bend.columns)], scale[list(bend.columns)] = bend.shift, bend.scale
        return replace(self, shift=shift, scale=scale, bend=bend)


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
    Constant columns get scale 1. A :class:`Bend` is what a trial of "auto" has found: it bends some columns
    and treats the others as ``True`` does.
    """
    if isinstance(mode, Bend):
        moments = {"mean": mean, "variance": variance, "lowest": lowest, "highest": highest}
        return choose_standardizer(True, **moments).bent(mode)
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
