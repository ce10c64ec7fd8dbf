"""The verb ``demo``."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import streamgp
from streamgp.budget import format_size, peak_memory
from streamgp.cli.shown import Verbs, add_verb, table, tell
from streamgp.data.synthetic import best_scores, write_store
from streamgp.errors import ParameterError
from streamgp.training.history import active_points


def add_to(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """The verb's options."""
    demo = add_verb(
        verbs,
        common,
        "demo",
        _demo,
        "make a store, learn from it by streaming, predict, score",
        "streamgp demo --rows 100000",
    )
    demo.add_argument("--rows", type=int, default=500_000, help="training rows to make (default: 500000)")
    demo.add_argument("--n-active", type=int, default=500, help="inducing inputs (default: 500)")
    demo.add_argument("--memory-budget", default="256MiB", help="such as 512MB or 1GiB (default: 256MiB)")
    demo.add_argument("--folder", type=Path, help="keep the stores here (a new folder)")


def _demo(options: argparse.Namespace) -> None:
    if options.rows < 10:
        raise ParameterError(f"--rows must be at least 10, not {options.rows}")
    if options.folder is not None:
        options.folder.mkdir(parents=True)
        _demo_in(options.folder, options)
        return
    with tempfile.TemporaryDirectory(prefix="streamgp-demo-") as folder:
        _demo_in(Path(folder), options)


def _demo_in(folder: Path, options: argparse.Namespace) -> None:
    train, test = folder / "train.zarr", folder / "test.zarr"
    write_store(train, options.rows, seed=0)
    write_store(test, max(1, options.rows // 10), seed=1)
    start = time.perf_counter()
    # One method by name: the trial that chooses one would take longer than the rest of the demonstration.
    model = streamgp.StreamGPClassifier(
        options.n_active,
        selection="kmeans",
        inference="fitc",
        multiclass="joint",
        memory_budget=options.memory_budget,
        random_state=0,
        progress=False if options.quiet else None,
    ).fit_stream(train)
    fitted = time.perf_counter()
    model.predict_stream(test, folder / "predictions.zarr")
    predicted = time.perf_counter()
    score = model.evaluate_stream(test)
    best_error, best_loss = best_scores(test)
    result: dict[str, Any] = {
        "rows": options.rows,
        "n_active": active_points(model.history_),
        "test_error": round(score.error, 4),
        "test_log_loss": round(score.log_loss, 4),
        "best_possible_error": round(best_error, 4),
        "best_possible_log_loss": round(best_loss, 4),
        "calibration_error": round(score.calibration_error, 4),
        "fit_seconds": round(fitted - start, 2),
        "predict_seconds": round(predicted - fitted, 2),
        "peak_memory_bytes": peak_memory(),
    }
    told = {**result, "peak_memory_bytes": format_size(result["peak_memory_bytes"])}
    tell(options, result, table([(_words(name), shown) for name, shown in told.items()]))


def _words(name: str) -> str:
    return name.removesuffix("_bytes").replace("_", " ")
