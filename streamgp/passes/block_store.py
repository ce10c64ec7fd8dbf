"""Rows kept block by block: the rows of a block lie side by side, and so do those that widen it.

Blocks are packed into groups of at most ``group_rows`` rows. A group is a shard of every array: one file,
which one task writes whole. The places that a group leaves empty belong to no block. The *halo* of a block
are rows of its neighbours, copied, so that whoever predicts with a block reads two stretches and no more.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.data import Rows
from streamgp.data.wrap import as_column
from streamgp.errors import CheckpointError
from streamgp.passes.scratch import FILE_BLOCK, KEPT_PREFIX, files_bytes
from streamgp.persistence.lock import locked

INNER_ROWS = 256
"""Rows that are read at least: those of an inner chunk."""
MODEL_ARRAYS = ("features", "sites", "numbers", "halo_features", "halo_sites")
"""What a model needs of its blocks; the others serve the fit."""


class BlockTable(NamedTuple):
    """Which rows are whose: one entry a block, all blocks of a group side by side.

    centres (blocks, p) in units of ``scale`` (p,); own rows at starts[b] and the next counts[b], halo rows at
    halo_starts[b] and the next halo_counts[b], in arrays of their own.
    """

    centres: FloatArray
    scale: FloatArray
    starts: IntArray
    counts: IntArray
    halo_starts: IntArray
    halo_counts: IntArray
    group_rows: int

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.starts)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.starts[-1]) // self.group_rows + 1

    @property
    def most_rows(self) -> int:
        """Rows of the largest block, its halo included."""
        return int((self.counts + self.halo_counts).max())

    def blocks_of(self, group: int) -> range:
        """The blocks of a group."""
        ends = np.searchsorted(self.starts, [group * self.group_rows, (group + 1) * self.group_rows])
        return range(int(ends[0]), int(ends[1]))

    def blocks_within(self, start: int, stop: int) -> range:
        """The blocks whose own rows begin within a stretch of places."""
        ends = np.searchsorted(self.starts, [start, stop])
        return range(int(ends[0]), int(ends[1]))


def pack(counts: IntArray, most: int) -> IntArray:
    """First places of blocks in groups of at most ``most`` rows, in order; none is cut.

    Shapes: (blocks,) → (blocks,).
    """
    starts, group, used = [], 0, 0
    for count in counts.tolist():
        if used and used + count > most:
            group, used = group + 1, 0
        starts.append(group * most + used)
        used += count
    return np.array(starts, np.int64)


@dataclass(frozen=True, eq=False)
class BlockStore:
    """The arrays of blocks by name, each sliced by places: of a folder, of a saved model, or in memory."""

    arrays: Mapping[str, Any]

    def read(self, name: str, start: int, count: int) -> Array:
        """``count`` entries of an array from a place on."""
        return np.asarray(self.arrays[name][start : start + count])

    def own_rows(self, table: BlockTable) -> Rows:
        """Own rows with their encoded targets, cut into groups: what a sweep passes over."""
        features, targets = (as_column(self.arrays[name], name) for name in ("features", "targets"))
        return Rows(features, targets, table.group_rows)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, decoded."""
        return sum(int(np.prod(array.shape)) * array.dtype.itemsize for array in self.arrays.values())

    def in_memory(self) -> BlockStore:
        """The same arrays, read."""
        return BlockStore({name: np.asarray(array[:]) for name, array in self.arrays.items()})


def create_blocks(
    folder: Path, table: BlockTable, n_features: int, dtype: np.dtype[Any], n_heads: int
) -> BlockStore:
    """Empty arrays for the rows of all blocks; what an interrupted fit left there is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    group = zarr.open_group(folder, mode="w")
    arrays: dict[str, Any] = {}
    for prefix in ("", "halo_"):
        forms = {
            "features": ((n_features,), dtype),
            "targets": ((), np.dtype(np.float64)),
            "numbers": ((), np.dtype(np.int64)),
            "sites": ((n_heads, 2), np.dtype(np.float64)),
        }
        if prefix:
            forms["homes"] = ((), np.dtype(np.int64))
        for name, (axes, kind) in forms.items():
            arrays[prefix + name] = group.create_array(
                prefix + name,
                shape=(table.n_groups * table.group_rows, *axes),
                chunks=(inner_rows(table.group_rows), *axes),
                shards=(table.group_rows, *axes),
                dtype=kind,
                compressors=None,
                # A stretch of zeros must be there too: one that is absent was lost.
                config={"write_empty_chunks": True},
            )
    return BlockStore(arrays)


def open_blocks(folder: Path, names: Iterable[str] | None = None) -> BlockStore:
    """The arrays of a folder, all or some."""
    try:
        group = zarr.open_group(folder, mode="r+")
    except FileNotFoundError as error:
        raise CheckpointError(
            f"rows in blocks are not in {str(folder)!r}; resume with the same scratch= folder, or start "
            f"again with another checkpoint folder"
        ) from error
    chosen = group.array_keys() if names is None else names
    return BlockStore({name: group[name] for name in chosen})


def kept_blocks(folder: Path, beside: Path, most_in_memory: int) -> BlockStore:
    """What a model keeps of a block store that is about to be removed: in memory, or in a folder of its own.

    The folder, ``beside`` others, lives as long as the store that is returned. It is locked for as long: what
    a killed process leaves is known by that, and swept by the next fit.
    """
    store = open_blocks(folder, MODEL_ARRAYS)
    if store.nbytes <= most_in_memory:
        return store.in_memory()
    own = Path(tempfile.mkdtemp(prefix=KEPT_PREFIX, dir=beside))
    lock = ExitStack()
    lock.enter_context(locked(own))
    for name in MODEL_ARRAYS:
        shutil.copytree(folder / name, own / name, copy_function=_link)
    shutil.copy(folder / "zarr.json", own)
    kept = open_blocks(own, MODEL_ARRAYS)
    weakref.finalize(kept, _dropped, own, lock)
    return kept


def _dropped(own: Path, lock: ExitStack) -> None:
    with lock:
        shutil.rmtree(own, ignore_errors=True)


def _link(source: str, target: str) -> None:
    """The same bytes under another name; a copy where the file system knows no such thing."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def inner_rows(group_rows: int) -> int:
    """Rows of an inner chunk: a divisor of the group's."""
    return INNER_ROWS if group_rows % INNER_ROWS == 0 else group_rows


def block_store_bytes(places: int, group_rows: int, n_features: int, itemsize: int) -> int:
    """Bytes on disk of rows in groups and their halos, before they have sites; folders of links included."""
    inner = group_rows // inner_rows(group_rows)
    numbers = [(8, 0), (8, 0), (n_features * itemsize, 1)]
    arrays = [*numbers, *numbers, (8, 0)]
    own = sum(files_bytes(places, group_rows, width, depth, inner) for width, depth in arrays)
    return own + 6 * FILE_BLOCK * (places // group_rows)


def block_sites_bytes(places: int, group_rows: int, n_heads: int) -> int:
    """Bytes on disk of the final sites of blocks and of their halos."""
    return 2 * files_bytes(places, group_rows, 16 * n_heads, 2, group_rows // inner_rows(group_rows))
