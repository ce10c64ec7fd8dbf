"""Columns of raw values as NumPy arrays: numbers, days, or codes of labels."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamgp.arrays import BoolArray, FloatArray, IntArray
from streamgp.errors import TableError
from streamgp.tables.sources import is_text

Kind = Literal["number", "label", "date", "empty", "other"]
"""What the values of a column are; "empty": none is known, "other": nothing we can use."""

_MICROSECONDS = 86_400_000_000.0  # of a day


class Labels(NamedTuple):
    """Labels of rows: codes into ``names``, -1 where the label is missing."""

    codes: IntArray
    names: list[str]

    def at(self, rows: BoolArray) -> Labels:
        """The labels of some of the rows."""
        return Labels(self.codes[rows], self.names)


def kind_of(type_: pa.DataType) -> Kind:
    """What values of an Arrow type are to us."""
    types = pa.types
    if pa.types.is_null(type_):
        return "empty"
    if types.is_dictionary(type_) or is_text(type_):
        return "label"
    if types.is_timestamp(type_) or types.is_date(type_) or types.is_time(type_):
        return "date"
    number = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_duration)
    return "number" if any(is_(type_) for is_ in number) else "other"


def as_numbers(array: pa.Array) -> FloatArray:
    """Numbers as float64, durations in seconds; NaN where missing.  Shape: (rows,)."""
    _check(array, "number", "numbers")
    if pa.types.is_duration(array.type):
        return _floats(array.cast(pa.duration("us")).cast(pa.int64())) / 1e6
    return _floats(array)


def as_days(array: pa.Array) -> FloatArray:
    """Days since 1970 by the local clock of the column (times: parts of a day); NaN where missing."""
    _check(array, "date", "dates or times")
    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan)
    if pa.types.is_time(array.type):
        return _floats(array.cast(pa.time64("us")).cast(pa.int64())) / _MICROSECONDS
    if pa.types.is_date(array.type):
        return _floats(array.cast(pa.date32()).cast(pa.int32()))
    local = pc.local_timestamp(array) if array.type.tz is not None else array
    return _floats(local.cast(pa.timestamp("us"), safe=False).cast(pa.int64())) / _MICROSECONDS


def as_labels(array: pa.Array) -> Labels:
    """Labels as strings, those of numbers too: 3 and 3.0 are one label."""
    if pa.types.is_null(array.type):
        return Labels(np.full(len(array), -1), [])
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    codes = coded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    names: dict[str, int] = {}
    places = [
        -1 if value is None else names.setdefault(_text(value), len(names))
        for value in coded.dictionary.to_pylist()
    ]
    if places != list(range(len(places))):  # a missing value in the dictionary, or one label twice
        codes = np.array([*places, -1], np.int64)[codes]
    return Labels(codes, list(names))


def _check(array: pa.Array, kind: Kind, meant: str) -> None:
    if kind_of(array.type) not in (kind, "empty"):
        raise TableError(f"its values are of type {array.type}, not {meant}")


def _text(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _floats(array: pa.Array) -> FloatArray:
    numbers = array if pa.types.is_floating(array.type) else array.cast(pa.float64(), safe=False)
    return np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)
