"""Kernels to start from, where none is given."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import pdist

from streamgp.kernels import RBF, Kernel, Linear, Polynomial
from streamgp.training.context import Context

LENGTHSCALES = (0.5, 1.0, 2.0)
"""Of the median distance."""
VARIANCES = (1.0, 10.0, 100.0)
"""Of a latent function that has to tell classes apart."""


def default_kernel(context: Context) -> Kernel:
    """RBF of the median distance among (at most 1000) rows.

    One lengthscale for each feature where they are few and will be learned. Plus a little of a linear kernel;
    not where the evidence learns to tell classes apart, as long lengthscales do as well and extrapolate less.
    """
    return _start(context, _median_distance(context), 30.0 if context.is_classification else 1.0)


def start_kernels(context: Context) -> list[Kernel]:
    """What learning chooses its start from: lengthscales and variances around the default kernel's.

    Pixels have polynomials too, of the cosine between two images: products of a few of them at a time.
    """
    variances = VARIANCES if context.is_classification else (1.0,)
    median = _median_distance(context)
    starts: list[Kernel] = [
        _start(context, factor * median, variance) for factor in LENGTHSCALES for variance in variances
    ]
    if context.prepared.standardizer.is_common:
        starts += [Polynomial(5, variance, offset=0.5, normalize=True) for variance in variances]
    return starts


def _median_distance(context: Context) -> float:
    stored = context.sample.features
    sample = context.inputs(stored[:: max(1, len(stored) // 1000)][:1000])
    median = float(np.median(pdist(sample))) if len(sample) > 1 else 0.0
    return median if np.isfinite(median) and median > 0 else float(np.sqrt(sample.shape[1]))


def _start(context: Context, lengthscale: float, variance: float) -> Kernel:
    n_features = context.prepared.rows.n_features
    per_feature = context.settings.learning is not None and context.has_few_features
    rbf = RBF(variance, (lengthscale,) * n_features if per_feature else lengthscale)
    if per_feature and context.is_classification and context.learns_by_evidence:
        return rbf
    return rbf + Linear(0.1 * variance / n_features)
