"""Centres of clusters, in the metric of a kernel."""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Array, FloatArray
from streamgp.kernels import Kernel
from streamgp.passes.nearest import merge_clusters, nearest_sums

ROWS_PER_BLOCK = 2048


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
