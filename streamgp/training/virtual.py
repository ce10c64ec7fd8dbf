"""Virtual rows: their numbers, after those of the store, and the rows that they are made of."""

from __future__ import annotations

import numpy as np

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.budget import format_size
from streamgp.data import ClassTargets
from streamgp.errors import BudgetError
from streamgp.passes.candidates import PickRows
from streamgp.selection.virtual import Virtual, versions
from streamgp.training.problem import Problem


def virtual_numbers(rows: IntArray, version: IntArray, n_rows: int) -> IntArray:
    """One number for a row of the store and a version of it; version 0 is the row itself.

    >>> virtual_numbers(np.array([3, 3]), np.array([0, 2]), 10).tolist()
    [3, 23]
    """
    numbers: IntArray = rows + n_rows * version
    return numbers


def named(numbers: IntArray, n_rows: int) -> IntArray:
    """Rows as a model names them: their numbers (m,); pairs (row, transformation) (m, 2) if any is virtual.

    >>> named(np.array([3, 23]), 10).tolist()
    [[3, 0], [3, 2]]
    """
    if not np.any(numbers >= n_rows):
        return numbers
    return np.column_stack([numbers % n_rows, numbers // n_rows])


def stored_rows(problem: Problem, rows: IntArray) -> tuple[IntArray, Array, FloatArray]:
    """Some rows (sorted) as they are stored, with their encoded targets: one pass."""
    none = np.zeros_like(problem.prepared.strata)
    visitor = PickRows(problem.row_keys(0), none, none.astype(np.float64), always=rows)
    found = visitor.pooled(problem.run_pass(visitor, np.float32, "active rows"))
    return found.rows, found.features, found.targets


def made_versions(problem: Problem, virtual: Virtual, features: Array) -> Array:
    """Rows and all their transformations, (1 + k, m, p), as far as the budget has room for them."""
    made = versions(virtual, features)
    room = problem.plan.candidate_share // 2
    if made.nbytes > room:
        raise BudgetError(
            f"virtual={virtual!r} makes {made.shape[0] * made.shape[1]} rows of {len(features)} active ones, "
            f"which are {format_size(made.nbytes)}, but memory_budget has room for {format_size(room)}: give "
            f"a larger one, or fewer of both"
        )
    return made


def stored_labels(problem: Problem, encoded: FloatArray) -> Array:
    """Targets as a store would have them."""
    targets = problem.prepared.targets
    if isinstance(targets, ClassTargets):
        return targets.labels(encoded)
    return np.asarray(encoded * targets.scale + targets.shift)
