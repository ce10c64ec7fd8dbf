"""Learning batch by batch: what an estimator remembers of earlier rows, inside its budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.budget import parse_size
from streamgp.errors import ParameterError, TargetError

if TYPE_CHECKING:
    from streamgp.estimators.base import StreamGPEstimator

BUDGET_SHARE = 8
"""Remembered rows take at most one part in so many of the memory budget."""


@dataclass(frozen=True, eq=False)
class Remembered:
    """Rows of earlier batches: all of them as long as they fit, then a sample whose rows stand for others.

    ``keys`` are random and belong to rows. Shapes: features (m, p), the others (m,).
    """

    features: Array
    targets: Array
    weights: FloatArray
    keys: FloatArray

    @staticmethod
    def batch(features: Array, targets: Array, weights: Any, keys: FloatArray) -> Remembered:
        """A batch of rows, each of which counts once or as weighted."""
        counts = np.ones(len(features)) if weights is None else np.asarray(weights, np.float64)
        if counts.shape != (len(features),):
            raise ParameterError(f"sample_weight has shape {counts.shape}; it must hold one number a row")
        return Remembered(features, targets, counts, keys)

    def with_batch(self, later: Remembered) -> Remembered:
        """These rows, then those of a later batch."""
        pairs = ((getattr(self, name), getattr(later, name)) for name in self.__dataclass_fields__)
        return Remembered(*(np.concatenate(pair) for pair in pairs))

    def reduced(self, active_rows: IntArray, most: int) -> Remembered:
        """At most ``most`` rows: the active ones, and of the others a random part with their whole weight.

        Unbiased sums: active rows stand for themselves, and each row kept of the others for Σ w / Σ w kept.
        """
        if len(self.features) <= most:
            return self
        is_active = np.zeros(len(self.features), np.bool_)
        is_active[active_rows] = True
        others = np.flatnonzero(~is_active)
        room = max(1, most - int(is_active.sum()))
        kept = others[np.argsort(self.keys[others], kind="stable")[:room]]
        weights = self.weights.copy()
        weights[kept] *= weights[others].sum() / max(weights[kept].sum(), 1e-300)
        chosen = np.sort(np.append(np.flatnonzero(is_active), kept))
        parts = (part[chosen] for part in (self.features, self.targets, weights, self.keys))
        return Remembered(*parts)


def remembered_rows(features: Array, memory_budget: Any) -> int:
    """How many rows like these are remembered at most, inside a budget."""
    return max(1, parse_size(memory_budget) // (BUDGET_SHARE * (features[:1].nbytes + 32)))


def with_earlier(
    estimator: StreamGPEstimator, features: Array, targets: Array, weights: Any, seed: int
) -> Remembered:
    """A batch after the rows that an estimator remembers; refuses one that has forgotten all of them."""
    earlier: Remembered | None = getattr(estimator, "_remembered", None)
    if earlier is None and hasattr(estimator, "model_"):
        raise ParameterError(
            "partial_fit goes on only where partial_fit or fit began: fit_stream and load keep no rows of "
            "their own. Begin with partial_fit, or give all rows to fit_stream"
        )
    seen = 0 if earlier is None else round(earlier.weights.sum())
    keys = np.random.default_rng([seed, seen]).random(len(features))
    batch = Remembered.batch(features, targets, weights, keys)
    return batch if earlier is None else earlier.with_batch(batch)


def known_classes(estimator: StreamGPEstimator, targets: Array, classes: Any) -> Array:
    """The classes of all batches: as given with the first, which must show each of them."""
    if classes is None and not hasattr(estimator, "classes_"):
        raise ParameterError("the first partial_fit needs classes=: all labels that will ever be met")
    known: Array = estimator.classes_ if hasattr(estimator, "classes_") else np.unique(classes)
    if classes is not None and not np.array_equal(np.unique(classes), known):
        raise ParameterError(f"classes={list(classes)!r} are others than before: {known.tolist()}")
    unknown, unseen = np.setdiff1d(targets, known), np.setdiff1d(known, targets)
    if unknown.size:
        raise TargetError(f"label {unknown[0].item()!r} is not among the classes: {known.tolist()}")
    if not hasattr(estimator, "classes_") and unseen.size:
        raise TargetError(
            f"no row of the first batch is of class {unseen[0].item()!r}: begin with rows of all classes"
        )
    return known


def counted(rows: Remembered) -> FloatArray | None:
    """The weights of rows, None where each counts once."""
    return None if np.all(rows.weights == 1.0) else rows.weights


def after_fit(rows: Remembered, estimator: StreamGPEstimator) -> Remembered:
    """What is remembered of rows that an estimator has just been fitted to."""
    most = remembered_rows(rows.features, estimator.memory_budget)
    return rows.reduced(row_numbers(estimator.active_rows_), most)


def row_numbers(active_rows: IntArray) -> IntArray:
    """Rows of the store that are active: virtual ones are pairs of a row and its transformation."""
    return active_rows if active_rows.ndim == 1 else active_rows[:, 0]
