"""Room for the matrices of one block after another."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class Workspace:
    """Arrays that are allocated when first needed, and then used again for every block of a task.

    A fresh array of some MiB costs a page fault for each 4 KiB of it: in all a tenth of a sweep at 500 rows
    and 500 inducing inputs. One workspace serves one thread. What a step returns in its workspace is valid
    until the next step that is given the same one.
    """

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, np.dtype[Any]], NDArray[Any]] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """An uninitialised C-ordered array; the next call of this name may return the same memory."""
        key, size = (name, np.dtype(dtype)), math.prod(shape)
        if key not in self._buffers or self._buffers[key].size < size:
            self._buffers[key] = np.empty(size, dtype)
        return self._buffers[key][:size].reshape(shape)

    def cast(self, name: str, matrix: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
        """The matrix in another type, in the room of this name; itself where it has that type already."""
        if matrix.dtype == np.dtype(dtype):
            return matrix
        out = self.take(name, matrix.shape, dtype)
        out[...] = matrix
        return out
