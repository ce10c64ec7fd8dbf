"""What commands read: a Zarr store as it is, or a table that becomes one first."""

from __future__ import annotations

import argparse
import logging
import shutil
from pathlib import Path

import streamgp
from streamgp.data import open_rows
from streamgp.errors import ParameterError, StreamGPError
from streamgp.tables.formats import files_below, is_raw

logger = logging.getLogger(__name__)


def add_arrays(parser: argparse.ArgumentParser, *, target: bool) -> None:
    """Options that name the arrays of a store, and the target column of a table where one is learned from."""
    parser.add_argument("--x", default="X", help="array of features in a Zarr store (default: X)")
    parser.add_argument("--y", default="y", help="array of targets in a Zarr store (default: y)")
    if target:
        parser.add_argument("--target", help="column to be learned, where the data are a table")


def as_store(options: argparse.Namespace) -> str:
    """The store to learn from; a table is ingested to a cache beside it first."""
    data: str = options.data
    if not is_raw(data):
        if options.target is not None:
            raise ParameterError(f"--target names a column of a table, but {data} is none: use --y")
        return data
    if options.target is None:
        raise ParameterError(f"{data} is a table: name the column to be learned by --target")
    if "://" in data:
        raise ParameterError(f"{data} is not local: run streamgp ingest first")
    source = Path(data)
    cache = source.with_name(f"{source.name.partition('.')[0]}.streamgp.zarr")
    if _is_fresh(cache, source, options.target):
        logger.info("%s is read from its cache %s", source, cache)
        return str(cache)
    logger.info("%s is ingested to %s, which later fits use again", source, cache)
    shutil.rmtree(cache, ignore_errors=True)
    progress = False if options.quiet else None
    try:
        summary = streamgp.ingest(source, cache, target=options.target, task=options.task, progress=progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted: run the same command again to go on") from None
    logger.info("%s", summary)
    return str(cache)


def _is_fresh(cache: Path, source: Path, target: str) -> bool:
    """Whether a cache is newer than its source and of the same target; refuses a folder of somebody else."""
    if not cache.exists():
        return False
    try:
        recipe = open_rows(cache).column_recipe
    except StreamGPError:
        recipe = None
    if recipe is None:
        raise ParameterError(
            f"{cache} exists and is no cache of streamgp: move it away, or run streamgp ingest"
        )
    newest = max(path.stat().st_mtime for path in (files_below(source) if source.is_dir() else [source]))
    return recipe["target"]["column"] == target and (cache / "zarr.json").stat().st_mtime >= newest
