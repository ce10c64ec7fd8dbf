"""Pass 0: what the data are, in one read."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.data.checksum import merged_checksum, rows_checksum
from streamgp.data.targets import MAX_CLASSES, NoLabel, as_labels
from streamgp.errors import NonFiniteDataError
from streamgp.passes.block import Block, Visitor


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and sum of squared deviations of columns; merging is stable [Chan1983]."""

    count: int
    mean: FloatArray
    deviations: FloatArray

    @staticmethod
    def of(values: Array) -> Moments:
        """Moments over the first axis.  Shapes: values (c, p) → mean, deviations (p,)."""
        with np.errstate(
            invalid="ignore", over="ignore"
        ):  # values that are not finite are told by row and column
            mean = values.mean(axis=0, dtype=np.float64)
            deviations = np.zeros_like(mean)
            size = max(1, 2**15 // len(mean))  # tiles that stay in cache while they are float64
            for start in range(0, len(values), size):
                centred = values[start : start + size] - mean
                deviations += np.einsum("ij,ij->j", centred, centred)
            return Moments(len(values), mean, deviations)

    def merged(self, later: Moments) -> Moments:
        """Moments of both samples.

        δ = m₂ − m₁,  m = m₁ + δ n₂/n,  D = D₁ + D₂ + δ² n₁ n₂/n
        """
        count = self.count + later.count
        with np.errstate(invalid="ignore", over="ignore"):
            delta = later.mean - self.mean
            mean = self.mean + delta * (later.count / count)
            between = delta**2 * (self.count * later.count / count)
            return Moments(count, mean, self.deviations + later.deviations + between)

    @property
    def variance(self) -> FloatArray:
        """Mean squared deviation."""
        return self.deviations / self.count


class TargetRange(NamedTuple):
    """Lowest and highest target, and between which most lie: 98 % of a block, in some block."""

    lowest: float
    low: float
    high: float
    highest: float

    @staticmethod
    def of(targets: Array) -> TargetRange:
        """Range of a block."""
        low, high = np.quantile(targets, [0.01, 0.99], method="nearest")
        return TargetRange(float(targets.min()), float(low), float(high), float(targets.max()))

    def merged(self, later: TargetRange) -> TargetRange:
        """Range of both."""
        lows, highs = zip(self[:2], later[:2], strict=True), zip(self[2:], later[2:], strict=True)
        return TargetRange(*(min(pair) for pair in lows), *(max(pair) for pair in highs))


@dataclass(frozen=True, eq=False)
class Summary:
    """What pass 0 found.

    ``labels`` counts the distinct targets, up to one more than may be classes; it is empty where targets are
    not counted. ``first_bad`` is the first value that is not finite: (row, column, value), column None for a
    target. ``checksums`` are those of features and targets; ``targets_at_fill`` counts the targets that equal
    what an absent chunk reads as. ``unlabelled`` counts rows without a label, which ``labels`` leaves out.
    ``target_range``: of targets that are numbers.
    """

    features: Moments
    lowest: FloatArray
    highest: FloatArray
    targets: Moments | None
    labels: dict[Any, int]
    first_bad: tuple[int, int | None, float] | None
    checksums: tuple[int, int] = (0, 0)
    targets_at_fill: int = 0
    unlabelled: int = 0
    target_range: TargetRange | None = None

    @property
    def n_rows(self) -> int:
        """Rows that were read."""
        return self.features.count

    @property
    def constant_columns(self) -> IntArray:
        """Columns that have the same value in every row."""
        return np.flatnonzero(self.lowest == self.highest)

    def check_finite(self) -> None:
        """Refuse NaN and infinity, naming the first one."""
        if self.first_bad is not None:
            row, column, value = self.first_bad
            where = f"row {row}, the target" if column is None else f"row {row}, column {column}"
            # Of labels NaN may be meant: the likelihood that can learn from such rows is named.
            hint = "; if it means that there is no label: likelihood=NullCategory()"
            raise NonFiniteDataError(
                f"found {value} at {where}; fill in or leave out rows with NaN or infinity before fitting"
                f"{hint if column is None and np.isnan(value) and self.labels else ''}"
            )


@dataclass(frozen=True)
class Summarize(Visitor[Summary]):
    """Reads rows as stored: counts, moments, ranges, labels, the first bad value, checksums."""

    count_labels: bool
    fill: Any = None
    no_label: NoLabel | None = None

    def visit(self, block: Block) -> Summary:
        """Summary of one block."""
        features, targets = block.features, block.targets
        target_moments, target_range, labels = None, None, {}
        target_checksum = at_fill = unlabelled = 0
        bad = _first_bad(features, block.start)
        if targets is not None:
            target_checksum = rows_checksum(as_labels(targets), block.start)
            at_fill = 0 if self.fill is None else int(np.count_nonzero(_equal(as_labels(targets), self.fill)))
            if self.no_label is not None:
                free = self.no_label.mask(targets)
                unlabelled, targets = int(np.count_nonzero(free)), targets[~free]
            if targets.dtype.kind in "iufb":
                found = (bad, _first_bad(targets[:, None], block.start, target=True))
                bad = min((place for place in found if place), key=lambda place: place[0], default=None)
                if len(targets):
                    target_moments = Moments.of(targets[:, None])
                    target_range = None if targets.dtype.kind == "b" else TargetRange.of(targets)
            if self.count_labels:
                values, counts = np.unique(as_labels(targets), return_counts=True)
                counted = zip(values.tolist(), counts.tolist(), strict=True)
                labels = dict(islice(counted, MAX_CLASSES + 1))
        lowest, highest = features.min(axis=0), features.max(axis=0)
        return Summary(
            Moments.of(features),
            lowest.astype(np.float64),
            highest.astype(np.float64),
            target_moments,
            labels,
            bad,
            (rows_checksum(features, block.start), target_checksum),
            at_fill,
            unlabelled,
            target_range,
        )

    def merge(self, earlier: Summary, later: Summary) -> Summary:
        """Summary of both; the number of counted labels stays bounded."""
        targets = None
        if earlier.targets is not None and later.targets is not None:
            targets = earlier.targets.merged(later.targets)
        labels = dict(earlier.labels)
        for label, count in later.labels.items():
            if label in labels or len(labels) <= MAX_CLASSES:
                labels[label] = labels.get(label, 0) + count
        return Summary(
            earlier.features.merged(later.features),
            np.minimum(earlier.lowest, later.lowest),
            np.maximum(earlier.highest, later.highest),
            targets,
            labels,
            earlier.first_bad or later.first_bad,
            (
                merged_checksum(earlier.checksums[0], later.checksums[0]),
                merged_checksum(earlier.checksums[1], later.checksums[1]),
            ),
            earlier.targets_at_fill + later.targets_at_fill,
            earlier.unlabelled + later.unlabelled,
            earlier.target_range and later.target_range and earlier.target_range.merged(later.target_range),
        )


def _equal(values: Array, fill: Any) -> Array:
    """Which values are the fill value, NaN among them."""
    is_nan = isinstance(fill, float | np.floating) and np.isnan(fill)
    return np.isnan(values) if is_nan and values.dtype.kind == "f" else np.asarray(values == fill)


def _first_bad(values: Array, start: int, target: bool = False) -> tuple[int, int | None, float] | None:
    if values.dtype.kind != "f":
        return None
    finite = np.isfinite(values)
    if finite.all():
        return None
    row, column = np.unravel_index(np.argmin(finite), finite.shape)
    return start + int(row), None if target else int(column), float(values[row, column])
