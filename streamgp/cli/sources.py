"""What commands read: a Zarr store as it is, or a table that becomes one first."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from streamgp.errors import ParameterError

logger = logging.getLogger(__name__)


def add_arrays(parser: argparse.ArgumentParser, *, target: bool) -> None:
    """Options that name the arrays of a store, and the target column of a table where one is learned from."""
    parser.add_argument("--x", default="X", help="array of features in a Zarr store (default: X)")
    parser.add_argument("--y", default="y", help="array of targets in a Zarr store (default: y)")
    if target:
        parser.add_argument("--target", help="column to be learned, where the data are a table")


def is_store(path: str) -> bool:
    """Whether a path is a Zarr group, or is meant to be one."""
    folder = Path(path)
    marked = any((folder / name).exists() for name in ("zarr.json", ".zgroup"))
    return marked or "://" in path or folder.suffix == ".zarr"


def as_store(options: argparse.Namespace) -> str:
    """The store to learn from; a table is ingested to a cache beside it first."""
    path: str = options.data
    if is_store(path):
        if options.target is not None:
            raise ParameterError(f"--target names a column of a table, but {path} is a Zarr store: use --y")
        return path
    raise ParameterError(f"{path} is no Zarr store: streamgp ingest makes one of a table")
