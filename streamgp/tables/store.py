"""Writing features and targets chunk by chunk, with a manifest that says what was written."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec

from streamgp.arrays import Array
from streamgp.data.rows import COMPLETE, FEATURE_NAMES, RECIPE
from streamgp.errors import ChunkReadError, StoreError
from streamgp.tables.recipe import ColumnRecipe

MANIFEST = "streamgp_manifest"
"""Attribute of a group: rows, rows per chunk, and a checksum of every chunk of ``X`` and ``y``."""
CHUNK_BYTES = 12_000_000
FEWEST_CHUNKS = 8
"""Chunks of small data: one task reads at least one chunk, and there should be work for several."""
FEWEST_ROWS = 256
CHUNKS_HELD = 6
"""Chunks in memory at once, about: waiting rows, two that are being written, and their compressed copies."""


def rows_per_chunk(n_rows: int, row_bytes: int, most_bytes: int = CHUNK_BYTES) -> int:
    """Rows of a chunk: about 12 MB of features, but several chunks where the data are small."""
    by_bytes = max(1, most_bytes // row_bytes)
    by_number = max(FEWEST_ROWS, -(-n_rows // FEWEST_CHUNKS))
    return max(1, min(by_bytes, by_number, n_rows))


@dataclass
class PartWriter:
    """Writes rows to a group in chunks, several at a time on the threads of a pool."""

    group: zarr.Group
    recipe: ColumnRecipe
    n_rows: int
    chunk_rows: int
    pool: ThreadPoolExecutor
    with_target: bool = True

    def __post_init__(self) -> None:
        width = len(self.recipe.feature_names)
        options = {"compressors": BloscCodec(cname="lz4", clevel=5), "config": {"write_empty_chunks": True}}
        self.arrays = {
            "X": self.group.create_array(
                "X",
                shape=(self.n_rows, width),
                chunks=(self.chunk_rows, width),
                dtype=self.recipe.dtype,
                **options,
            )
        }
        if self.with_target:
            dtype = self.recipe.target.stored_dtype
            strings = dtype is str
            self.arrays["y"] = self.group.create_array(
                "y",
                shape=(self.n_rows,),
                chunks=(self.chunk_rows,),
                dtype=dtype,
                **({"config": options["config"]} if strings else options),
            )
        self._waiting: deque[dict[str, Array]] = deque()
        self._held = self._written = 0
        self._running: deque[Future[dict[str, int]]] = deque()
        self._checksums: dict[str, list[int]] = {name: [] for name in self.arrays}

    def add(self, features: Array, targets: Array | None) -> None:
        """Take more rows, and write what fills a chunk."""
        block = {"X": features} if targets is None else {"X": features, "y": targets}
        self._waiting.append({name: block[name] for name in self.arrays})
        self._held += len(features)
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
        chunk = self._take(rows)
        self._running.append(self.pool.submit(self._store, chunk, self._written))
        self._written += rows
        self._held -= rows
        while len(self._running) > 2:
            self._collect()

    def _take(self, rows: int) -> dict[str, Array]:
        taken: list[dict[str, Array]] = []
        while rows:
            block = self._waiting.popleft()
            length = len(block["X"])
            if length > rows:
                self._waiting.appendleft({name: array[rows:] for name, array in block.items()})
                block = {name: array[:rows] for name, array in block.items()}
            rows -= min(rows, length)
            taken.append(block)
        return {name: np.concatenate([block[name] for block in taken]) for name in self.arrays}

    def _store(self, chunk: Mapping[str, Array], start: int) -> dict[str, int]:
        for name, values in chunk.items():
            self.arrays[name][start : start + len(values)] = values
        return {name: checksum(values) for name, values in chunk.items()}

    def _collect(self) -> None:
        for name, value in self._running.popleft().result().items():
            self._checksums[name].append(value)


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
