"""Inducing inputs that need not be rows: centres of clusters, in the learned metric."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.arrays import FloatArray, IntArray
from streamgp.passes.nearest import Assign
from streamgp.selection import Kmeans, stratified_quotas
from streamgp.selection.centres import cluster_centres, metric
from streamgp.training.heads import with_inducing
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Stage, once

ROWS_PER_CENTRE = 20
MOST_ROWS = 20_000

Centres = tuple[FloatArray, ...]
"""Centres (m, p) of each class."""


def centre_inducing(selection: Kmeans) -> Stage:
    """Centres for all heads: of clusters of the sample, then of all rows."""

    def work(problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
        scale = metric(draft.kernel, problem.n_features)
        centres, n_rows = _of_sample(problem, selection, scale)
        seen_all = problem.holds_all_rows and n_rows == len(problem.sample.rows)
        passes = 0 if seen_all else selection.passes
        for number in range(passes):
            centres = _of_all_rows(problem, centres, scale, f"centres {number + 1}")
        inputs = np.concatenate(centres) * scale
        told = {"n_active": [len(inputs)], "rows": problem.n_rows if passes else n_rows}
        return with_inducing(draft, inputs), told

    return once("select: kmeans", work)


def _of_sample(problem: Problem, selection: Kmeans, scale: FloatArray) -> tuple[Centres, int]:
    """Centres of clusters of the sample, each class with its own, and how many rows decided about them."""
    sample, order = problem.sample, problem.sample_order()
    wanted = min(problem.plan.n_active, len(sample.rows))
    codes = sample.targets[order].astype(np.intp) if problem.is_classification else np.zeros_like(order)
    counts = problem.prepared.class_counts
    held = np.bincount(codes, minlength=len(counts))
    quotas = np.minimum(_exact_quotas(counts, wanted, selection.least_share), held)
    per_centre = max(1, min(ROWS_PER_CENTRE, MOST_ROWS // wanted))
    centres: Centres = ()
    n_rows = 0
    for code, quota in enumerate(quotas):
        drawn = order[codes == code][: per_centre * quota]
        rows = (problem.inputs(sample.features[drawn]) / scale).astype(np.float32)
        # Rows are in random order.
        centres += (cluster_centres(rows, rows[:quota], selection.steps),)
        n_rows += len(drawn)
    return centres, n_rows


def _of_all_rows(problem: Problem, centres: Centres, scale: FloatArray, label: str) -> Centres:
    """The centres after one round over all rows but those held out."""
    visitor = Assign(centres, scale, problem.excluded)
    moved = problem.run_pass(visitor, np.float32, label).centres(np.concatenate(centres))
    return tuple(np.split(moved, np.cumsum([len(part) for part in centres])[:-1]))


def _exact_quotas(counts: IntArray, wanted: int, least_share: float) -> IntArray:
    """Centres for each class; the largest class gives back what rounding has added."""
    quotas = stratified_quotas(counts, wanted, least_share)
    while quotas.sum() > wanted:
        quotas[np.argmax(quotas)] -= 1
    return quotas
