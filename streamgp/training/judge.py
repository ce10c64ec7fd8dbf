"""Marginals of rows that are held in memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from streamgp.arrays import Array, FloatArray
from streamgp.passes.blas import single_threaded_blas
from streamgp.passes.run import available_threads
from streamgp.posterior import Snapshot
from streamgp.training.problem import Problem

BLOCK = 512
"""Rows at a time: their kernel block is small beside the factor."""


def marginals_in_memory(problem: Problem, snapshot: Snapshot, stored: Array) -> tuple[FloatArray, FloatArray]:
    """Latent means and variances of rows as stored, by the first head of a snapshot and in its precision.

    Shapes: stored (n, p) → (n,), (n,).  Cost: O(n d (p + d)), blocks side by side.
    """
    mean, variance = np.empty(len(stored)), np.empty(len(stored))

    def fill(start: int) -> None:
        here = slice(start, start + BLOCK)
        marginals = snapshot.marginals(problem.inputs(stored[here], snapshot.dtype))
        assert marginals.variance is not None
        mean[here], variance[here] = marginals.mean[:, 0], marginals.variance[:, 0]

    with single_threaded_blas(), ThreadPoolExecutor(available_threads()) as pool:
        list(pool.map(fill, range(0, len(stored), BLOCK)))
    return mean, variance
