"""The verbs that use a model: ``predict``, ``evaluate`` and ``report``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamgp
from streamgp.cli.shown import Verbs, add_verb, table, tell
from streamgp.cli.sources import add_arrays, check_folder_of
from streamgp.errors import ParameterError
from streamgp.estimators import Estimator
from streamgp.passes.tables import TABLES

SHOWN = {
    "error": "error",
    "rmse": "RMSE",
    "log_loss": "log loss (nats)",
    "log_density": "log density (nats)",
    "auc": "AUC",
    "brier": "Brier score",
    "r2": "variance explained",
    "calibration_error": "calibration error",
}


def add_to(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """The verbs' options."""
    predict = add_verb(
        verbs,
        common,
        "predict",
        _predict,
        "write what a model says about new rows",
        "streamgp predict model.zip new.parquet -o predictions.parquet",
    )
    evaluate = add_verb(
        verbs,
        common,
        "evaluate",
        _evaluate,
        "score a model beside a baseline that knows no feature",
        "streamgp evaluate model.zip test.parquet --json",
    )
    report = add_verb(
        verbs,
        common,
        "report",
        _report,
        "write one HTML page about a model: scores, calibration, features, stages",
        "streamgp report model.zip --data test.parquet -o report.html",
    )
    for parser in (predict, evaluate, report):
        parser.add_argument("model", help="a saved model")
    for parser in (predict, evaluate):
        parser.add_argument("data", help="a Zarr store, or a table with the columns that were ingested")
    predict.add_argument(
        "-o", "--output", type=Path, required=True, help="a new .parquet, .csv or .zarr: one row for each"
    )
    report.add_argument("--data", help="rows to score: a Zarr store, or a table")
    report.add_argument("-o", "--output", type=Path, required=True, help="the page, such as report.html")
    for parser in (predict, evaluate, report):
        add_arrays(parser, target=False)
        parser.add_argument("--memory-budget", help="such as 512MB (default: that of the fit)")


def _model(options: argparse.Namespace) -> Estimator:
    model = streamgp.load(options.model)
    model.set_params(progress=False if options.quiet else None)
    if options.memory_budget is not None:
        model.set_params(memory_budget=options.memory_budget)
    return model


def _predict(options: argparse.Namespace) -> None:
    model, out = _model(options), options.output
    if out.suffix not in (*TABLES, ".zarr"):
        raise ParameterError(f"{out.name!r}: predictions are written to .parquet, .csv or .zarr")
    check_folder_of(out, "predictions")
    begun = time.perf_counter()
    model.predict_stream(options.data, out, options.x)
    seconds = time.perf_counter() - begun
    tell(options, {"predictions": str(out), "seconds": seconds}, [f"{out}: {seconds:.1f} s"])


def _evaluate(options: argparse.Namespace) -> None:
    model = _model(options)
    begun = time.perf_counter()
    score = model.evaluate_stream(options.data, options.x, options.y)
    result = {**score.to_dict(), "seconds": time.perf_counter() - begun}
    tell(options, result, _score_lines(result))


def _score_lines(result: Mapping[str, Any]) -> list[str]:
    base = {"rmse": result["baseline"]["error"], **result["baseline"]}
    if "rmse" in result:
        base["log_density"] = -base["log_loss"]
    names = [
        name for name in SHOWN if name in result and not ("rmse" in result and name in ("error", "log_loss"))
    ]
    rows = [(SHOWN[name], result[name], base.get(name)) for name in names]
    covered = [
        (f"inside the {float(mass):.0%} interval", share, None)
        for mass, share in result.get("coverage", {}).items()
    ]
    lines = table([(f"{result['rows']:,} rows", "model", "baseline"), *rows, *covered])
    if len(result.get("classes", ())) > 2:
        columns = ("class", "rows", "recall", "precision", "auc")
        shown = ((str(row["class"]), *(row[name] for name in columns[1:])) for row in result["classes"])
        lines += ["", *table([columns, *shown])]
    return lines


def _report(options: argparse.Namespace) -> None:
    check_folder_of(options.output, "the report")
    model = _model(options)
    begun = time.perf_counter()
    model.report(options.output, options.data, options.x, options.y)
    seconds = time.perf_counter() - begun
    tell(options, {"report": str(options.output), "seconds": seconds}, [f"{options.output}: {seconds:.1f} s"])
