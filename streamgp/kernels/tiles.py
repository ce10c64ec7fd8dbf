"""A kernel made ready for one right-hand side: fills and contracts tiles of rows that stay in cache.

These objects live for one call; they hold scratch memory and running sums, which the frozen kernels do not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from streamgp.arrays import FloatArray, Floats

_TILE_BYTES = 512 * 1024
_FEWEST_ROWS, _MOST_ROWS = 128, 1024


def tile_rows(n_active: int, n_features: int, itemsize: int) -> int:
    """Rows of a tile: half a MiB of values, and of rows to be scaled, but enough for BLAS's full rate."""
    fitting = _TILE_BYTES // max(1, max(n_active, n_features) * itemsize)
    return min(max(fitting, _FEWEST_ROWS), _MOST_ROWS)


def row_tiles(n_rows: int, n_active: int, n_features: int, itemsize: int) -> Iterator[slice]:
    """Consecutive tiles of rows; they depend on the shape only, and so do all sums over them."""
    size = tile_rows(n_active, n_features, itemsize)
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


class Scratch:
    """One array that is allocated when first needed and then used again for every tile."""

    def __init__(self) -> None:
        self._array: Floats | None = None

    def take(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> Floats:
        """An uninitialised array; the next call may return the same memory."""
        if self._array is None or self._array.shape[0] < shape[0]:
            self._array = np.empty(shape, dtype)
        return self._array[: shape[0]]


class Tiles(ABC):
    """What every kernel can do with a tile of left rows, against the right rows it was made for.

    Shapes: left (c, p), C-contiguous; out and weights (c, d), in the dtype of the right rows (d, p).
    """

    vanishes: bool = False
    """Whether all values are zero, as for white noise between different rows."""

    def __init__(self) -> None:
        self._combined = Scratch()

    def twin(self) -> Self:
        """The same right rows, not copied, with scratch memory of its own: for another thread to fill."""
        twin = object.__new__(type(self))
        for name, value in vars(self).items():
            setattr(twin, name, Scratch() if isinstance(value, Scratch) else value)
        return twin

    @abstractmethod
    def fill(self, left: Floats, out: Floats) -> None:
        """Assign kernel values to out."""

    @abstractmethod
    def contract(self, left: Floats, weights: Floats) -> None:
        """Add this tile's share to both gradients; weights is not changed."""

    @abstractmethod
    def parameter_gradient(self) -> FloatArray:
        """Σ weights ∂k/∂log θ over all tiles contracted so far, one number for each parameter."""

    @abstractmethod
    def input_gradient(self) -> FloatArray:
        """Σ_i weights_ij ∂k(l_i, r_j)/∂r_j over all tiles contracted so far, shape (d, p)."""

    def add_to(self, left: Floats, out: Floats) -> None:
        """Add kernel values to out."""
        values = self._combined.take(out.shape, out.dtype)
        self.fill(left, values)
        out += values

    def multiply_into(self, left: Floats, out: Floats) -> None:
        """Multiply out by kernel values."""
        values = self._combined.take(out.shape, out.dtype)
        self.fill(left, values)
        out *= values


class Prepared:
    """A kernel made ready for right rows once, and used for many blocks of left ones, by several threads."""

    def __init__(self, tiles: Tiles, right: Floats) -> None:
        self._tiles, self._shape, self._dtype = tiles, right.shape, right.dtype

    def block(self, left: Floats, out: Floats | None = None) -> Floats:
        """Covariance of left rows with the right ones: as :meth:`Kernel.block`."""
        left = np.ascontiguousarray(left, self._dtype)
        n_right, n_features = self._shape
        if out is None:
            out = np.empty((len(left), n_right), self._dtype)
        tiles = self._tiles.twin()
        for rows in row_tiles(len(left), n_right, n_features, self._dtype.itemsize):
            tiles.fill(left[rows], out[rows])
        return out
