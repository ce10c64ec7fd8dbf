"""Numbers of virtual rows: after those of the store, once more for every transformation."""

from __future__ import annotations

import numpy as np

from streamgp.arrays import IntArray


def virtual_numbers(rows: IntArray, version: IntArray, n_rows: int) -> IntArray:
    """One number for a row of the store and a version of it; version 0 is the row itself.

    >>> virtual_numbers(np.array([3, 3]), np.array([0, 2]), 10).tolist()
    [3, 23]
    """
    numbers: IntArray = rows + n_rows * version
    return numbers


def named(numbers: IntArray, n_rows: int) -> IntArray:
    """Rows as a model names them: their numbers (m,); pairs (row, transformation) (m, 2) if any is virtual.

    >>> named(np.array([3, 23]), 10).tolist()
    [[3, 0], [3, 2]]
    """
    if not np.any(numbers >= n_rows):
        return numbers
    return np.column_stack([numbers % n_rows, numbers // n_rows])
