"""Data of a comparison: one split for everybody, features and targets as every method can take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.datasets import Array, Split, load_arrays, load_split
from benchmarks.harness import Options

SETS = (
    *("satimage", "usps", "usps4", "uci_pumadyn32nm", "ijcnn1"),
    *("uci_kin40k", "uci_protein", "mnist", "flights3m"),
)
"""From the cheapest to the dearest."""
LATE_MINUTES = 15
TEST_SHARE = 0.1
SPREAD = 1.5
"""Ratio of the columns' deviations up to which one scale for all of them is kept."""


class Task(NamedTuple):
    """A split, in which classes are places among ``classes``; of real targets there are no classes."""

    split: Split
    classes: Array | None

    @property
    def is_real(self) -> bool:
        """Whether targets are real numbers."""
        return self.classes is None


def task_of(name: str, options: Options) -> Task:
    """The data set: real targets in units of their deviation; flights with a random tenth as test rows."""
    split = _flights(options) if name == "flights3m" else load_split(name, options)
    split = split.drawn(options.rows) if options.rows else split
    if split.y_train.dtype.kind == "f":
        deviation = split.y_train.std()
        return Task(split._replace(y_train=split.y_train / deviation, y_test=split.y_test / deviation), None)
    classes = np.unique(split.y_train)
    places = {part: np.searchsorted(classes, getattr(split, part)) for part in ("y_train", "y_test")}
    return Task(split._replace(**places), classes)


def _flights(options: Options) -> Split:
    arrays = load_arrays("flights3m", options)
    if "X" not in arrays:  # made-up data have a split
        return Split(*(arrays[key] for key in Split._fields))
    features, late = arrays["X"], (arrays["y"] > LATE_MINUTES).astype(np.int8)
    is_test = np.random.default_rng(0).random(len(late)) < TEST_SHARE
    return Split(features[~is_test], late[~is_test], features[is_test], late[is_test])


class Scaling(NamedTuple):
    """What rivals get of the features: columns of deviation one; pixels keep their common scale."""

    shift: Array
    scale: Array

    def apply(self, features: Array) -> Array:
        """Scaled features, float32."""
        scaled: Array = (features.astype(np.float32) - self.shift) / self.scale
        return scaled


def scaling(features: Array) -> Scaling:
    """From training rows. Many columns in one and the same range are taken for pixels."""
    shift, scale = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
    lowest, highest = features.min(axis=0), features.max(axis=0)
    common = features.shape[1] > 100 and np.mean((lowest == lowest.min()) & (highest == highest.max())) > 0.5
    if common:
        return Scaling(np.float32(shift.mean()), np.float32(np.sqrt(np.mean(scale**2))))
    return Scaling(shift.astype(np.float32), np.where(scale > 0, scale, 1).astype(np.float32))
