"""Labels that arrive as Python objects: pandas categories and strings, lists, nullable numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.arrays import Array
from streamgp.data.targets import NoLabel
from streamgp.errors import TargetError

_FORMS: tuple[tuple[tuple[type, ...], Any], ...] = (
    ((str,), str),
    ((bool, np.bool_), np.bool_),
    ((int, np.integer), np.int64),
    ((int, float, np.integer, np.floating), np.float64),
)
"""What values may be, and what they become."""


def plain_labels(values: Any, name: str = "y", no_label: NoLabel | None = None) -> Array:
    """Labels as numbers, booleans or strings; the first that is missing is named by its row.

    Where rows may have no label, missing and masked ones become what ``no_label`` is told by.

    >>> plain_labels(np.array(["b", "a"], dtype=object))
    array(['b', 'a'], dtype='<U1')
    """
    # NumPy drops masks without a word: what stands under them is no label.
    array = np.asarray(values)
    if np.ma.is_masked(values):
        array = array.astype(object)
        array[np.ma.getmaskarray(values)] = None
    if array.dtype.kind != "O" or array.ndim != 1:
        return array
    missing = np.array([_is_missing(value) for value in array], np.bool_)
    if not missing.any():
        return _of_one_kind(array, name)
    if no_label is None:
        first = int(np.argmax(missing))
        raise TargetError(
            f"row {first} of {name!r} has no label ({array[first]!r}); in all {missing.sum()} rows: leave "
            f"them out, give them a label, or learn from them as they are by "
            f"StreamGPClassifier(likelihood=NullCategory())"
        )
    if missing.all():
        raise TargetError(f"no row of {name!r} has a label")
    known = _of_one_kind(array[~missing], name)
    fill = np.asarray(no_label.of_strings if known.dtype.kind == "U" else no_label.of_numbers)
    filled = np.empty(len(array), np.result_type(known, fill))
    filled[~missing], filled[missing] = known, fill
    return filled


def _is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or NaT, or pandas' NA, which does not even say whether it is itself."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def _of_one_kind(array: Array, name: str) -> Array:
    """Python objects as an array of their type; of several types they are refused."""
    for kinds, dtype in _FORMS:
        boolean = bool in kinds
        if all(isinstance(value, kinds) and isinstance(value, bool | np.bool_) == boolean for value in array):
            return array.astype(dtype)
    kinds_found = sorted({type(value).__name__ for value in array})
    told = f"type {kinds_found[0]}" if len(kinds_found) == 1 else f"several types ({', '.join(kinds_found)})"
    raise TargetError(
        f"the labels of {name!r} are of {told}: convert them to strings or numbers, such as y.astype(str)"
    )
