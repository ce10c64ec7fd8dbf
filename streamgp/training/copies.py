"""Copies of rows, where nearly all rows are copies: each different row once, with the number of its copies.

Any rows that are held out to judge, within a trial or within learning, must not be copies of rows that were
learned from: they would praise whoever learns by heart. With weights in the place of copies that holds for
every split, the model is meant to be the same, and it costs less.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.budget import parse_size
from streamgp.data import ClassTargets, Rows, open_rows
from streamgp.data.targets import Task
from streamgp.passes.candidates import Pool
from streamgp.settings import FitSettings
from streamgp.training.plan import MemoryPlan
from streamgp.training.prepare import Prepared
from streamgp.training.problem import draw_sample
from streamgp.training.weights import row_weights

logger = logging.getLogger(__name__)

MOST_COPIES = 0.8
"""Share of rows that have copies, beyond which rows held out say little about new rows."""
MOST_ROWS, BUDGET_SHARE = 100_000, 0.125
"""Rows, and their part of the memory budget, up to which copies are looked for."""
FEWEST_ROWS = 24
"""Fewer different rows are a few categories: new rows will be copies too."""


class Merged(NamedTuple):
    """Different rows, what they are, how often each counts, and the number of its first copy."""

    rows: Rows
    task: Task
    weights: FloatArray
    first: IntArray

    def settings(self, settings: FitSettings) -> FitSettings:
        """The settings of a fit of these rows."""
        return replace(settings, sample_weight=self.weights)


def copies(pool: Pool) -> IntArray | None:
    """A number for each row, equal rows have the same; None where equal rows differ in their targets."""
    _, first, group = np.unique(_hashes(pool.features), return_index=True, return_inverse=True)
    leader = first[group.ravel()]
    agree = np.array_equal(pool.targets[leader], pool.targets)
    return group.ravel() if agree and np.array_equal(pool.features[leader], pool.features) else None


def have_copies(group: IntArray) -> bool:
    """Whether most rows have copies."""
    return bool(np.mean(np.bincount(group)[group] > 1) >= MOST_COPIES)


def merged(prepared: Prepared, plan: MemoryPlan, settings: FitSettings) -> Merged | None:
    """The different rows, where nearly all rows have copies and memory has room to look; else None.

    Where rows are named to be held out, or copies differ in their targets, all stays as it is.
    """
    rows, targets = prepared.rows, prepared.targets
    room = BUDGET_SHARE * parse_size(settings.memory_budget)
    if np.ndim(settings.validation) or rows.n_rows > MOST_ROWS or rows.n_rows * 8 * rows.n_features > room:
        return None
    weights = row_weights(prepared, settings)
    if len(prepared.strata) != len(prepared.class_counts) or len(weights.excluded):
        return None
    pool, _, _ = draw_sample(prepared, plan, settings, rows.n_rows, False, weights.excluded)
    group = copies(pool)
    if group is None or group.max() + 1 < FEWEST_ROWS or not have_copies(group):
        return None
    first = np.sort(np.unique(group, return_index=True)[1])
    counts = np.ones(len(group)) if settings.sample_weight is None else settings.sample_weight
    summed: FloatArray = np.bincount(group, counts).astype(np.float64)
    labels: Any
    if isinstance(targets, ClassTargets):
        labels = targets.classes[pool.targets[first].astype(np.intp)]
    else:
        labels = targets.shift + targets.scale * pool.targets[first]
    logger.info("%d rows are copies of %d: these are learned, with weights", len(group), len(first))
    return Merged(
        open_rows((np.ascontiguousarray(pool.features[first]), labels)),
        "classification" if isinstance(targets, ClassTargets) else "regression",
        summed[group[first]],
        pool.rows[first],
    )


def _hashes(features: Array) -> Array:
    """A number for each row, equal rows have the same; others as good as never.  Shapes: (n, p) → (n,)."""
    odd: Any = 2 * np.random.default_rng(0).integers(2**63, size=features.shape[1], dtype=np.uint64) + 1
    hashes: Array = np.zeros(len(features), np.uint64)
    for place, multiplier in enumerate(odd):
        bits = (features[:, place].astype(np.float64) + 0.0).view(np.uint64)  # 0 and −0 are one value
        hashes += (bits ^ (bits >> np.uint64(29))) * multiplier
        hashes ^= hashes >> np.uint64(32)
    return hashes
