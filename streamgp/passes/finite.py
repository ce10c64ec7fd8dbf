"""Rows that a fitted model cannot say anything about: NaN, infinity, numbers beyond float32."""

from __future__ import annotations

from typing import Any, Literal, NoReturn

import numpy as np

from streamgp.arrays import Array, IntArray
from streamgp.data.extremes import LARGEST
from streamgp.errors import NonFiniteDataError

OnBadRows = Literal["raise", "nan"]
"""Refuse such a row by its number, or predict NaN for it and count it."""


def bad_rows(features: Array, targets: Array | None) -> IntArray:
    """Places of rows with a standardised feature beyond float32, NaN among them, or a target not finite."""
    good = (np.abs(features) <= LARGEST).all(axis=1)
    if targets is not None and targets.dtype.kind == "f":
        good &= np.isfinite(targets)
    return np.flatnonzero(~good)


def refuse_row(row: int, stored: Array, target: Any) -> NoReturn:
    """Raise the error that names the first bad value of a row."""
    finite = np.isfinite(stored)
    if finite.all() and isinstance(target, float | np.floating) and not np.isfinite(target):
        found, where = target, "the target"
    else:
        column = int(np.argmin(finite)) if not finite.all() else int(np.argmax(np.abs(stored)))
        found, where = stored[column], f"column {column}"
    raise NonFiniteDataError(
        f"found {found} at row {row}, {where}, which the model cannot compute with; fill in or leave out "
        f"such rows, or give on_bad_rows='nan' to have them marked and counted"
    )
