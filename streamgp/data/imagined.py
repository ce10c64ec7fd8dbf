"""Rows that are not there: stores of some shape to plan for, and small ones to measure how reading goes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import zarr
from zarr.storage import MemoryStore

from streamgp.data.rows import Rows, open_rows

CHUNK_BYTES = 4 * 2**20


def imagined_rows(
    n_rows: int, n_features: int, dtype: str = "float32", chunk_rows: int | None = None
) -> Rows:
    """Rows of a shape; where nothing is said of chunks, they have about 4 MB."""
    group = zarr.open_group(MemoryStore(), mode="w")
    chunk = max(1, min(n_rows, chunk_rows or CHUNK_BYTES // (n_features * imagined_itemsize(dtype))))
    group.create_array("X", shape=(n_rows, n_features), chunks=(chunk, n_features), dtype=dtype)
    group.create_array("y", shape=(n_rows,), chunks=(chunk,), dtype="int8")
    return open_rows(group)


def imagined_itemsize(dtype: str) -> int:
    """Bytes of a stored number."""
    return np.dtype(dtype).itemsize


def stored_numbers(
    n_rows: int, n_features: int, chunk_rows: int | None = None, path: Path | None = None
) -> Rows:
    """Random float32 numbers and classes, compressed as by default, in memory or files, to be measured by."""
    group = zarr.open_group(MemoryStore() if path is None else path, mode="w")
    generator, chunk = np.random.default_rng(0), chunk_rows or n_rows
    numbers = generator.standard_normal((n_rows, n_features)).astype(np.float32)
    group.create_array("X", data=numbers, chunks=(chunk, n_features))
    group.create_array("y", data=generator.integers(0, 2, n_rows).astype(np.int8), chunks=(chunk,))
    return open_rows(group)
