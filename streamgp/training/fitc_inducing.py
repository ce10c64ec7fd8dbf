"""Inducing inputs that need not be rows: centres of clusters, in the learned metric."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.kernels import Kernel
from streamgp.passes.nearest import Assign, merge_clusters, nearest_sums
from streamgp.passes.run import run_pass
from streamgp.selection import stratified_quotas
from streamgp.selection.inducing import Kmeans
from streamgp.training.context import Context, class_counts
from streamgp.training.heads import with_inducing
from streamgp.training.state import State

ROWS_PER_CENTRE = 20
MOST_ROWS = 20_000
ROWS_PER_BLOCK = 2048


def choose_inducing(context: Context, state: State) -> State:
    """Centres for all heads: of clusters of the sample, then of all rows."""
    settings, sample = context.settings, context.sample
    assert isinstance(settings.selection, Kmeans)
    wanted = min(context.plan.n_active, len(sample.rows))
    order = np.argsort(sample.keys, kind="stable")
    codes = sample.targets[order].astype(np.intp) if context.is_classification else np.zeros_like(order)
    counts = class_counts(context.prepared)
    held = np.bincount(codes, minlength=len(counts))
    quotas = np.minimum(_exact_quotas(counts, wanted, settings.selection.least_share), held)
    per_centre = max(1, min(ROWS_PER_CENTRE, MOST_ROWS // wanted))
    scale = metric(state.kernel, context.prepared.rows.n_features)
    centres: tuple[FloatArray, ...] = ()
    n_rows = 0
    for code, quota in enumerate(quotas):
        drawn = order[codes == code][: per_centre * quota]
        rows = (context.inputs(sample.features[drawn]) / scale).astype(np.float32)
        # Rows are in random order.
        centres += (cluster_centres(rows, rows[:quota], settings.selection.steps),)
        n_rows += len(drawn)
    passes = 0 if context.holds_all_rows and n_rows == len(order) else settings.selection.passes
    for number in range(passes):
        centres = _after_all_rows(context, centres, scale, f"centres {number + 1}")
    inputs = np.concatenate(centres) * scale
    state = with_inducing(state, inputs)
    state = state.told(n_active=[len(inputs)], rows=context.prepared.rows.n_rows if passes else n_rows)
    return replace(state, phase=context.after_selection)


def _after_all_rows(
    context: Context, centres: tuple[FloatArray, ...], scale: FloatArray, label: str
) -> tuple[FloatArray, ...]:
    """The centres after one round over all rows but those held out."""
    found = run_pass(
        context.prepared.rows,
        Assign(centres, scale, np.sort(context.validation.rows)),
        context.pass_settings,
        reading=context.prepared.reading(np.float32),
        label=label,
    )
    moved = found.centres(np.concatenate(centres))
    return tuple(np.split(moved, np.cumsum([len(part) for part in centres])[:-1]))


def _exact_quotas(counts: IntArray, wanted: int, least_share: float) -> IntArray:
    """Centres for each class; the largest class gives back what rounding has added."""
    quotas = stratified_quotas(counts, wanted, least_share)
    while quotas.sum() > wanted:
        quotas[np.argmax(quotas)] -= 1
    return quotas


def metric(kernel: Kernel, n_features: int) -> FloatArray:
    """The lengthscale of each feature, relative to the shortest; ones where there is a common one."""
    logs = [
        value
        for name, value in zip(kernel.parameter_names, kernel.log_parameters, strict=True)
        if "lengthscale[" in name
    ]
    if len(logs) != n_features:
        return np.ones(n_features)
    scale: FloatArray = np.exp(np.array(logs) - min(logs))
    return scale


def cluster_centres(inputs: NDArray[np.float32], start: Array, steps: int) -> FloatArray:
    """Lloyd's algorithm; an empty cluster stays.

    Shapes: inputs (n, p), start (m, p) → (m, p).  Cost: 2 n m p flops a step, in blocks of rows.
    """
    centres = start.astype(np.float64)
    if len(inputs) <= len(start):
        return centres
    for _ in range(steps):
        blocks = (inputs[start : start + ROWS_PER_BLOCK] for start in range(0, len(inputs), ROWS_PER_BLOCK))
        moved = reduce(merge_clusters, (nearest_sums(block, centres) for block in blocks)).centres(centres)
        if np.array_equal(moved, centres):
            break
        centres = moved
    return centres
