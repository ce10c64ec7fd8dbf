"""Writing features and targets chunk by chunk, with a manifest that says what was written."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import zarr
from zarr.codecs import BloscCodec

from streamgp.arrays import Array
from streamgp.data.rows import COMPLETE, FEATURE_NAMES, RECIPE
from streamgp.errors import ChunkReadError, StoreError
from streamgp.tables.journal import ChunkLine, Journal
from streamgp.tables.recipe import ColumnRecipe

MANIFEST = "streamgp_manifest"
"""Attribute of a group: rows, rows per chunk, and a checksum of every chunk of ``X`` and ``y``."""
CHUNKS_HELD = 6
"""Chunks in memory at once, about: waiting rows, two that are being written, and their compressed copies."""


class _Waiting(NamedTuple):
    """Rows that wait to be written: those of a batch or bucket, but for its first ``skip`` ones."""

    arrays: dict[str, Array]
    origin: int
    skip: int

    def __len__(self) -> int:
        return len(self.arrays["X"])

    def after(self, rows: int) -> _Waiting:
        return _Waiting(
            {name: array[rows:] for name, array in self.arrays.items()}, self.origin, self.skip + rows
        )


@dataclass
class PartWriter:
    """Writes rows to a group in chunks, several at a time on the threads of a pool.

    It goes on after the chunks that the journal says to be complete, as far as their checksums agree.
    """

    group: zarr.Group
    recipe: ColumnRecipe
    n_rows: int
    chunk_rows: int
    pool: ThreadPoolExecutor
    with_target: bool
    part: str
    journal: Journal

    def __post_init__(self) -> None:
        self.arrays = self._opened_arrays()
        self._waiting: deque[_Waiting] = deque()
        self._running: deque[tuple[Future[dict[str, int]], ChunkLine]] = deque()
        noted = self._intact(self.journal.chunks(self.part))
        self._checksums = {name: [line.checksums[name] for line in noted] for name in self.arrays}
        self.complete = len(noted)
        """Chunks that an earlier call has written."""
        self.origin, self._skip = (noted[-1].origin, noted[-1].skip) if noted else (0, 0)
        self._held, self._written = 0, min(self.n_rows, self.complete * self.chunk_rows)

    @property
    def is_full(self) -> bool:
        """Whether all rows are written, or on their way."""
        return self._written == self.n_rows

    def add(self, features: Array, targets: Array | None, origin: int) -> None:
        """Take the part's rows of a batch or bucket, and write what fills a chunk.

        Rows that an earlier call has written are passed over.
        """
        if origin < self.origin:
            return
        skip, self._skip = self._skip if origin == self.origin else 0, 0
        block = {"X": features} if targets is None else {"X": features, "y": targets}
        waiting = _Waiting({name: block[name] for name in self.arrays}, origin, 0).after(skip)
        self._waiting.append(waiting)
        self._held += len(waiting)
        while self._held >= self.chunk_rows:
            self._write(self.chunk_rows)

    def close(self) -> dict[str, Any]:
        """Write the rest, wait, and give the group its manifest."""
        if self._held:
            self._write(self._held)
        while self._running:
            self._collect()
        if self._written != self.n_rows:
            raise StoreError(
                f"the source gave {self._written} rows, but {self.n_rows} when it was read before: "
                f"it changed meanwhile"
            )
        manifest = {"rows": self.n_rows, "rows_per_chunk": self.chunk_rows, "crc32": self._checksums}
        attributes: dict[str, Any] = {
            MANIFEST: manifest,
            FEATURE_NAMES: self.recipe.feature_names,
            RECIPE: self.recipe.to_json(),
        }
        self.group.attrs.update(attributes)
        return manifest

    def _write(self, rows: int) -> None:
        if self._written + rows > self.n_rows:
            raise StoreError("the source has more rows than when it was read before: it changed meanwhile")
        chunk, last = self._take(rows)
        origin, skip = (self._waiting[0] if self._waiting else last)[1:]
        line = ChunkLine(self.part, self._written // self.chunk_rows, {}, origin, skip)
        self._running.append((self.pool.submit(self._store, chunk, self._written), line))
        self._written += rows
        self._held -= rows
        while self._running and (len(self._running) > 2 or self._running[0][0].done()):
            self._collect()

    def _take(self, rows: int) -> tuple[dict[str, Array], _Waiting]:
        """So many rows, and the place after them in the last batch that they are from."""
        taken: list[dict[str, Array]] = []
        while rows:
            block = self._waiting.popleft()
            used = min(rows, len(block))
            taken.append({name: array[:used] for name, array in block.arrays.items()})
            rows, last = rows - used, block.after(used)
            if len(last):
                self._waiting.appendleft(last)
        return {name: np.concatenate([block[name] for block in taken]) for name in self.arrays}, last

    def _store(self, chunk: Mapping[str, Array], start: int) -> dict[str, int]:
        for name, values in chunk.items():
            self.arrays[name][start : start + len(values)] = values
        return {name: checksum(values) for name, values in chunk.items()}

    def _collect(self) -> None:
        future, line = self._running.popleft()
        checksums = future.result()
        for name, value in checksums.items():
            self._checksums[name].append(value)
        self.journal.note(line._replace(checksums=checksums))

    def _opened_arrays(self) -> dict[str, zarr.Array]:
        width = len(self.recipe.feature_names)
        forms: dict[str, tuple[tuple[int, ...], Any]] = {"X": ((width,), self.recipe.dtype)}
        if self.with_target:
            forms["y"] = ((), self.recipe.target.stored_dtype)
        arrays: dict[str, Any] = {}
        for name, (inner, dtype) in forms.items():
            packed = {} if dtype is str else {"compressors": BloscCodec(cname="lz4", clevel=5)}
            there = self.group.get(name)
            arrays[name] = (
                there
                if there is not None
                else self.group.create_array(
                    name,
                    shape=(self.n_rows, *inner),
                    chunks=(self.chunk_rows, *inner),
                    dtype=dtype,
                    config={"write_empty_chunks": True},
                    **packed,
                )
            )
        return arrays

    def _intact(self, noted: list[ChunkLine]) -> list[ChunkLine]:
        """The first of the noted chunks that are still there as they were written."""
        for line in noted:
            rows = slice(line.number * self.chunk_rows, (line.number + 1) * self.chunk_rows)
            try:
                found = {name: checksum(np.asarray(array[rows])) for name, array in self.arrays.items()}
            except (OSError, ValueError, RuntimeError):
                found = {}
            if found != line.checksums:
                return noted[: line.number]
        return noted


def checksum(values: Array) -> int:
    """CRC-32 of values as they are stored, decoded; strings in UTF-8, each with a zero byte after it."""
    if values.dtype.kind in "UTO":
        return zlib.crc32("".join(f"{value}\0" for value in values.tolist()).encode())
    little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return zlib.crc32(little.view(np.uint8).reshape(-1).data)


def verify(path: Any) -> int:
    """Read every chunk of an ingested store and compare it with the manifest; return the number of rows."""
    group = path if isinstance(path, zarr.Group) else zarr.open_group(path, mode="r")
    manifest: Any = group.attrs.get(MANIFEST)
    if manifest is None or not group.attrs.get(COMPLETE, False):
        raise StoreError(
            f"{path!r} was not written by streamgp.ingest, or not to its end: it has no manifest"
        )
    step = manifest["rows_per_chunk"]
    for name, checksums in manifest["crc32"].items():
        array: Any = group[name]
        for number, expected in enumerate(checksums):
            if checksum(np.asarray(array[number * step : (number + 1) * step])) != expected:
                raise ChunkReadError(f"chunk {number} of {name!r} is not the one that was written")
    rows: int = manifest["rows"]
    return rows
