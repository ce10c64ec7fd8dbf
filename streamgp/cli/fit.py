"""The verb ``fit``: a model from a store, with a checkpoint that survives an interruption."""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import streamgp
from streamgp.budget import format_size, peak_memory
from streamgp.cli.dry_run import dry_run
from streamgp.cli.shown import Verbs, add_verb, table, tell
from streamgp.cli.sources import add_arrays, add_task, as_store, check_folder_of
from streamgp.cli.values import add_parameters, given_parameters
from streamgp.errors import ParameterError
from streamgp.tables.formats import suffix_of
from streamgp.training.history import active_points, by_stage


def add_to(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """The verb's options."""
    fit = add_verb(
        verbs,
        common,
        "fit",
        _fit,
        "learn a model from a Zarr store, or from a table that is ingested first",
        "streamgp fit train.zarr -o model.zip --memory-budget 1GiB",
    )
    fit.add_argument("data", help="a Zarr store, or a table (Parquet, CSV, ...) with --target")
    fit.add_argument("-o", "--output", type=Path, help="the model's file (default: beside the data)")
    fit.add_argument(
        "--sample",
        metavar="SHARE",
        help="dry run on a share of the rows, such as 1%%: predicts the seconds of the whole fit",
    )
    fit.add_argument("--checkpoint", type=Path, help="folder for checkpoints (default: beside the model)")
    fit.add_argument("--no-checkpoint", action="store_true", help="keep no checkpoint")
    add_task(fit)
    add_arrays(fit, target=True)
    add_parameters(fit)


def _fit(options: argparse.Namespace) -> None:
    if options.checkpoint is not None and options.no_checkpoint:
        raise ParameterError("--checkpoint goes only without --no-checkpoint")
    parameters = given_parameters(options) | {"progress": False if options.quiet else None}
    output = options.output or _beside(options.data)
    check_folder_of(output, "the model")
    store = as_store(options)
    if options.sample is not None:
        found = dry_run(store, options.x, options.y, options.task, share(options.sample), parameters)
        tell(options, found.to_dict(), found.lines())
        return
    begun = time.perf_counter()
    with _checkpoint(options, output) as folder:
        model = streamgp.fit_stream(
            store, options.x, options.y, options.task, checkpoint=folder, **parameters
        )
        model.save(output)
    seconds = time.perf_counter() - begun
    stages = by_stage(model.history_)
    result = {
        "model": str(output),
        "recipe": model.recipe_,
        "seconds": seconds,
        "n_active": active_points(model.history_),
        "kernel": repr(model.kernel_),
        "peak_memory_bytes": peak_memory(),
        "stages": stages,
    }
    tell(options, result, [*stage_table(stages), f"{output}: {seconds:.1f} s in all"])


def share(text: str) -> float:
    """A share of rows: ``1%`` or ``0.01``."""
    try:
        found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        found = -1.0
    if not 0 < found <= 1:
        raise ParameterError(f"{text!r} is not a share of rows; give one such as 1% or 0.01")
    return found


def _beside(data: str) -> Path:
    path = Path(data)
    ending = suffix_of(path) or path.suffix
    return path.with_name(f"{path.name[: len(path.name) - len(ending)]}.model.zip")


@contextmanager
def _checkpoint(options: argparse.Namespace, output: Path) -> Iterator[Path | None]:
    """The folder of checkpoints; one that nobody asked for is removed when the model is saved."""
    own = options.checkpoint is None
    folder = output.with_name(f"{output.name}.checkpoint") if own else options.checkpoint
    if options.no_checkpoint:
        yield None
        return
    try:
        yield folder
    except KeyboardInterrupt:
        kept = folder is not None and (folder / "LATEST").exists()
        way = (
            f"run the same command again to go on ({folder} is kept)" if kept else "no step was complete yet"
        )
        raise KeyboardInterrupt(f"interrupted: {way}") from None
    if own:
        shutil.rmtree(folder, ignore_errors=True)


def stage_table(stages: Sequence[Mapping[str, Any]]) -> list[str]:
    """The stages of a fit for people."""
    heading = ("stage", "steps", "seconds", "rows read", "active rows", "held-out nats", "peak memory")
    rows = [
        (
            stage["stage"],
            stage["steps"],
            f"{stage['seconds']:.1f}",
            stage["rows_read"],
            stage.get("n_active"),
            f"{stage['log_density']:.4f}" if "log_density" in stage else None,
            stage["peak_memory_bytes"] and format_size(stage["peak_memory_bytes"]),
        )
        for stage in stages
    ]
    return table([heading, *rows])
