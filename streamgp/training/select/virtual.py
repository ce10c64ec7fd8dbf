"""A second selection, from the active rows and their transformations.

The rows that a selection has chosen, and what transformations make of them, are a small data set in memory:
the same selection runs on it once more, with the parameters that were learned.
Source: virtual informative vectors, [IVM2006] sections 5 and 6.5; [PASS2012] section 6.3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.data import ClassTargets, Rows, open_rows
from streamgp.inference.active_set import ActiveSet
from streamgp.passes.candidates import Pool, smallest
from streamgp.selection.virtual import Virtual
from streamgp.training.codec import record
from streamgp.training.prepare import Prepared
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Recipe, Save, Stage
from streamgp.training.virtual import made_versions, stored_labels, stored_rows, virtual_numbers


@record
@dataclass(frozen=True, eq=False)
class Again:
    """Rows that were active (m,), as stored (m, p), their targets; the inner stage at work, its record."""

    rows: IntArray
    features: Array
    targets: FloatArray
    stage: int = 0
    own: Any = None


def of_fewer(stage: Stage, most: int) -> Stage:
    """The stage of a selection, which ends with at most so many active rows."""

    def smaller(problem: Problem) -> Problem:
        return replace(problem, plan=replace(problem.plan, n_active=min(most, problem.plan.n_active)))

    return stage._replace(
        init=lambda problem, draft: stage.init(smaller(problem), draft),
        step=lambda problem, draft, own, save: stage.step(smaller(problem), draft, own, save),
    )


def select_again(virtual: Virtual, inner: Recipe) -> Stage:
    """Run the stages of a selection on the active rows of all heads and their transformations."""

    def init(problem: Problem, draft: Draft) -> Again:
        numbers = np.unique(np.concatenate([active.rows[: active.count] for active in draft.actives]))
        return Again(*stored_rows(problem, numbers[numbers >= 0]))

    def step(
        problem: Problem, draft: Draft, own: Again, save: Save
    ) -> tuple[Draft, Again | None, dict[str, Any]]:
        enlarged = _enlarged(problem, virtual, own)
        if own.stage == 0 and own.own is None:
            draft = replace(draft, actives=(ActiveSet.empty(0, problem.n_features),) * len(draft.actives))
        stage = inner[own.stage]
        inner_own = stage.init(enlarged, draft) if own.own is None else own.own
        draft, inner_own, told = stage.step(enlarged, draft, inner_own, partial(_save_inner, save, own))
        told |= {"inner": stage.name, "enlarged_rows": enlarged.n_rows}
        following = replace(own, stage=own.stage + (inner_own is None), own=inner_own)
        if following.stage < len(inner):
            return draft, following, told
        return _renamed(problem, draft, own), None, told

    return Stage("select: virtual", init, step)


def _save_inner(save: Save, own: Again, inner: Any) -> None:
    save(replace(own, own=inner))


def _enlarged(problem: Problem, virtual: Virtual, own: Again) -> Problem:
    """The problem of the second selection: all versions of the active rows, version after version."""
    made = made_versions(problem, virtual, own.features)
    features = made.reshape(-1, made.shape[2])
    targets, numbers = np.tile(own.targets, len(made)), np.arange(len(features))
    rows = open_rows((features, stored_labels(problem, targets))).cut(problem.plan.span_rows)
    plan = replace(problem.plan, demand=replace(problem.plan.demand, rows=rows))
    pool = Pool(numbers, features, targets, problem.row_keys(0)(numbers), np.empty((len(numbers), 0)))
    # As many rows may be candidates at once as fit while the active set grows to its full size.
    sample = pool.take(smallest(pool.keys, plan.candidates_at(plan.n_active)))
    weights = replace(problem.weights, excluded=np.zeros(0, np.int64))
    if weights.by_row is not None:
        weights = replace(weights, by_row=np.tile(weights.by_row[own.rows], len(made)))
    return replace(
        problem,
        prepared=_counted(problem, rows, targets),
        plan=plan,
        sample=sample,
        # Rows held out are not among these: their numbers must not be mistaken for some of them.
        held_out=problem.held_out._replace(rows=problem.held_out.rows + len(features)),
        excluded=np.zeros(0, np.int64),
        weights=weights,
    )


def _counted(problem: Problem, rows: Rows, targets: FloatArray) -> Prepared:
    """The rows with how many of each class are among them: shares of random rows are drawn by that."""
    prepared = replace(problem.prepared, rows=rows)
    if not isinstance(prepared.targets, ClassTargets):
        return prepared
    classes = prepared.targets.classes.tolist()
    counts = np.bincount(targets.astype(np.intp), minlength=len(classes) + 1).tolist()
    labels = dict(zip(classes, counts, strict=False))  # the last are rows without a label
    summary = replace(prepared.summary, labels=labels, unlabelled=counts[-1])
    return replace(prepared, summary=summary)


def _renamed(problem: Problem, draft: Draft, own: Again) -> Draft:
    """Active rows by their number in the store and by their transformation."""
    actives = []
    for active in draft.actives:
        numbers = active.rows[: active.count]
        version, place = np.divmod(numbers, len(own.rows))
        active = active.trimmed()
        actives.append(replace(active, rows=virtual_numbers(own.rows[place], version, problem.n_rows)))
    return replace(draft, actives=tuple(actives))
