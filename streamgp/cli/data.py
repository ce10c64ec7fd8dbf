"""The verbs about data and files: ``plan`` and ``info``."""

from __future__ import annotations

import argparse
from typing import Any

import streamgp
from streamgp.budget import format_size
from streamgp.cli.fit import stage_table
from streamgp.cli.shown import Verbs, add_verb, table, tell
from streamgp.cli.sources import add_arrays, as_store, is_store
from streamgp.cli.values import add_parameters, given_parameters
from streamgp.data import open_rows
from streamgp.estimators.base import StreamGPEstimator
from streamgp.persistence import is_record
from streamgp.training.history import by_stage

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
        "streamgp plan train.zarr --memory-budget 512MiB",
    )
    plan.add_argument("data", help="a Zarr store, or a table with --target")
    plan.add_argument("--task", default="auto", choices=("auto", "classification", "regression"))
    add_arrays(plan, target=True)
    add_parameters(plan)
    info = add_verb(
        verbs, common, "info", _info, "tell what a model or a store holds", "streamgp info model.zip"
    )
    info.add_argument("path", help="a saved model, or a Zarr store")
    add_arrays(info, target=False)


def _plan(options: argparse.Namespace) -> None:
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
    lines = [f"{found.rows} rows of {found.features} features", f"recipe: {found.recipe}", str(memory)]
    tell(options, result, lines)


def _info(options: argparse.Namespace) -> None:
    path = options.path
    result, lines = _store_info(options) if is_store(path) and not is_record(path) else _model_info(path)
    tell(options, result, lines)


def _model_info(path: str) -> tuple[dict[str, Any], list[str]]:
    model = streamgp.load(path)
    names = getattr(model, "feature_names_in_", None)
    result = {
        "kind": "model",
        "task": model.task,
        "features": model.n_features_in_,
        "feature_names": None if names is None else [str(name) for name in names],
        "classes": model.classes_.tolist() if hasattr(model, "classes_") else None,
        "n_active": len(model.active_rows_),
        "recipe": model.recipe_,
        "kernel": repr(model.kernel_),
        "likelihood": repr(model.likelihood_),
        **{name: value for name, value in model.about_.items() if name != "plan"},
        "stages": by_stage(model.history_),
    }
    hidden = ("kind", "stages", "likelihood", "versions")
    facts = [
        (name.replace("_", " "), _short(value))
        for name, value in result.items()
        if name not in hidden and value is not None
    ]
    return result, [*(f"{name:<16} {value}" for name, value in facts), "", *stage_table(result["stages"])]


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
    }
    shown = {**result, "chunk_bytes": format_size(rows.chunk_bytes()), "bytes": format_size(result["bytes"])}
    return result, table([(name.replace("_", " "), value) for name, value in shown.items()])


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."
