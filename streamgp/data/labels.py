"""Labels that arrive as Python objects: pandas categories and strings, lists, nullable numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.arrays import Array
from streamgp.errors import TargetError

_FORMS: tuple[tuple[tuple[type, ...], Any], ...] = (
    ((str,), str),
    ((bool, np.bool_), np.bool_),
    ((int, np.integer), np.int64),
    ((int, float, np.integer, np.floating), np.float64),
)
"""What values may be, and what they become."""


def plain_labels(values: Any, name: str = "y") -> Array:
    """Labels as numbers, booleans or strings; the first that is missing is named by its row.

    >>> plain_labels(np.array(["b", "a"], dtype=object))
    array(['b', 'a'], dtype='<U1')
    """
    array = np.asarray(values)
    if array.dtype.kind != "O" or array.ndim != 1:
        return array
    missing = [row for row, value in enumerate(array) if value is None or value != value]  # NaN, NaT
    if missing:
        raise TargetError(
            f"row {missing[0]} of {name!r} has no label ({array[missing[0]]!r}); in all {len(missing)} rows: "
            f"leave them out, or give them a label"
        )
    for kinds, dtype in _FORMS:
        boolean = bool in kinds
        if all(isinstance(value, kinds) and isinstance(value, bool | np.bool_) == boolean for value in array):
            return array.astype(dtype)
    kinds_found = sorted({type(value).__name__ for value in array})
    raise TargetError(
        f"the labels of {name!r} are of several types ({', '.join(kinds_found)}): convert them to one, "
        f"such as y.astype(str)"
    )
