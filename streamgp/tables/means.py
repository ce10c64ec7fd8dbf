"""Smoothed means of the target by category, for new rows and out of fold for training rows."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from streamgp.arrays import Array, FloatArray
from streamgp.tables.encodings import FoldedMean, TargetMean
from streamgp.tables.keys import N_FOLDS, RowDraws
from streamgp.tables.sources import Columns
from streamgp.tables.target import Target

SMOOTHING = 20.0
"""Rows of the overall mean that every category starts with."""


@dataclass(frozen=True)
class Outputs:
    """What is averaged: the target itself, or a truth value for each class (of two: for the second)."""

    classes: tuple[object, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """One for each output."""
        return tuple(str(label) for label in self._told) or ("",)

    def of(self, values: Array) -> FloatArray:
        """Outputs of targets.  Shape: (rows, outputs)."""
        if not self.classes:
            return np.asarray(values, np.float64)[:, None]
        return np.stack([values == label for label in self._told], axis=1).astype(np.float64)

    @property
    def _told(self) -> tuple[object, ...]:
        return self.classes[1:] if len(self.classes) == 2 else self.classes


@dataclass(frozen=True, eq=False)
class Sums:
    """Counts and sums of outputs by fold and label; the last label stands for missing ones.

    Shapes: counts (folds, labels + 1), totals (folds, labels + 1, outputs).
    """

    counts: FloatArray
    totals: FloatArray

    def merge(self, other: Sums) -> Sums:
        """Of both; writes into this one, which the caller owns."""
        np.add(self.counts, other.counts, out=self.counts)
        np.add(self.totals, other.totals, out=self.totals)
        return self


@dataclass(frozen=True)
class MeansLearner:
    """Adds up what the means of some columns need."""

    labels: Mapping[str, tuple[str, ...]]
    outputs: Outputs
    target: Target
    draws: RowDraws

    @cached_property
    def _encodings(self) -> dict[str, TargetMean]:
        none = np.empty((0, 0))
        return {name: TargetMean(name, labels, (), none) for name, labels in self.labels.items()}

    def visit(self, start: int, batch: Columns) -> dict[str, Sums]:
        """Sums of a batch of rows: training rows with a target only."""
        values, present = self.target.values(batch[self.target.column])
        stop = start + len(present)
        train = present & ~self.draws.in_test(start, stop)
        folds, outputs = self.draws.folds(start, stop)[train], self.outputs.of(values[train])
        sums = {}
        for name, encoding in self._encodings.items():
            width = len(encoding.labels) + 1
            places = folds * width + encoding.codes(batch[name])[0][train]
            counted = [np.bincount(places, weights, N_FOLDS * width) for weights in (None, *outputs.T)]
            shaped = [np.asarray(count, np.float64).reshape(N_FOLDS, width) for count in counted]
            sums[name] = Sums(shaped[0], np.stack(shaped[1:], axis=-1))
        return sums

    def finish(self, sums: dict[str, Sums]) -> dict[str, FoldedMean]:
        """Encodings of the columns, from the sums of all rows."""
        return {
            name: folded_mean(name, labels, self.outputs.names, sums[name])
            for name, labels in self.labels.items()
        }


def merge_sums(earlier: dict[str, Sums], later: dict[str, Sums]) -> dict[str, Sums]:
    """Sums of both."""
    return {name: sums.merge(later[name]) for name, sums in earlier.items()}


def sums_bytes(sums: dict[str, Sums]) -> bytes:
    """Sums as an archive of arrays; columns by their place, as names may hold anything."""
    arrays: dict[str, Any] = {}
    for place, part in enumerate(sums.values()):
        arrays |= {f"counts{place}": part.counts, f"totals{place}": part.totals}
    file = io.BytesIO()
    np.savez(file, names=np.array(list(sums)), **arrays)
    return file.getvalue()


def sums_from_bytes(content: bytes) -> dict[str, Sums]:
    """The sums again."""
    with np.load(io.BytesIO(content)) as arrays:
        names = arrays["names"].tolist()
        return {
            name: Sums(arrays[f"counts{place}"], arrays[f"totals{place}"]) for place, name in enumerate(names)
        }


def folded_mean(column: str, labels: tuple[str, ...], outputs: tuple[str, ...], sums: Sums) -> FoldedMean:
    """Means of all training rows, and for each fold those of the rows outside of it.

    mean of a label = (sum + SMOOTHING × overall mean) / (count + SMOOTHING), all without the fold
    """
    whole = _smoothed(sums.counts.sum(axis=0), sums.totals.sum(axis=0))
    outside = np.stack(
        [
            _smoothed(
                np.delete(sums.counts, fold, axis=0).sum(axis=0),
                np.delete(sums.totals, fold, axis=0).sum(axis=0),
            )
            for fold in range(N_FOLDS)
        ]
    )
    return FoldedMean(TargetMean(column, labels, outputs, whole), outside)


def _smoothed(counts: FloatArray, totals: FloatArray) -> FloatArray:
    """Shapes: counts (labels + 1,), totals (labels + 1, outputs) → (labels + 1, outputs)."""
    overall = totals.sum(axis=0) / max(1.0, counts.sum())
    means: FloatArray = (totals + SMOOTHING * overall) / (counts[:, None] + SMOOTHING)
    means[-1] = overall
    return means
