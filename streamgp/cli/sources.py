"""What commands read: a Zarr store as it is, or a table that becomes one first."""

from __future__ import annotations

import argparse
import json
import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import streamgp
from streamgp.data import open_rows
from streamgp.errors import ParameterError, StreamGPError
from streamgp.tables.formats import files_below, is_raw, marks_of, require_pyarrow

logger = logging.getLogger(__name__)

MADE_OF = "made_of.json"
"""File of a cache: which files, target and task it was made of."""


def add_arrays(parser: argparse.ArgumentParser, *, target: bool) -> None:
    """Options that name the arrays of a store, and the target column of a table where one is learned from."""
    parser.add_argument("--x", default="X", help="array of features in a Zarr store (default: X)")
    parser.add_argument("--y", default="y", help="array of targets in a Zarr store (default: y)")
    if target:
        parser.add_argument("--target", help="column to be learned, where the data are a table")


def add_task(parser: argparse.ArgumentParser) -> None:
    """The option that says what a target is."""
    parser.add_argument(
        "--task",
        default="auto",
        choices=("auto", "classification", "regression"),
        help="what the target is (default: classes, unless it holds fractions or very many values)",
    )


def check_folder_of(output: Path, what: str) -> None:
    """Refuse a file in a folder that is not there, before there is work to lose."""
    if not output.parent.is_dir():
        raise ParameterError(f"there is no folder {str(output.parent)!r} to write {what} to")


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
    return str(_cached(Path(data), options))


def _cached(source: Path, options: argparse.Namespace) -> Path:
    """The cache of a table, made anew where it is of other files, another target or task."""
    cache = source.with_name(f"{source.name}.streamgp.zarr")
    files = files_below(source) if source.is_dir() else [source]
    made_of = {"files": marks_of(files), "target": options.target, "task": options.task}
    if cache.exists() and _made_of(cache) == made_of:
        logger.info("%s is read from its cache %s", source, cache)
        return cache
    require_pyarrow()
    logger.info("%s is ingested to %s, which later fits use again", source, cache)
    # Beside the old one, which stays where the new one is refused.
    new = cache.with_name(f"{cache.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    progress = False if options.quiet else None
    try:
        summary = streamgp.ingest(source, new, target=options.target, task=options.task, progress=progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted: run the same command again to go on") from None
    (new / MADE_OF).write_text(json.dumps(made_of), encoding="utf-8")
    shutil.rmtree(cache, ignore_errors=True)
    new.rename(cache)
    logger.info("%s", replace(summary, out=str(cache)))
    return cache


def _made_of(cache: Path) -> Any:
    """What a cache was made of; refuses a folder of somebody else."""
    try:
        recipe = open_rows(cache).column_recipe
    except StreamGPError:
        recipe = None
    if recipe is None:
        raise ParameterError(
            f"{cache} exists and is no cache of streamgp: move it away, or run streamgp ingest"
        )
    try:
        return json.loads((cache / MADE_OF).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
