"""Inference over all rows and, beside them, the transformations of those that were selected."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.data.extended import extended_rows
from streamgp.selection.virtual import Virtual
from streamgp.training.codec import record
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Save, Stage
from streamgp.training.virtual import made_versions, stored_labels, stored_rows


@record
@dataclass(frozen=True, eq=False)
class Extra:
    """Rows that were selected (m,), as stored (m, p), their targets; the record of the stage at work."""

    rows: IntArray
    features: Array
    targets: FloatArray
    own: Any = None


def over_extra_rows(virtual: Virtual, inner: Stage) -> Stage:
    """Run a stage over all rows of the store and the transformations of the selected ones."""

    def init(problem: Problem, draft: Draft) -> Extra:
        numbers = np.concatenate([active.rows[: active.count] for active in draft.actives])
        own = Extra(*stored_rows(problem, np.unique(numbers[numbers >= 0] % problem.n_rows)))
        return replace(own, own=inner.init(_extended(problem, virtual, own), draft))

    def step(
        problem: Problem, draft: Draft, own: Extra, save: Save
    ) -> tuple[Draft, Extra | None, dict[str, Any]]:
        extended = _extended(problem, virtual, own)
        draft, inner_own, told = inner.step(extended, draft, own.own, partial(_save_inner, save, own))
        told |= {"extra_rows": extended.n_rows - problem.n_rows}
        return draft, None if inner_own is None else replace(own, own=inner_own), told

    return Stage(inner.name, init, step)


def _save_inner(save: Save, own: Extra, inner: Any) -> None:
    save(replace(own, own=inner))


def _extended(problem: Problem, virtual: Virtual, own: Extra) -> Problem:
    """The problem with the transformations as rows after those of the store."""
    made = made_versions(problem, virtual, own.features)[1:]  # the rows themselves are in the store
    features, targets = made.reshape(-1, made.shape[2]), np.tile(own.targets, len(made))
    rows = extended_rows(problem.prepared.rows, features, stored_labels(problem, targets))
    weights = problem.weights
    if weights.by_row is not None:
        weights = replace(
            weights, by_row=np.append(weights.by_row, np.tile(weights.by_row[own.rows], len(made)))
        )
    return replace(
        problem,
        prepared=replace(problem.prepared, rows=rows.cut(problem.prepared.rows.span_rows)),
        weights=weights,
    )
