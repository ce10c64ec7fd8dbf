"""Which things are raw columns, told without pyarrow."""

from __future__ import annotations

import importlib.util
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from streamgp.errors import MissingExtraError

SUFFIXES = (
    ".parquet",
    ".pq",
    ".csv",
    ".csv.gz",
    ".tsv",
    ".tsv.gz",
    ".feather",
    ".arrow",
    ".ipc",
    ".npy",
    ".npz",
)
"""Endings of files that hold raw columns."""
EDGE_BYTES = 1 << 16
"""Of both ends of a file that are read to know it again: a Parquet file's last bytes tell what is in it."""
_FRAMES = {"pandas", "polars", "pyarrow", "dask", "dask_expr"}


def require_pyarrow() -> None:
    """Refuse where pyarrow is not installed."""
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingExtraError(
            "reading tables needs pyarrow, which is not installed: pip install 'streamgp[ingest]'"
        )


def suffix_of(path: str | os.PathLike[str]) -> str | None:
    """The known ending of a file's name, or None."""
    name = os.fspath(path).lower()
    return next((suffix for suffix in sorted(SUFFIXES, key=len, reverse=True) if name.endswith(suffix)), None)


def is_zarr(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is a Zarr group or array."""
    return any((Path(path) / name).exists() for name in ("zarr.json", ".zgroup", ".zarray"))


def is_frame(value: Any) -> bool:
    """Whether a value is a data frame (pandas, polars, Dask) or a table of pyarrow."""
    return type(value).__module__.partition(".")[0] in _FRAMES and (
        hasattr(value, "columns") or hasattr(value, "schema")
    )


def is_raw(source: Any) -> bool:
    """Whether a source holds raw columns: a data frame, a file of a known kind, a folder of such files."""
    if not isinstance(source, str | os.PathLike):
        return is_frame(source)
    if "://" in os.fspath(source):
        return suffix_of(source) is not None
    path = Path(source)
    if path.is_dir():
        return not is_zarr(path) and bool(files_below(path))
    return suffix_of(path) is not None


def files_below(folder: Path) -> list[Path]:
    """Files of known kinds in a folder and the folders in it, in the order of their names."""
    paths = (path for path in folder.rglob("*") if path.is_file() and suffix_of(path))
    return sorted(path for path in paths if not _hidden(path.relative_to(folder)))


def _hidden(path: Path) -> bool:
    """Writers of data sets call what is not data ``_metadata`` or ``.crc``."""
    return any(part.startswith((".", "_")) for part in path.parts)


def marks_of(paths: Iterable[Path]) -> dict[str, list[int]]:
    """Size, time and a checksum of the ends of every file, and of those in folders: to know them again."""
    found = {}
    for path in paths:
        inner = sorted(inside for inside in path.rglob("*") if inside.is_file()) if path.is_dir() else [path]
        for file in inner:
            status = file.stat()
            found[str(file.absolute())] = [status.st_size, status.st_mtime_ns, _ends(file, status.st_size)]
    return found


def _ends(path: Path, size: int) -> int:
    with path.open("rb") as file:
        checksum = zlib.crc32(file.read(EDGE_BYTES))
        file.seek(max(0, size - EDGE_BYTES))
        return zlib.crc32(file.read(EDGE_BYTES), checksum)
