"""Rows that are not there: stores of some shape to plan for, and small ones to measure how reading goes."""

from __future__ import annotations

import numpy as np
import zarr
from zarr.storage import MemoryStore

from streamgp.data.rows import Rows, open_rows

CHUNK_BYTES = 4 * 2**20


def imagined_rows(n_rows: int, n_features: int, dtype: str = "float32") -> Rows:
    """Rows of a shape, in chunks of about 4 MB."""
    group = zarr.open_group(MemoryStore(), mode="w")
    itemsize = 1 if dtype == "uint8" else int(dtype[-2:]) // 8
    chunk = max(1, min(n_rows, CHUNK_BYTES // (n_features * itemsize)))
    group.create_array("X", shape=(n_rows, n_features), chunks=(chunk, n_features), dtype=dtype)
    group.create_array("y", shape=(n_rows,), chunks=(chunk,), dtype="int8")
    return open_rows(group)


def stored_numbers(n_rows: int, n_features: int) -> Rows:
    """Random float32 numbers, compressed as by default, in memory: to measure how fast they are read."""
    group = zarr.open_group(MemoryStore(), mode="w")
    numbers = np.random.default_rng(0).standard_normal((n_rows, n_features)).astype(np.float32)
    group.create_array("X", data=numbers, chunks=(n_rows, n_features))
    return open_rows(group, y=None)
