"""The informative vector machine by the book: all rows in J, all matrices from scratch at every inclusion."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class DenseIVM(NamedTuple):
    """Active rows in order, their sites, and L, M, h, a of the final state."""

    active: list[int]
    precision: np.ndarray
    precision_mean: np.ndarray
    factor: np.ndarray
    stubs: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


def information_gain(mean, variance, precision, precision_mean):
    """Relative entropy between the marginal after and before the inclusion [IVM2006] eq. 5, sign turned."""
    new_variance = 1 / (1 / variance + precision)
    new_mean = new_variance * (mean / variance + precision_mean)
    ratio = new_variance / variance
    return 0.5 * (-np.log(ratio) + ratio + (new_mean - mean) ** 2 / variance - 1)


def entropy_reduction(mean, variance, precision, precision_mean):
    """Difference of the marginal's entropies [IVM2003] eq. 4, sign turned."""
    return 0.5 * np.log(1 + variance * precision)


def select(
    gram: np.ndarray,
    targets: np.ndarray,
    moments: Callable[..., tuple[np.ndarray, np.ndarray]],
    n_active: int,
    score: Callable[..., np.ndarray],
    first: int | None = None,
) -> DenseIVM:
    """Algorithm 1 of both papers. ``moments(y, h, a)`` gives α and ν; ``first`` is the first pick.

    A = K − M Mᵀ,  M = K_I S L⁻ᵀ,  L Lᵀ = 1 + S K_II S,  h = M β,  β = L⁻¹ S⁻¹ b
    """
    n = len(gram)
    active: list[int] = []
    precision, precision_mean = np.zeros(0), np.zeros(0)
    for step in range(n_active + 1):
        root = np.sqrt(precision)
        inside = gram[np.ix_(active, active)]
        factor = np.linalg.cholesky(np.eye(step) + root[:, None] * inside * root)
        stubs = np.linalg.solve(factor, root[:, None] * gram[active]).T if step else np.zeros((n, 0))
        mean = stubs @ np.linalg.solve(factor, precision_mean / root) if step else np.zeros(n)
        variance = np.diag(gram) - (stubs**2).sum(axis=1)
        if step == n_active:
            return DenseIVM(active, precision, precision_mean, factor, stubs, mean, variance)
        slope, curvature = moments(targets, mean, variance)
        new_precision = curvature / (1 - variance * curvature)
        new_precision_mean = (slope + curvature * mean) / (1 - variance * curvature)
        scores = score(mean, variance, new_precision, new_precision_mean)
        scores[active] = -np.inf
        best = first if step == 0 and first is not None else int(np.argmax(scores))
        active.append(best)
        precision = np.append(precision, new_precision[best])
        precision_mean = np.append(precision_mean, new_precision_mean[best])
    raise AssertionError("unreachable")
