"""Targets as numbers: class labels as codes, real targets centred and scaled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from streamgp.arrays import Array, BoolArray, FloatArray
from streamgp.errors import ParameterError, TargetError

Task = Literal["auto", "classification", "regression"]

MAX_AUTO_CLASSES = 100
MAX_CLASSES = 1000


@dataclass(frozen=True)
class NoLabel:
    """Which targets say that a row has no label: a value, or None for NaN and the empty string."""

    value: Any = None

    @property
    def of_numbers(self) -> Any:
        """What says so among numbers."""
        return np.nan if self.value is None else self.value

    @property
    def of_strings(self) -> str:
        """What says so among strings."""
        return "" if self.value is None else str(self.value)

    def mask(self, targets: Array) -> BoolArray:
        """Which rows have no label.  Shapes: (c,) → (c,)."""
        labels = as_labels(targets)
        if labels.dtype.kind in "US":
            return np.asarray(labels == np.asarray(self.of_strings).astype(labels.dtype.kind))
        if self.value is None:
            return np.isnan(labels) if labels.dtype.kind == "f" else np.zeros(len(labels), np.bool_)
        return np.asarray(labels == self.value) & (not isinstance(self.value, str))


@dataclass(frozen=True, eq=False)
class ClassTargets:
    """Labels ↔ codes 0..k-1 in the order of ``classes`` (sorted); rows without a label have the code k.

    ``no_label`` None: every row must have one. ``only``: the code of a class that is learned alone against
    the rest, None: all are.
    """

    classes: Array
    no_label: NoLabel | None = None
    only: int | None = None

    def encode(self, targets: Array) -> FloatArray:
        """Codes as floats, the form in which all targets travel through a pass."""
        labels = as_labels(targets)
        if len(self.classes) == 2:  # no search: a sixth of the time
            codes: Array = labels == self.classes[1]
            known: Array = codes | (labels == self.classes[0])
        else:
            codes = np.searchsorted(self.classes, labels)
            known = self.classes[np.minimum(codes, len(self.classes) - 1)] == labels
        if self.no_label is not None:
            free = self.no_label.mask(labels)
            codes, known = np.where(free, len(self.classes), codes), known | free
        if not np.all(known):
            unknown = labels[~known][0].item()
            raise TargetError(
                f"label {unknown!r} was not among the classes of the model: {self.classes.tolist()}"
            )
        return codes.astype(np.float64)

    def labels(self, encoded: FloatArray) -> Array:
        """Labels as a store would have them."""
        free = encoded == len(self.classes)
        labels: Array = self.classes[np.where(free, 0, encoded).astype(np.intp)]
        if self.no_label is None or not free.any():
            return labels
        strings = labels.dtype.kind in "US"
        fill = np.asarray(self.no_label.of_strings if strings else self.no_label.of_numbers)
        return np.where(free, fill, labels)


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


def class_targets(
    counts: Mapping[Any, int], dtype: np.dtype[Any], no_label: NoLabel | None = None
) -> ClassTargets:
    """The encoding of labels that were counted, in their own type; refuses too few or too many."""
    if len(counts) > MAX_CLASSES:
        raise TargetError(
            f"more than {MAX_CLASSES} distinct labels: use task='regression' for numbers, or merge classes"
        )
    if len(counts) < 2:
        found = f"all labels are {next(iter(counts))!r}" if counts else "no row has a label"
        raise TargetError(f"classification needs at least two classes, but {found}")
    return ClassTargets(np.array(sorted(counts), dtype=None if dtype.kind in "ST" else dtype), no_label)


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
    classes = len(targets.classes) if isinstance(targets, ClassTargets) and targets.only is None else 2
    return 1 if classes == 2 else classes


def head_targets(targets: Targets, encoded: FloatArray, head: int) -> FloatArray:
    """What a head learns: the real target itself, or ±1 for its class against the rest; 0 without a label."""
    if isinstance(targets, RealTargets):
        return encoded
    positive = targets.only if targets.only is not None else 1 if n_heads(targets) == 1 else head
    signs = np.where(encoded == positive, 1.0, -1.0)
    return signs if targets.no_label is None else np.where(is_labelled(targets, encoded), signs, 0.0)


def is_labelled(targets: Targets, encoded: FloatArray) -> BoolArray:
    """Which rows have a label, by their codes; real targets all have one.  Shapes: (c,) → (c,)."""
    if isinstance(targets, RealTargets) or targets.no_label is None:
        return np.ones(len(encoded), np.bool_)
    return np.asarray(encoded < len(targets.classes))
