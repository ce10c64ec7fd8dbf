"""The first reading: facts about every column, learned from training rows only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from streamgp.arrays import Array, BoolArray, FloatArray
from streamgp.tables.keys import RowDraws
from streamgp.tables.sources import Columns
from streamgp.tables.target import Target
from streamgp.tables.values import Kind, as_days, as_labels, as_numbers

MAX_LABELS = 100_000
"""Categories of a column that are told apart; a column with more is an identifier."""


@dataclass(frozen=True)
class NumberFacts:
    """Numbers of a column: how many, their moments and range."""

    count: int
    missing: int
    mean: float = 0.0
    squares: float = 0.0  # sum of squared distances from the mean
    low: float = np.inf
    high: float = -np.inf
    whole: bool = True  # no value has a fraction

    @staticmethod
    def of(values: FloatArray) -> NumberFacts:
        """Facts about an array; NaN is missing."""
        known = values[~np.isnan(values)]
        if not len(known):
            return NumberFacts(0, len(values))
        low, high = float(known.min()), float(known.max())
        if np.isinf(low) or np.isinf(high):
            return NumberFacts(len(known), len(values) - len(known), low=low, high=high)
        mean = float(known.mean())
        squares = float(np.sum((known - mean) ** 2))
        whole = bool(np.array_equal(known, np.floor(known)))
        return NumberFacts(len(known), len(values) - len(known), mean, squares, low, high, whole)

    def merge(self, other: NumberFacts) -> NumberFacts:
        """Facts about both (Chan's rule for the moments)."""
        count = self.count + other.count
        share, distance = other.count / max(1, count), other.mean - self.mean
        return NumberFacts(
            count,
            self.missing + other.missing,
            self.mean + share * distance,
            self.squares + other.squares + self.count * share * distance**2,
            min(self.low, other.low),
            max(self.high, other.high),
            self.whole and other.whole,
        )


@dataclass(frozen=True)
class LabelFacts:
    """Labels of a column with how often each occurs; None where there are too many to tell apart."""

    counts: Mapping[str, int] | None
    missing: int

    @staticmethod
    def of(array: pa.Array) -> LabelFacts:
        """Facts about an array."""
        labels = as_labels(array)
        counts = np.bincount(labels.codes + 1, minlength=1 + len(labels.names))
        known = {labels.names[place]: int(counts[place + 1]) for place in np.flatnonzero(counts[1:])}
        return LabelFacts(known, int(counts[0]))

    def merge(self, other: LabelFacts) -> LabelFacts:
        """Facts about both."""
        missing = self.missing + other.missing
        if self.counts is None or other.counts is None:
            return LabelFacts(None, missing)
        counts = dict(self.counts)
        for label, count in other.counts.items():
            counts[label] = counts.get(label, 0) + count
        return LabelFacts(counts if len(counts) <= MAX_LABELS else None, missing)


Facts = NumberFacts | LabelFacts


@dataclass(frozen=True)
class TargetFacts:
    """Distinct targets of all rows (None: more than 1000), and the largest number of characters."""

    distinct: frozenset[Any] | None

    @staticmethod
    def of(values: Array) -> TargetFacts:
        """Facts about the targets of some rows."""
        return TargetFacts(frozenset(np.unique(values).tolist())).limited()

    def limited(self) -> TargetFacts:
        """The same, but without a list where it is too long."""
        return self if self.distinct is None or len(self.distinct) <= 1000 else TargetFacts(None)

    def merge(self, other: TargetFacts) -> TargetFacts:
        """Facts about both."""
        if self.distinct is None or other.distinct is None:
            return TargetFacts(None)
        return TargetFacts(self.distinct | other.distinct).limited()


@dataclass(frozen=True)
class Survey:
    """What one reading tells: facts of columns, numbers of rows."""

    columns: Mapping[str, Facts]
    target: TargetFacts
    train_rows: int
    test_rows: int
    rows_without_target: int

    def merge(self, other: Survey) -> Survey:
        """Of both."""
        columns = {name: facts.merge(other.columns[name]) for name, facts in self.columns.items()}  # type: ignore[arg-type]
        return replace(
            self,
            columns=columns,
            target=self.target.merge(other.target),
            train_rows=self.train_rows + other.train_rows,
            test_rows=self.test_rows + other.test_rows,
            rows_without_target=self.rows_without_target + other.rows_without_target,
        )


def survey_bytes(survey: Survey) -> bytes:
    """A survey as JSON, whose floating-point numbers keep their bits."""
    columns = {name: [type(facts).__name__, asdict(facts)] for name, facts in survey.columns.items()}
    distinct = survey.target.distinct
    target = None if distinct is None else list(distinct)
    return json.dumps({**vars(survey), "columns": columns, "target": target}).encode()


def survey_from_bytes(content: bytes) -> Survey:
    """The survey again."""
    fields = json.loads(content)
    kinds: dict[str, type[Facts]] = {kind.__name__: kind for kind in (NumberFacts, LabelFacts)}
    columns = {name: kinds[kind](**facts) for name, (kind, facts) in fields.pop("columns").items()}
    distinct = fields.pop("target")
    return Survey(columns, TargetFacts(None if distinct is None else frozenset(distinct)), **fields)


def survey_batch(
    kinds: Mapping[str, Kind], target: Target, draws: RowDraws, start: int, batch: Columns
) -> Survey:
    """Facts about a batch of rows; features are looked at in training rows only."""
    values, present = target.values(batch[target.column])
    in_test = draws.in_test(start, start + len(present))
    train = present & ~in_test
    return Survey(
        {name: _facts(batch[name], kind, train) for name, kind in kinds.items()},
        TargetFacts.of(values[present]) if target.kind != "real" else TargetFacts(None),
        int(train.sum()),
        int((present & in_test).sum()),
        int((~present).sum()),
    )


def _facts(array: pa.Array, kind: Kind, train: BoolArray) -> Facts:
    if kind == "empty":
        return NumberFacts(0, int(train.sum()))
    chosen = array if train.all() else array.filter(pa.array(train))
    if kind == "label":
        return LabelFacts.of(chosen)
    return NumberFacts.of(as_days(chosen) if kind == "date" else as_numbers(chosen))
