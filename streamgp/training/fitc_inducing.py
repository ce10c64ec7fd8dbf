"""Inducing inputs that need not be rows: centres of clusters of the sample, in the learned metric."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from streamgp.kernels import Kernel
from streamgp.selection import stratified_quotas
from streamgp.selection.inducing import Kmeans
from streamgp.training.context import Context
from streamgp.training.heads import with_inducing
from streamgp.training.state import State

FloatArray = NDArray[np.float64]

ROWS_PER_CENTRE = 20
MOST_ROWS = 20_000
ROWS_PER_BLOCK = 2048


def choose_inducing(context: Context, state: State) -> State:
    """Centres for all heads; their place among the rows of the store is −1: they are none."""
    settings, sample = context.settings, context.sample
    assert isinstance(settings.selection, Kmeans)
    wanted = min(context.plan.n_active, len(sample.rows))
    order = np.argsort(sample.keys, kind="stable")[: min(ROWS_PER_CENTRE * wanted, MOST_ROWS)]
    codes = (
        sample.targets[order].astype(np.intp) if context.is_classification else np.zeros(len(order), np.intp)
    )
    quotas = _exact_quotas(np.bincount(codes), wanted, settings.selection.least_share)
    scale = metric(state.kernel, context.prepared.rows.n_features)
    centres = [
        cluster_centres(
            (context.inputs(sample.features[order[codes == code]]) / scale).astype(np.float32),
            int(quota),
            settings.selection.steps,
        )
        for code, quota in enumerate(quotas)
        if quota > 0
    ]
    inputs = np.concatenate(centres).astype(np.float64) * scale
    state = with_inducing(state, inputs)
    return replace(state.told(n_active=[len(inputs)], rows=len(order)), phase=context.after_selection)


def _exact_quotas(counts: NDArray[np.int64], wanted: int, least_share: float) -> NDArray[np.int64]:
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


def cluster_centres(inputs: NDArray[np.float32], count: int, steps: int) -> NDArray[np.float32]:
    """Lloyd's algorithm, from the first rows (which are in random order); an empty cluster stays.

    Shapes: inputs (n, p) → (count, p).  Cost: 2 n count p flops a step, in blocks of rows.
    """
    centres = inputs[:count].copy()
    if len(inputs) <= count:
        return centres
    for _ in range(steps):
        sums, sizes = np.zeros(centres.shape), np.zeros(count)
        half = 0.5 * np.einsum("ij,ij->i", centres, centres)
        for start in range(0, len(inputs), ROWS_PER_BLOCK):
            block = inputs[start : start + ROWS_PER_BLOCK]
            nearest = np.argmin(half - block @ centres.T, axis=1)
            order = np.argsort(nearest, kind="stable")
            present, first = np.unique(nearest[order], return_index=True)
            sums[present] += np.add.reduceat(block[order].astype(np.float64), first, axis=0)
            sizes += np.bincount(nearest, minlength=count)
        filled = sizes > 0
        moved = (sums[filled] / sizes[filled, None]).astype(np.float32)
        if np.array_equal(moved, centres[filled]):
            break
        centres[filled] = moved
    return centres
