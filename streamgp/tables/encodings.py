"""What becomes of a column: each encoding is a frozen value that fills features from raw values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from streamgp.arrays import BoolArray, FloatArray, IntArray
from streamgp.errors import TableError
from streamgp.tables.values import as_days, as_labels, as_numbers

Folds = IntArray | None
"""The fold of each training row while a store is made; None for all other rows."""

_PERIODS = {"day": 1.0, "week": 7.0, "year": 365.2425}
_PHASES = {"day": 0.0, "week": 3.0, "year": 0.0}  # weeks start on Monday; 1970 began on a Thursday


class Encoding(Protocol):
    """Raw values of one column ↦ one or more features."""

    kind: ClassVar[str]

    @property
    def column(self) -> str:
        """The raw column."""

    @property
    def names(self) -> tuple[str, ...]:
        """The features that it gives."""

    def fill(self, array: pa.Array, out: FloatArray, folds: Folds = None) -> BoolArray:
        """Write the features to ``out`` (rows, features); tell where the raw value is missing."""


@dataclass(frozen=True)
class Number:
    """A number as it is; ``fill_value`` where it is missing."""

    kind: ClassVar[str] = "number"
    column: str
    fill_value: float

    @property
    def names(self) -> tuple[str, ...]:
        """The column's own name."""
        return (self.column,)

    def fill(self, array: pa.Array, out: FloatArray, folds: Folds = None) -> BoolArray:
        """See :class:`Encoding`; infinity is refused."""
        values = as_numbers(array)
        absent: BoolArray = np.isnan(values)
        out[:, 0] = np.where(absent, self.fill_value, values) if absent.any() else values
        if not np.isfinite(out[:, 0]).all():
            raise TableError("it holds infinity: replace it, or make it a missing value")
        return absent


@dataclass(frozen=True)
class Date:
    """Days since ``origin``, and sine and cosine of the time of day, week or year."""

    kind: ClassVar[str] = "date"
    column: str
    origin: float
    fill_value: float
    cycles: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Days first, then the cycles."""
        parts = (f"{self.column} {cycle} {wave}" for cycle in self.cycles for wave in ("sin", "cos"))
        return (f"{self.column} days", *parts)

    def fill(self, array: pa.Array, out: FloatArray, folds: Folds = None) -> BoolArray:
        """See :class:`Encoding`; a missing date is in the middle of every cycle."""
        days = as_days(array)
        absent: BoolArray = np.isnan(days)
        out[:, 0] = np.where(absent, self.fill_value, days - self.origin)
        for number, cycle in enumerate(self.cycles):
            # The week and the year advance by whole days: the time of day has its own cycle.
            here = days if cycle == "day" else np.floor(days)
            angle = 2 * np.pi * ((here + _PHASES[cycle]) % _PERIODS[cycle]) / _PERIODS[cycle]
            out[:, 2 * number + 1] = np.where(absent, 0.0, np.sin(angle))
            out[:, 2 * number + 2] = np.where(absent, 0.0, np.cos(angle))
        return absent


class _Labelled:
    """What encodings of categories share: codes of labels that were known when the store was made."""

    labels: tuple[str, ...]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {label: place for place, label in enumerate(self.labels)}

    def codes(self, array: pa.Array) -> tuple[IntArray, BoolArray]:
        """The place of each row's label (the number of labels where it is new or missing); where missing."""
        found = as_labels(array)
        unknown = len(self.labels)
        places = np.array([*(self._places.get(name, unknown) for name in found.names), unknown], np.int64)
        return places[found.codes], found.codes < 0


@dataclass(frozen=True)
class OneHot(_Labelled):
    """A feature for each category; all of them are 0 where the category is new or missing."""

    kind: ClassVar[str] = "one-hot"
    column: str
    labels: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """``column=label``."""
        return tuple(f"{self.column}={label}" for label in self.labels)

    def fill(self, array: pa.Array, out: FloatArray, folds: Folds = None) -> BoolArray:
        """See :class:`Encoding`."""
        codes, absent = self.codes(array)
        out[:] = codes[:, None] == np.arange(len(self.labels))
        return absent


@dataclass(frozen=True, eq=False)
class TargetMean(_Labelled):
    """The smoothed mean of the target by category; the overall mean where the category is new or missing.

    Shapes: means (labels + 1, outputs); the last row is the overall mean. Outputs: one for a real target or
    two classes (the share of the second), else the share of every class, which ``outputs`` names.
    """

    kind: ClassVar[str] = "target-mean"
    column: str
    labels: tuple[str, ...]
    outputs: tuple[str, ...]
    means: FloatArray

    @property
    def names(self) -> tuple[str, ...]:
        """``column mean``, with the class where there are several outputs."""
        if len(self.outputs) == 1:
            return (f"{self.column} mean",)
        return tuple(f"{self.column} mean {output}" for output in self.outputs)

    def fill(self, array: pa.Array, out: FloatArray, folds: Folds = None) -> BoolArray:
        """See :class:`Encoding`."""
        codes, absent = self.codes(array)
        out[:] = self.means[codes]
        return absent


@dataclass(frozen=True, eq=False)
class FoldedMean:
    """The same while a store is made: training rows get means of the folds that they are not in.

    Shapes: fold_means (folds, labels + 1, outputs).
    """

    kind: ClassVar[str] = TargetMean.kind
    whole: TargetMean
    fold_means: FloatArray

    @property
    def column(self) -> str:
        """The raw column."""
        return self.whole.column

    @property
    def names(self) -> tuple[str, ...]:
        """The same features."""
        return self.whole.names

    def fill(self, array: pa.Array, out: FloatArray, folds: Folds = None) -> BoolArray:
        """See :class:`Encoding`; without folds as for new rows."""
        if folds is None:
            return self.whole.fill(array, out)
        codes, absent = self.whole.codes(array)
        out[:] = self.fold_means[folds, codes]
        return absent


def encoding_to_json(encoding: Encoding) -> dict[str, Any]:
    """A document that :func:`encoding_from_json` reads."""
    if isinstance(encoding, FoldedMean):
        return encoding_to_json(encoding.whole)
    fields = {name: value for name, value in vars(encoding).items() if not name.startswith("_")}
    if isinstance(encoding, TargetMean):
        fields["means"] = encoding.means.tolist()
    return {"kind": encoding.kind, **{k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}}


def encoding_from_json(document: dict[str, Any]) -> Encoding:
    """The encoding that was written."""
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in document.items()}
    make = _KINDS[str(fields.pop("kind"))]
    if make is TargetMean:
        fields["means"] = np.array(document["means"], np.float64)
    encoding: Encoding = make(**fields)
    return encoding


_KINDS: dict[str, Any] = {make.kind: make for make in (Number, Date, OneHot, TargetMean)}
