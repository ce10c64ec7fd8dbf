"""Chunks that are not in a store, because they are all fill value or because they were lost.

Zarr does not write a chunk of nothing but fill value, and a chunk that was lost reads the same way. What can
be told apart is told apart here; the rest is a warning that names the chunks.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import zarr
from zarr.core.sync import sync

from streamgp.arrays import IntArray
from streamgp.errors import ChunkReadError, DataWarning

_SHOWN = 12
_OVERRIDE = "restore the store, or give allow_missing_chunks=True to read them as the fill value"


class Absent(NamedTuple):
    """Chunks of an array that are not stored: numbers along the rows, rows in each, what they read as."""

    name: str
    numbers: IntArray
    chunk_rows: int
    fill: Any = None

    def rows(self, n_rows: int) -> int:
        """How many rows they stand for."""
        starts = self.numbers * self.chunk_rows
        return int(np.minimum(self.chunk_rows, n_rows - starts).sum())

    def meeting_stored(self, other: Absent, n_rows: int) -> IntArray:
        """Numbers of those whose rows meet a chunk that the other array does have."""
        starts = self.numbers * self.chunk_rows
        first = starts // other.chunk_rows
        after = -(-np.minimum(starts + self.chunk_rows, n_rows) // other.chunk_rows)
        absent = np.searchsorted(other.numbers, after) - np.searchsorted(other.numbers, first)
        return self.numbers[absent < after - first]

    def __str__(self) -> str:
        """The chunks for people."""
        return f"{_numbers(self.numbers)} of {self.name!r}"


def nothing_absent(name: str) -> Absent:
    """No chunk is missing."""
    return Absent(name, np.zeros(0, np.int64), 1)


def absent_chunks(array: zarr.Array, name: str) -> Absent:
    """The chunks (shards where there are any) of a Zarr array that are not in its store."""
    stored_shape = array.shards or array.chunks
    grid = [-(-length // size) for length, size in zip(array.shape, stored_shape, strict=True)]
    path = array.store_path.path
    there = sync(_keys(array.store_path.store, path))
    prefix = f"{path}/" if path else ""
    missing = {
        place[0]
        for place in np.ndindex(*grid)
        if prefix + array.metadata.encode_chunk_key(place) not in there
    }
    return Absent(name, np.array(sorted(missing), np.int64), int(stored_shape[0]), array.fill_value)


async def _keys(store: Any, prefix: str) -> set[str]:
    return {key async for key in store.list_prefix(prefix)}


def refuse_lost_chunks(
    features: Absent, targets: Absent | None, n_rows: int, *, written_completely: bool, allowed: bool
) -> None:
    """Refuse features that are absent where targets were written.

    Where the store says that all of it was written (its manifest), every absent chunk is a lost one.
    """
    if allowed:
        return
    if written_completely and (features.numbers.size or (targets is not None and targets.numbers.size)):
        raise ChunkReadError(
            f"the store was written completely, but chunks are missing now: {_listed(features, targets)}; "
            f"{_OVERRIDE}"
        )
    lost = features.numbers[:0] if targets is None else features.meeting_stored(targets, n_rows)
    if lost.size:
        raise ChunkReadError(
            f"chunks of features are missing where targets were written: "
            f"{features._replace(numbers=lost)}; {_OVERRIDE}"
        )


def warn_of_absent(features: Absent, targets: Absent | None) -> None:
    """Say which chunks are read as the fill value, for all that is known as they were meant to be."""
    told = _listed(features, targets)
    if told:
        warnings.warn(
            f"chunks that are not stored are read as the fill value: {told}. Zarr leaves out chunks of "
            f"nothing but fill value; if these were written otherwise, they are lost. Arrays created with "
            f"config={{'write_empty_chunks': True}} have all of their chunks",
            DataWarning,
            stacklevel=2,
        )


def _listed(*absent: Absent | None) -> str:
    return ", ".join(str(each) for each in absent if each is not None and each.numbers.size)


def refuse_lost_targets(
    targets: Absent, n_rows: int, rows_at_fill: int, labels: set[Any], *, allowed: bool
) -> None:
    """Refuse absent targets whose fill value is in no chunk that was written.

    ``rows_at_fill`` counts the rows that read as the fill value, absent ones among them. Labels 0 and 1 may
    be sorted so that no written chunk holds a 0: without it there would be one class only.
    """
    seen_elsewhere = rows_at_fill > targets.rows(n_rows)
    if allowed or not targets.numbers.size or seen_elsewhere or labels == {0, 1}:
        return
    raise ChunkReadError(
        f"chunks of targets are missing: {targets}; they read as {targets.fill!r}, which is a target in "
        f"no chunk that was written; {_OVERRIDE}"
    )


def _numbers(numbers: IntArray) -> str:
    shown = ", ".join(map(str, numbers[:_SHOWN].tolist()))
    more = len(numbers) - _SHOWN
    return f"{'chunk' if len(numbers) == 1 else 'chunks'} {shown}{f' and {more} more' if more > 0 else ''}"
