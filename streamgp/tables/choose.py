"""From facts about columns to their encodings; columns that cannot be used are refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgp.errors import ParameterError, TableError
from streamgp.tables.encodings import Date, Encoding, Number, OneHot
from streamgp.tables.survey import MAX_LABELS, Facts, LabelFacts, NumberFacts, Survey
from streamgp.tables.values import Kind

ONE_HOT_LIMIT = 16
"""Categories that get a feature each by default."""
MAX_ONE_HOT = 1000
MAX_MEAN_CLASSES = 10
"""Classes whose shares by category can be features."""
METHODS = ("auto", "one-hot", "target-mean", "refuse")
WEEK_SPAN, YEAR_SPAN = 2.0, 60.0
"""Days that training dates must span for the week's, the year's cycle to be features."""


@dataclass(frozen=True)
class Categories:
    """How categories are encoded: by default, and by column."""

    limit: int
    method: str
    by_column: Mapping[str, str]

    @staticmethod
    def asked(categorical: str | int | Mapping[str, str]) -> Categories:
        """The choice that ``categorical=`` states."""
        if isinstance(categorical, Mapping):
            named = Categories(ONE_HOT_LIMIT, "auto", dict(categorical))
        elif isinstance(categorical, str):
            named = Categories(ONE_HOT_LIMIT, categorical, {})
        else:
            named = Categories(categorical, "auto", {})
        odd = [method for method in (named.method, *named.by_column.values()) if method not in METHODS]
        if odd or not 0 <= named.limit <= MAX_ONE_HOT:
            raise ParameterError(
                f"categorical={categorical!r}: it is one of {METHODS}, a limit of categories from 0 to "
                f"{MAX_ONE_HOT}, or a mapping from columns to one of {METHODS}"
            )
        return named

    def of(self, column: str) -> str:
        """The method for a column."""
        return self.by_column.get(column, self.method)


@dataclass(frozen=True)
class Choice:
    """Encodings so far: a column that wants target means has its labels here, and its means come later."""

    encodings: Mapping[str, Encoding | tuple[str, ...]]
    indicators: frozenset[str]
    dropped: Mapping[str, str]

    @property
    def wants_means(self) -> dict[str, tuple[str, ...]]:
        """Columns that want target means, with their labels."""
        return {name: chosen for name, chosen in self.encodings.items() if isinstance(chosen, tuple)}


class _RefusedError(Exception):
    """Why a column cannot be used."""


def choose(
    survey: Survey,
    kinds: Mapping[str, Kind],
    types: Mapping[str, Any],
    categories: Categories,
    *,
    impute: bool,
    n_classes: int | None,
) -> Choice:
    """The encoding of each column; ``n_classes`` is None for a real target."""
    encodings: dict[str, Encoding | tuple[str, ...]] = {}
    refused: dict[str, str] = {}
    dropped: dict[str, str] = {}
    for name, kind in kinds.items():
        facts = survey.columns.get(name)
        try:
            if kind == "other" or facts is None:
                raise _RefusedError(f"its type is {types[name]}")
            empty = _is_empty(facts)
            if empty:
                dropped[name] = empty
                continue
            if facts.missing and not impute:
                raise _RefusedError(f"{facts.missing} of its values are missing")
            encodings[name] = _encoding(name, kind, facts, categories, n_classes)
        except _RefusedError as reason:
            refused[name] = str(reason)
    if refused:
        listed = "; ".join(f"{name!r}: {reason}" for name, reason in refused.items())
        raise TableError(f"columns that cannot be used: {listed}. Leave them out by drop=, or change them.")
    if not encodings:
        raise TableError("no column is left to be a feature")
    indicators = frozenset(name for name in encodings if survey.columns[name].missing)
    return Choice(encodings, indicators, dropped)


def _is_empty(facts: Facts) -> str | None:
    if isinstance(facts, NumberFacts):
        return None if facts.count else "no value in the training rows"
    if facts.counts is not None and not facts.counts:
        return "no value in the training rows"
    if facts.counts is not None and len(facts.counts) == 1 and not facts.missing:
        return "the same category in all training rows"
    return None


def _encoding(
    name: str, kind: Kind, facts: Facts, categories: Categories, n_classes: int | None
) -> Encoding | tuple[str, ...]:
    if isinstance(facts, LabelFacts):
        return _category(name, facts, categories, n_classes)
    if not np.isfinite([facts.low, facts.high]).all():
        raise _RefusedError("it holds infinity; replace it, or make it a missing value")
    if kind == "date":
        cycles = [("day", not facts.whole)]
        cycles += [(c, facts.high - facts.low >= s) for c, s in (("week", WEEK_SPAN), ("year", YEAR_SPAN))]
        used = tuple(cycle for cycle, there in cycles if there)
        return Date(name, float(np.floor(facts.low)), facts.mean - float(np.floor(facts.low)), used)
    return Number(name, facts.mean)


def _category(
    name: str, facts: LabelFacts, categories: Categories, n_classes: int | None
) -> Encoding | tuple[str, ...]:
    method = categories.of(name)
    if facts.counts is None:
        raise _RefusedError(f"it has more than {MAX_LABELS} categories, as identifiers have")
    labels, number = tuple(sorted(facts.counts)), len(facts.counts)
    if method == "refuse":
        raise _RefusedError(f"it holds {number} categories, and categorical='refuse'")
    if method == "auto":
        method = "one-hot" if number <= categories.limit else "target-mean"
    if method == "one-hot":
        if number > MAX_ONE_HOT:
            raise _RefusedError(f"it has {number} categories; one-hot takes up to {MAX_ONE_HOT}")
        return OneHot(name, labels)
    if n_classes is not None and n_classes > MAX_MEAN_CLASSES:
        raise _RefusedError(
            f"it has {number} categories and the target {n_classes} classes; means of the target are made "
            f"for up to {MAX_MEAN_CLASSES} classes, so raise the limit of one-hot (categorical={number})"
        )
    return labels


def stored_dtype(survey: Survey, choice: Choice) -> str:
    """float32 where rounding changes no column by more than 1e-5 of its spread, else float64."""
    for name, chosen in choice.encodings.items():
        facts = survey.columns[name]
        if isinstance(chosen, Number) and isinstance(facts, NumberFacts) and facts.high > facts.low:
            spread = np.sqrt(facts.squares / facts.count)
            largest = max(abs(facts.low), abs(facts.high))
            if largest * np.finfo(np.float32).eps / 2 > 1e-5 * spread or largest > np.finfo(np.float32).max:
                return "float64"
    return "float32"
