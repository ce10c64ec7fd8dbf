"""Arrays of a record that are larger than memory: written chunk by chunk, read when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from streamgp.arrays import Array
from streamgp.persistence.plain import array_digest

DIGESTS = "_digests"
"""What is appended to the name of a large array to name the array of its chunks' checksums."""


class LargeArray(NamedTuple):
    """An array to be written: anything that is sliced by its first axis, in chunks of so many ``rows``."""

    source: Any
    rows: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole."""
        return tuple(self.source.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers, little-endian."""
        dtype: np.dtype[Any] = np.dtype(self.source.dtype).newbyteorder("<")
        return dtype

    def pieces(self) -> Iterator[tuple[int, Array]]:
        """All chunks with their first rows."""
        for start in range(0, self.shape[0], self.rows):
            yield start, np.ascontiguousarray(self.source[start : start + self.rows], self.dtype)

    def digests(self) -> Array:
        """SHA-256 of each chunk: (chunks, 32) of uint8."""
        found = [np.frombuffer(bytes.fromhex(array_digest(piece)), np.uint8) for _, piece in self.pieces()]
        return np.array(found, np.uint8).reshape(len(found), 32)


Damaged = Callable[[str, str], Exception]


@dataclass(frozen=True, eq=False)
class StoredArray:
    """A large array of a record: opened and read when it is sliced, each chunk verified by its checksum.

    ``opened`` gives the Zarr array, ``damaged`` the error that names it and its file. Both pickle.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    rows: int
    digests: Array
    opened: Callable[[], AbstractContextManager[Any]]
    damaged: Damaged

    def __getitem__(self, where: slice) -> Array:
        """Some rows, of the chunks that they lie in."""
        start, stop, step = where.indices(self.shape[0])
        assert step == 1, "a stretch of rows is read at a time"
        first = start // self.rows * self.rows
        last = min(-(-stop // self.rows) * self.rows, self.shape[0])
        found = np.empty((max(0, last - first), *self.shape[1:]), self.dtype)
        if start >= stop:
            return found[:0]
        with self.opened() as member:
            if (np.dtype(member.dtype), tuple(member.shape)) != (self.dtype, self.shape):
                raise self.damaged(self.name, "has another form than was written")
            for begin in range(first, last, self.rows):
                found[begin - first : begin - first + self.rows] = self._chunk(member, begin)
        return found[start - first : stop - first]

    def _chunk(self, member: Any, begin: int) -> Array:
        try:
            piece = np.ascontiguousarray(member[begin : begin + self.rows])
        except MemoryError:
            raise
        except Exception as error:  # of zip or codec: all say that the bytes are not what was written
            told = f"{type(error).__name__}: {error}".splitlines()[0]
            raise self.damaged(self.name, f"cannot be decoded ({told})") from error
        if array_digest(piece) != self.digests[begin // self.rows].tobytes().hex():
            raise self.damaged(self.name, "is damaged (a checksum differs)")
        return piece
