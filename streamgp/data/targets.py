"""Targets as numbers: class labels as codes, real targets centred and scaled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from streamgp.arrays import Array, FloatArray
from streamgp.errors import ParameterError, TargetError

Task = Literal["auto", "classification", "regression"]

MAX_AUTO_CLASSES = 100
MAX_CLASSES = 1000


@dataclass(frozen=True, eq=False)
class ClassTargets:
    """Labels ↔ codes 0..k-1 in the order of ``classes`` (sorted)."""

    classes: Array

    def encode(self, targets: Array) -> FloatArray:
        """Codes as floats, the form in which all targets travel through a pass."""
        labels = as_labels(targets)
        codes = np.searchsorted(self.classes, labels)
        known = self.classes[np.minimum(codes, len(self.classes) - 1)] == labels
        if not np.all(known):
            unknown = labels[~known][0].item()
            raise TargetError(
                f"label {unknown!r} was not among the classes of the model: {self.classes.tolist()}"
            )
        return codes.astype(np.float64)


@dataclass(frozen=True)
class RealTargets:
    """y ↦ (y − shift) / scale, so that a kernel variance near 1 is a sensible start.

    Targets that must not be scaled, such as counts, have shift 0 and scale 1; those below ``lowest``, above
    ``highest`` or, where all are ``whole``, between two numbers are refused.
    """

    shift: float
    scale: float
    lowest: float = -np.inf
    highest: float = np.inf
    whole: bool = False

    def encode(self, targets: Array) -> FloatArray:
        """Targets of mean 0 and variance 1, or as they are."""
        values = np.asarray(targets, np.float64)
        self._check(values)
        return (values - self.shift) / self.scale

    def _check(self, values: FloatArray) -> None:
        if self.lowest == -np.inf and self.highest == np.inf and not self.whole:
            return
        bad = (values < self.lowest) | (values > self.highest)
        bad |= self.whole & (values != np.floor(values))
        if np.any(bad):
            kind = "whole numbers" if self.whole else "numbers"
            raise TargetError(
                f"found target {values[bad][0]:g}, but the likelihood is for {kind} from {self.lowest:g} to "
                f"{self.highest:g}: give another likelihood, or correct the targets"
            )


Targets = ClassTargets | RealTargets


def as_labels(targets: Array) -> Array:
    """Labels in a type that sorts and compares: bytes and strings become fixed-width ones."""
    if targets.dtype.kind == "S":
        try:
            return np.strings.decode(targets, "utf-8")
        except UnicodeDecodeError as error:
            raise TargetError(
                f"a label of bytes, {error.object!r}, is no text in UTF-8: convert the labels to strings or "
                f"numbers"
            ) from error
    if targets.dtype.kind == "T":
        width = int(np.strings.str_len(targets).max(initial=1))
        return targets.astype(f"U{width}")
    return targets


def choose_task(task: Task, kind: str, n_labels: int) -> Literal["classification", "regression"]:
    """Classification or regression, from the wish, the dtype's kind and the number of distinct targets."""
    if task not in ("auto", "classification", "regression"):
        raise ParameterError(f"task must be 'auto', 'classification' or 'regression', not {task!r}")
    if task == "regression" and kind in "UST":
        raise TargetError(
            "regression needs numbers as targets, but they are strings; use task='classification'"
        )
    if task != "auto":
        return task
    if kind == "f":
        return "regression"
    if kind in "iu" and n_labels > MAX_AUTO_CLASSES:
        raise TargetError(
            f"the targets are integers with more than {MAX_AUTO_CLASSES} distinct values: say whether they "
            f"are classes (task='classification') or numbers (task='regression')"
        )
    return "classification"


def class_targets(counts: Mapping[Any, int], dtype: np.dtype[Any]) -> ClassTargets:
    """The encoding of labels that were counted, in their own type; refuses too few or too many."""
    if len(counts) > MAX_CLASSES:
        raise TargetError(
            f"more than {MAX_CLASSES} distinct labels: use task='regression' for numbers, or merge classes"
        )
    if len(counts) < 2:
        raise TargetError(
            f"classification needs at least two classes, but all labels are {next(iter(counts))!r}"
        )
    return ClassTargets(np.array(sorted(counts), dtype=None if dtype.kind in "ST" else dtype))


def real_targets(mean: float, variance: float) -> RealTargets:
    """The encoding of real targets; refuses a constant one."""
    scale = float(np.sqrt(variance))
    if not np.isfinite(scale) or not np.isfinite(mean):
        raise TargetError(f"the targets are too large to be squared (their mean is {mean!r}): rescale them")
    if not scale > 1e-12 * abs(mean):
        raise TargetError(
            f"the target is constant ({mean!r}), or its spread has no square: there is nothing to learn"
        )
    return RealTargets(float(mean), scale)


def n_heads(targets: Targets) -> int:
    """Latent functions that targets need: one for two classes or a real target, one per class for more."""
    classes = len(targets.classes) if isinstance(targets, ClassTargets) else 2
    return 1 if classes == 2 else classes


def head_targets(targets: Targets, encoded: FloatArray, head: int) -> FloatArray:
    """What a head learns: the real target itself, or ±1 for its class against the rest."""
    if isinstance(targets, RealTargets):
        return encoded
    positive = 1 if n_heads(targets) == 1 else head
    return np.where(encoded == positive, 1.0, -1.0)
