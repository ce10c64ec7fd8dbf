"""Whether columns of long tails are to be bent before anything is learned: rows that judge say so.

A kernel of distances sees a column of long tails as one value for nearly all rows, and a few rows far from
everything. A plain regression on a few rows, with the columns as they are and with them bent, says which of
the two tells more of the other rows; it costs a second, where the candidates of a trial cost many.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import pdist

from streamgp.arrays import Array, FloatArray
from streamgp.data import ClassTargets, Standardizer
from streamgp.data.standardize import Bend
from streamgp.kernels import Matern32
from streamgp.training.contest import FAILURES, Part
from streamgp.training.judge import is_better
from streamgp.training.prepare import Prepared
from streamgp.training.regress import by_regression, labels_as_numbers

logger = logging.getLogger(__name__)

LONG_TAILS = 10.0
"""Kurtosis from which a column has long tails: 3 is normal, 9 exponential."""
ROWS, STEPS = 600, 15
ERRORS = 2.0
"""Standard errors by which judges must prefer columns that are bent."""


def long_tailed(features: Array) -> list[int]:
    """Columns of more than two values and of large kurtosis.  Shapes: features (n, p)."""
    found = []
    for column, values in enumerate(np.asarray(features, np.float64).T):
        centred = values - values.mean()
        variance = float(np.mean(centred**2))
        if variance > 0 and np.mean(centred**4) > LONG_TAILS * variance**2 and len(np.unique(values)) > 2:
            found.append(column)
    return found


def choose_bend(parts: Sequence[Part], prepared: Prepared) -> Bend | None:
    """The bend that judges prefer to the columns as they are, by two standard errors; else None."""
    columns = long_tailed(parts[0].learners.features)
    if not columns:
        return None
    bend = Bend.of_sample(parts[0].learners.features, columns)
    plain = prepared.standardizer
    try:
        bent, straight = (
            np.concatenate([_log_densities(part, prepared, standardizer) for part in parts])
            for standardizer in (plain.bent(bend), plain)
        )
    except FAILURES as error:
        logger.info("columns of long tails stay as they are: %s", error)
        return None
    return bend if is_better(bent, straight, ERRORS) else None


def _log_densities(part: Part, prepared: Prepared, standardizer: Standardizer) -> FloatArray:
    """Log density of each judge by an exact regression on some learners, labels taken as numbers.

    mean = k (K + σ² 1)⁻¹ y,  variance = k(x, x) + σ² − k (K + σ² 1)⁻¹ kᵀ
    Zeros where these learners have one and the same target, as of a rare class: they teach nothing.
    """
    learners = part.learners.take(np.sort(np.argsort(part.learners.keys, kind="stable")[:ROWS]))
    if not np.ptp(learners.targets) > 0:
        return np.zeros(len(part.judges.rows))
    inputs, judges = (
        np.ascontiguousarray(standardizer.apply(pool.features, np.float64))
        for pool in (learners, part.judges)
    )
    targets = np.concatenate([learners.targets, part.judges.targets])
    if isinstance(prepared.targets, ClassTargets):
        classes = len(prepared.targets.classes)
        numbers = labels_as_numbers(targets, classes if classes > 2 else 1)
    else:
        numbers = ((targets - learners.targets.mean()) / max(learners.targets.std(), 1e-300))[:, None]
    taught, asked = numbers[: len(inputs)], numbers[len(inputs) :]
    median = float(np.median(pdist(inputs))) or 1.0
    kernel, noise = by_regression(Matern32(float(taught.var()), median), inputs, taught, STEPS, lambda: False)
    gram = kernel.gram(inputs) + noise.noise * np.eye(len(inputs))
    factor = cho_factor(gram, lower=True)
    block = kernel.block(judges, inputs)
    mean = block @ cho_solve(factor, taught)
    variance = kernel.diagonal(judges) + noise.noise - np.sum(block * cho_solve(factor, block.T).T, axis=1)
    squares = np.sum((asked - mean) ** 2, axis=1)
    densities: FloatArray = -0.5 * (asked.shape[1] * np.log(2.0 * np.pi * variance) + squares / variance)
    return densities
