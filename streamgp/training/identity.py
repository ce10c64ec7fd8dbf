"""What must be the same for a checkpoint to be continued: data, parameters, plan."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.data.checksum import rows_checksum
from streamgp.persistence import CheckpointFolder
from streamgp.selection.virtual import versions
from streamgp.settings import FitSettings
from streamgp.training.prepare import Prepared
from streamgp.training.problem import Problem
from streamgp.training.verdict import trial_folder

PROBED_ROWS = 16
NOT_IDENTITY = ("memory_budget", "max_seconds", "client", "checkpoint", "scratch", "progress")
"""Settings that do not decide about the model, or whose effect is in the plan."""


def identity_of(prepared: Prepared, settings: FitSettings) -> dict[str, Any]:
    """Data and parameters; it decides about the verdict of a trial."""
    return {"data": _of_data(prepared), "parameters": _of_parameters(settings)}


def planned_identity(problem: Problem) -> dict[str, Any]:
    """Data, parameters and the plan; it decides about the checkpoints of a fit."""
    plan = problem.plan
    return identity_of(problem.prepared, problem.settings) | {
        "plan": {
            "rows_per_block": plan.rows_per_block,
            "span_rows": problem.prepared.rows.span_rows,
            "candidates": plan.n_candidates,
        },
        **_of_virtual_rows(problem),
    }


def _of_virtual_rows(problem: Problem) -> dict[str, Any]:
    """What transformations make of some rows: the name of a function does not tell what it does."""
    virtual = getattr(problem.settings.selection, "virtual", None)
    if virtual is None:
        return {}
    made = versions(virtual, problem.sample.features[:PROBED_ROWS])
    return {"virtual": _in_words(made.reshape(len(made), -1))}


def resumed_seed(checkpoint: Any) -> int | None:
    """The seed of the fit that a checkpoint folder holds: it goes on with the same random draws."""
    if checkpoint is None:
        return None
    folders = (CheckpointFolder(Path(checkpoint)), trial_folder(checkpoint))
    identity = next((found for folder in folders if (found := folder.stored_identity())), {})
    seed = str(identity.get("parameters", {}).get("seed", ""))
    return int(seed) if seed.isdigit() else None


def _of_data(prepared: Prepared) -> dict[str, Any]:
    summary = prepared.summary
    return {
        "rows": summary.n_rows,
        "features": prepared.rows.n_features,
        "dtype": str(prepared.rows.features.dtype),
        "features_checksum": f"{summary.checksums[0]:016x}",
        "targets_checksum": f"{summary.checksums[1]:016x}",
        "labels": {str(label): count for label, count in summary.labels.items()},
    }


def _of_parameters(settings: FitSettings) -> dict[str, Any]:
    return {
        field.name: _in_words(getattr(settings, field.name))
        for field in dataclasses.fields(settings)
        if field.name not in NOT_IDENTITY
    }


def _in_words(parameter: Any) -> str:
    """A parameter as an identity holds it; of an array a checksum, because its words leave numbers out."""
    if isinstance(parameter, np.ndarray | list | tuple | range):
        values = np.asarray(parameter)
        return f"{values.dtype} of shape {values.shape}, checksum {rows_checksum(values):016x}"
    return repr(parameter)
