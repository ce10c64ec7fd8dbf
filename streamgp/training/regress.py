"""Exact regression on a few rows: what a kernel and its noise learn from numbers, or from labels as such."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference.label_regression import label_evidence
from streamgp.kernels import Kernel
from streamgp.likelihoods import Gaussian
from streamgp.training.optimise import descend, logged, minus_log_posterior, pack, pack_bounds, unpack

START_NOISE = 0.1
LEAST_NOISE = 1e-4
"""Copies of a row that agree ask for none, and their Gram matrix has no factor without it."""


def labels_as_numbers(encoded: FloatArray, n_heads: int) -> FloatArray:
    """A column of 0 and 1 for each class, less its mean; one of two classes.  Shapes: (n,) → (n, columns)."""
    labels = np.eye(max(2, n_heads))[encoded.astype(np.intp)]
    labels -= labels.mean(axis=0)
    return np.ascontiguousarray(labels[:, :n_heads])


def by_regression(
    kernel: Kernel, inputs: FloatArray, targets: FloatArray, steps: int, is_late: Callable[[], bool]
) -> tuple[Kernel, Gaussian]:
    """Kernel and noise of largest evidence, from this kernel.  Shapes: inputs (n, p), targets (n, k)."""
    noise = (Gaussian(START_NOISE),)

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        fitted, likelihoods = unpack(kernel, noise, vector)
        found = label_evidence(fitted, likelihoods[0], inputs, targets)  # type: ignore[arg-type]
        return minus_log_posterior(fitted.log_prior(inputs.shape[1]), likelihoods, [found])

    log = logged(objective, {}, lambda arrays: None)
    start, bounds = pack(kernel, noise), pack_bounds(kernel, noise)
    bounds[-1, 0] = np.log(LEAST_NOISE)
    found, _ = descend(log, start, bounds, steps, 2 * steps, is_late)
    learned, [likelihood] = unpack(kernel, noise, found)
    assert isinstance(likelihood, Gaussian)
    return learned, likelihood
