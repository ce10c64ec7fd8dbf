"""Whether rows are still those of an earlier run, told without reading them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from zarr.storage import LocalStore

from streamgp.data.checksum import rows_checksum
from streamgp.data.columns import Column, DaskColumn, NumpyColumn, StackedColumn, ZarrColumn


def fingerprint(column: Column) -> str:
    """A digest that changes when values are written anew: sizes and times of files, or the values in memory.

    Of a Zarr array behind a URL it knows the form only.
    """
    digest = hashlib.sha256(f"{column.name} {column.shape} {column.dtype}".encode())
    for part in _parts(column):
        digest.update(json.dumps(part).encode())
    return digest.hexdigest()


def _parts(column: Column) -> list[Any]:
    if isinstance(column, NumpyColumn):
        return [rows_checksum(column.array)]
    if isinstance(column, DaskColumn):
        return [str(column.array.name)]
    if isinstance(column, StackedColumn):
        return [part for inner in column.columns for part in _parts(inner)]
    assert isinstance(column, ZarrColumn)
    place = column.array.store_path
    found: list[Any] = [str(place)]
    if isinstance(place.store, LocalStore):
        folder = Path(place.store.root) / place.path
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        found += [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in files]
    return found
