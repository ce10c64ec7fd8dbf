"""One array of a data set, wherever it lies: Zarr, NumPy or Dask behind one small interface.

A pass hands each task a *piece* of every array. A piece of a Zarr array is a promise to read (the task reads
from the opened array: a Dask graph would cost 25 ms a chunk instead of 0.6 ms); a piece of a NumPy array is
the slice; a piece of a Dask array is a delayed block, which Dask computes before the task starts.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import zarr

from streamgp.arrays import Array
from streamgp.data.missing import Absent, absent_chunks, nothing_absent
from streamgp.errors import ChunkReadError

_PAUSES = (0.05, 0.5)
"""Seconds to wait before a read is tried again."""


class Column(Protocol):
    """An array whose first axis counts rows."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows first."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored values."""

    @property
    def chunk_rows(self) -> int:
        """Rows that are read at least, because they are stored together."""

    @property
    def chunk_bytes(self) -> int:
        """Bytes that are decoded to read any row."""

    def piece(self, start: int, stop: int) -> Any:
        """What a task is given for these rows: see :func:`load`."""

    def absent_chunks(self) -> Absent:
        """Chunks that are not stored and read as the fill value."""

    def cut(self, rows: int) -> Column:
        """The same array, its chunks arranged so that pieces start at multiples of ``rows``."""


class Promise(ABC):
    """Values that a task loads for itself."""

    @abstractmethod
    def load(self) -> Array:
        """Read them."""


@dataclass(frozen=True)
class ZarrPiece(Promise):
    """A promise to read rows ``start:stop`` of an opened Zarr array."""

    array: zarr.Array
    name: str
    start: int
    stop: int

    def load(self) -> Array:
        """Read and decode; what fails is read again chunk by chunk, and an error names the chunk."""
        try:
            return np.asarray(self.array[self.start : self.stop])
        except Exception:
            size = self.array.chunks[0]
            numbers = range(self.start // size, -(-self.stop // size))
            return np.concatenate([self._load_chunk(number, size) for number in numbers])

    def _load_chunk(self, number: int, size: int) -> Array:
        """The rows of one chunk; a disk or connection that fails is given a moment, twice."""
        begin, end = max(self.start, number * size), min(self.stop, (number + 1) * size)
        for pause in (*_PAUSES, None):
            try:
                return np.asarray(self.array[begin:end])
            except Exception as error:
                if pause is None or not isinstance(error, OSError):
                    raise ChunkReadError(
                        f"array {self.name!r}: chunk {number} (rows {begin} to {end - 1}) could not be read: "
                        f"{type(error).__name__}: {error}. Restore the chunk, or leave these rows out."
                    ) from error
            time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")


@dataclass(frozen=True)
class StackedPiece(Promise):
    """Pieces of several columns, side by side."""

    pieces: tuple[Any, ...]
    dtype: np.dtype[Any]

    def load(self) -> Array:
        """Read one after the other into one array."""
        columns = [load(piece) for piece in self.pieces]
        return np.stack(columns, axis=1, dtype=self.dtype, casting="unsafe")


def load(piece: Any) -> Array:
    """The values of a piece, inside a task."""
    return piece.load() if isinstance(piece, Promise) else np.asarray(piece)


@dataclass(frozen=True)
class ZarrColumn:
    """A Zarr array on disk or behind a URL."""

    array: zarr.Array
    name: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows first."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored values."""
        dtype: np.dtype[Any] = np.dtype(self.array.dtype)
        return dtype

    @property
    def chunk_rows(self) -> int:
        """Rows of a storage chunk (of an inner chunk where the array is sharded)."""
        return int(self.array.chunks[0])

    @property
    def chunk_bytes(self) -> int:
        """Of whole chunks, beyond the ends of the array too; of all that lie side by side."""
        across: int = math.prod(
            -(-length // size) * size
            for length, size in zip(self.shape[1:], self.array.chunks[1:], strict=True)
        )
        return self.chunk_rows * across * self.dtype.itemsize

    def piece(self, start: int, stop: int) -> ZarrPiece:
        """A promise to read."""
        return ZarrPiece(self.array, self.name, start, stop)

    def absent_chunks(self) -> Absent:
        """Chunks that are not in the store: all fill value, or lost."""
        return absent_chunks(self.array, self.name)

    def cut(self, rows: int) -> ZarrColumn:
        """A Zarr array can be read anywhere."""
        return self


@dataclass(frozen=True)
class NumpyColumn:
    """An array in memory."""

    array: Array
    name: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows first."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self.array.dtype

    @property
    def chunk_rows(self) -> int:
        """One: memory can be cut anywhere."""
        return 1

    @property
    def chunk_bytes(self) -> int:
        """Those of a row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    def piece(self, start: int, stop: int) -> Array:
        """The slice."""
        return self.array[start:stop]

    def absent_chunks(self) -> Absent:
        """None: it is all there."""
        return nothing_absent(self.name)

    def cut(self, rows: int) -> NumpyColumn:
        """Memory can be cut anywhere."""
        return self


@dataclass(frozen=True)
class StackedColumn:
    """Zarr arrays of one column each, read as one array of features."""

    columns: tuple[ZarrColumn, ...]
    name: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, columns."""
        return self.columns[0].shape[0], len(self.columns)

    @property
    def dtype(self) -> np.dtype[Any]:
        """A type that holds the values of all columns."""
        return np.result_type(*(column.dtype for column in self.columns))

    @property
    def chunk_rows(self) -> int:
        """Rows of the largest chunk."""
        return max(column.chunk_rows for column in self.columns)

    @property
    def chunk_bytes(self) -> int:
        """Those of all columns."""
        return sum(column.chunk_bytes for column in self.columns)

    def piece(self, start: int, stop: int) -> StackedPiece:
        """Promises to read."""
        return StackedPiece(tuple(column.piece(start, stop) for column in self.columns), self.dtype)

    def absent_chunks(self) -> Absent:
        """Those of the first column that misses any."""
        absent = [column.absent_chunks() for column in self.columns]
        return next((found for found in absent if found.numbers.size), absent[0])

    def cut(self, rows: int) -> StackedColumn:
        """Zarr arrays can be read anywhere."""
        return self


@dataclass(frozen=True)
class DaskColumn:
    """A Dask array, computed block by block."""

    array: Any
    name: str
    blocks: tuple[Any, ...] = ()  # delayed blocks of `rows` rows each, once cut
    rows: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows first."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        dtype: np.dtype[Any] = np.dtype(self.array.dtype)
        return dtype

    @property
    def chunk_rows(self) -> int:
        """Rows of the largest block."""
        return int(max(self.array.chunks[0], default=1)) or 1

    @property
    def chunk_bytes(self) -> int:
        """Those of the largest block of rows."""
        return self.chunk_rows * math.prod(self.shape[1:]) * self.dtype.itemsize

    def piece(self, start: int, stop: int) -> Any:
        """A delayed block."""
        return self.blocks[start // self.rows]

    def absent_chunks(self) -> Absent:
        """None: a graph computes every block."""
        return nothing_absent(self.name)

    def cut(self, rows: int) -> DaskColumn:
        """Blocks of exactly ``rows`` rows, all features in each."""
        array = self.array.rechunk({0: rows, **dict.fromkeys(range(1, self.array.ndim), -1)})
        return DaskColumn(array, self.name, tuple(array.to_delayed().ravel()), rows)
