"""The verbs about data and files: ``plan``, ``ingest`` and ``info``."""

from __future__ import annotations

import argparse
from typing import Any

import streamgp
from streamgp.budget import format_size
from streamgp.cli.fit import stage_table
from streamgp.cli.imagine import add_shape, imagine
from streamgp.cli.shown import Verbs, add_verb, table, tell
from streamgp.cli.sources import add_arrays, add_task, as_store
from streamgp.cli.values import add_parameters, given_parameters, value
from streamgp.data import open_rows
from streamgp.estimators.base import StreamGPEstimator
from streamgp.persistence import is_record
from streamgp.tables.formats import is_raw, require_pyarrow
from streamgp.training.history import active_points, by_stage

MOST_SHOWN = 100
"""Characters of a value that are shown to people."""


def add_to(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """The verbs' options."""
    plan = add_verb(
        verbs,
        common,
        "plan",
        _plan,
        "show the recipe and the memory of a fit before it runs",
        "streamgp plan train.zarr --memory-budget 512MiB\n"
        "  streamgp plan --rows 1e9 --features 100 --active 2000 --workers 64",
    )
    plan.add_argument("data", nargs="?", help="a Zarr store, or a table with --target")
    add_shape(plan)
    add_task(plan)
    add_arrays(plan, target=True)
    add_parameters(plan)
    ingest = add_verb(
        verbs,
        common,
        "ingest",
        _ingest,
        "make a Zarr store of tables: Parquet, CSV, Arrow, NumPy, or a Zarr array for each column",
        "streamgp ingest flights.parquet train.zarr --target delayed --test 10% --shuffle",
    )
    ingest.add_argument("sources", nargs="+", metavar="SOURCE", help="files or folders")
    ingest.add_argument("out", metavar="OUT.zarr", help="the new store; test rows go to OUT.zarr/test")
    ingest.add_argument("--target", required=True, help="column to be learned")
    ingest.add_argument("--features", type=_names, help="columns to use, such as a,b,c (default: all others)")
    ingest.add_argument("--drop", type=_names, default=(), help="columns to leave out")
    ingest.add_argument("--test", metavar="SHARE", help="share of rows set aside to score, such as 10%%")
    ingest.add_argument("--shuffle", action="store_true", help="write the rows in random order")
    ingest.add_argument("--rows-per-chunk", type=int, help="default: chunks of about 12 MB")
    ingest.add_argument(
        "--categorical", type=value, default="auto", help="auto, one-hot, target-mean, refuse, or a limit"
    )
    ingest.add_argument(
        "--missing",
        default="impute",
        choices=("impute", "refuse"),
        help="gaps: the column's mean and one more feature that says where (default), or an error",
    )
    add_task(ingest)
    ingest.add_argument("--memory-budget", default="512MiB", help="such as 512MB (default: 512MiB)")
    ingest.add_argument("--random-state", type=int, default=0, help="seed of split and shuffle (default: 0)")
    info = add_verb(
        verbs, common, "info", _info, "tell what a model, a store or a table holds", "streamgp info model.zip"
    )
    info.add_argument("path", help="a saved model, a Zarr store, or a table")
    add_arrays(info, target=False)


def _plan(options: argparse.Namespace) -> None:
    if options.data is None:
        imagine(options)
        return
    store = as_store(options)
    estimator = StreamGPEstimator(**given_parameters(options), progress=False)
    found = estimator.plan_stream(store, options.x, options.y, task=options.task)
    memory = found.memory
    result = {
        "rows": found.rows,
        "features": found.features,
        "recipe": found.recipe,
        "budget_bytes": memory.budget,
        "total_bytes": memory.total_bytes,
        "scratch_bytes": memory.scratch_bytes,
        "n_active": memory.n_active,
        "candidates": memory.n_candidates,
        "rows_per_block": memory.rows_per_block,
        "tasks_in_flight": memory.tasks_in_flight,
    }
    methods = found.recipe.splitlines()
    several = ["a trial will choose one of", *(f"  {method}" for method in methods)]
    recipe = several if len(methods) > 1 else [f"recipe: {found.recipe}"]
    lines = [f"{found.rows:,} rows of {found.features:,} features", *recipe, str(memory)]
    tell(options, result, lines)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _ingest(options: argparse.Namespace) -> None:
    names = (
        "target",
        "features",
        "drop",
        "test",
        "shuffle",
        "rows_per_chunk",
        "categorical",
        "missing",
        "task",
    )
    asked = {name: getattr(options, name) for name in (*names, "memory_budget", "random_state")}
    progress = False if options.quiet else None
    sources = options.sources[0] if len(options.sources) == 1 else options.sources
    try:
        summary = streamgp.ingest(sources, options.out, **asked, progress=progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted: run the same command again to go on") from None
    tell(options, summary.to_dict(), str(summary).splitlines())


def _info(options: argparse.Namespace) -> None:
    path = options.path
    if is_raw(path):
        result, lines = _table_info(path)
    else:
        result, lines = _model_info(path) if is_record(path) else _store_info(options)
    tell(options, result, lines)


def _table_info(path: str) -> tuple[dict[str, Any], list[str]]:
    require_pyarrow()
    from streamgp.tables.sources import is_text, open_source  # only here: it needs pyarrow

    source = open_source(path)
    columns = {field.name: "string" if is_text(field.type) else str(field.type) for field in source.schema}
    result = {"kind": "table", "rows": source.n_rows, "columns": columns}
    rows = [("column", "type"), *columns.items()]
    return result, [f"{path}: a table of {source.n_rows:,} rows", *table(rows)]


def _model_info(path: str) -> tuple[dict[str, Any], list[str]]:
    model = streamgp.load(path)
    names = getattr(model, "feature_names_in_", None)
    result = {
        "kind": "model",
        "task": model.task,
        "features": model.n_features_in_,
        "feature_names": None if names is None else [str(name) for name in names],
        "classes": model.classes_.tolist() if hasattr(model, "classes_") else None,
        "n_active": active_points(model.history_),
        "recipe": model.recipe_,
        "kernel": repr(model.kernel_),
        "likelihood": repr(model.likelihood_),
        **{name: fact for name, fact in model.about_.items() if name != "plan"},
        "stages": by_stage(model.history_),
    }
    shown: dict[str, Any] = dict(result)
    for name in ("memory_budget", "planned_memory", "seconds", "pass_seconds"):
        if name in result:
            told = f"{result[name]:.1f}" if name.endswith("seconds") else format_size(result[name])
            shown[name] = told
    facts = _fact_lines(shown, ("kind", "stages", "likelihood", "versions"))
    return result, [*facts, "", *stage_table(result["stages"])]


def _store_info(options: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    rows = open_rows(options.path, options.x, options.y)
    assert rows.targets is not None
    result: dict[str, Any] = {
        "kind": "store",
        "rows": rows.n_rows,
        "features": rows.n_features,
        "dtype": str(rows.features.dtype),
        "target_dtype": str(rows.targets.dtype),
        "rows_per_chunk": rows.features.chunk_rows,
        "chunk_bytes": rows.chunk_bytes(),
        "bytes": rows.n_rows * rows.row_bytes(),
        "complete": rows.written_completely,
        "feature_names": None if rows.feature_names is None else list(rows.feature_names),
        "target": None if rows.column_recipe is None else rows.column_recipe["target"]["column"],
    }
    shown = {**result, "chunk_bytes": format_size(rows.chunk_bytes()), "bytes": format_size(result["bytes"])}
    return result, _fact_lines(shown, ("kind",))


def _fact_lines(facts: dict[str, Any], hidden: tuple[str, ...]) -> list[str]:
    shown = {name: fact for name, fact in facts.items() if name not in hidden and fact is not None}
    return [f"{name.replace('_', ' '):<16} {_short(fact)}" for name, fact in shown.items()]


def _short(fact: Any) -> str:
    text = ", ".join(map(str, fact)) if isinstance(fact, list) else str(fact)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."
