"""The command line: thin, every verb one call."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import streamgp
from streamgp.budget import format_size, peak_memory
from streamgp.data.synthetic import write_store
from streamgp.errors import StreamGPError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0, 1 for an error that has been told, 2 for a wrong call."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        result: int = options.run(options)
    except StreamGPError as error:
        print(f"streamgp: {error}", file=sys.stderr)
        return 1
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="streamgp", description=streamgp.__doc__)
    parser.add_argument("--version", action="version", version=streamgp.__version__)
    verbs = parser.add_subparsers(title="commands", required=True)
    demo = verbs.add_parser("demo", help="make a store, learn from it by streaming, predict, report")
    demo.add_argument("--rows", type=int, default=500_000, help="training rows to make")
    demo.add_argument("--n-active", type=int, default=500, help="size of the active set")
    demo.add_argument("--memory-budget", default="256MiB", help="such as 512MB or 1GiB")
    demo.add_argument("--folder", type=Path, help="keep the stores here (a new folder)")
    demo.add_argument("--json", action="store_true", help="print the result as JSON")
    demo.set_defaults(run=_demo)
    return parser


def _demo(options: argparse.Namespace) -> int:
    if options.folder is not None:
        options.folder.mkdir(parents=True)
        return _demo_in(options.folder, options)
    with tempfile.TemporaryDirectory(prefix="streamgp-demo-") as folder:
        return _demo_in(Path(folder), options)


def _demo_in(folder: Path, options: argparse.Namespace) -> int:
    train, test = folder / "train.zarr", folder / "test.zarr"
    write_store(train, options.rows, seed=0)
    write_store(test, max(1, options.rows // 10), seed=1)
    start = time.perf_counter()
    model = streamgp.StreamGPClassifier(
        options.n_active, memory_budget=options.memory_budget, random_state=0
    ).fit_stream(train)
    fitted = time.perf_counter()
    model.predict_stream(test, folder / "predictions.zarr")
    predicted = time.perf_counter()
    score = model.evaluate_stream(test)
    result = {
        "rows": options.rows,
        "n_active": len(model.active_rows_),
        "test_error": round(score.error, 4),
        "test_log_loss": round(score.log_loss, 4),
        "calibration_error": round(score.calibration_error, 4),
        "fit_seconds": round(fitted - start, 2),
        "predict_seconds": round(predicted - fitted, 2),
        "peak_memory_bytes": peak_memory(),
    }
    if options.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            shown = format_size(value) if name == "peak_memory_bytes" else value
            print(f"{name.removesuffix('_bytes').replace('_', ' '):<20}{shown:>12}")
    return 0
