"""Learning about the columns: which there are, facts about them, their recipe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from streamgp.data.targets import Task, choose_task
from streamgp.errors import TableError
from streamgp.tables.choose import Categories, Choice, choose, stored_dtype
from streamgp.tables.journal import Journal
from streamgp.tables.keys import RowDraws
from streamgp.tables.means import MeansLearner, Outputs, merge_sums, sums_bytes, sums_from_bytes
from streamgp.tables.reader import Codec, Reader
from streamgp.tables.recipe import ColumnRecipe
from streamgp.tables.request import Request
from streamgp.tables.sources import Source
from streamgp.tables.survey import Survey, survey_batch, survey_bytes, survey_from_bytes
from streamgp.tables.target import Target, target_of
from streamgp.tables.values import Kind, kind_of


class Table(NamedTuple):
    """The columns that are used: how their values are read, their Arrow types, and the target."""

    kinds: dict[str, Kind]
    types: dict[str, pa.DataType]
    target: Target


def used_columns(source: Source, request: Request) -> Table:
    """The columns that a request is about; refuses names that are not there."""
    names = source.schema.names
    asked = [request.target, *(request.features or ()), *request.drop]
    asked += Categories.asked(request.categorical).by_column
    absent = [name for name in asked if name not in names]
    if absent:
        raise TableError(
            f"{source.label} has no column {', '.join(map(repr, absent))}; its columns are "
            f"{', '.join(map(repr, names))}"
        )
    if not source.n_rows:
        raise TableError(f"{source.label} has no rows")
    chosen = [name for name in request.features or names if name not in (request.target, *request.drop)]
    types = {name: source.schema.field(name).type for name in chosen}
    kinds = {name: kind_of(type_) for name, type_ in types.items()}
    for name in Categories.asked(request.categorical).by_column:
        if kinds.get(name) == "number":
            kinds[name] = "label"
    target = target_of(request.target, source.schema.field(request.target).type, request.task)
    return Table(kinds, types, target)


def survey_rows(reader: Reader, table: Table, draws: RowDraws, journal: Journal) -> Survey:
    """Facts about all rows, in one reading."""
    usable: dict[str, Kind] = {name: kind for name, kind in table.kinds.items() if kind != "other"}
    visit = partial(survey_batch, usable, table.target, draws)
    columns, codec = [*usable, table.target.column], Codec(survey_bytes, survey_from_bytes)
    survey = reader.folded(visit, Survey.merge, columns, "survey", journal, codec)
    if not survey.train_rows or (draws.test_share and not survey.test_rows):
        raise TableError(
            f"{survey.train_rows} training and {survey.test_rows} test rows have a target: there must be some"
        )
    return survey


def learn_recipe(
    reader: Reader, table: Table, survey: Survey, draws: RowDraws, request: Request, journal: Journal
) -> tuple[ColumnRecipe, ColumnRecipe]:
    """The recipe for new rows, and the one for rows of this store: it has means out of fold."""
    classes = classes_of(table.target, survey, request.task)
    if request.missing == "refuse" and survey.rows_without_target:
        raise TableError(
            f"the target {table.target.column!r} is missing in {survey.rows_without_target} rows"
        )
    choice = choose(
        survey,
        table.kinds,
        table.types,
        Categories.asked(request.categorical),
        impute=request.missing == "impute",
        n_classes=None if classes is None else len(classes),
    )
    learned: dict[str, Any] = {}
    if choice.wants_means:
        learner = MeansLearner(choice.wants_means, Outputs(classes or ()), table.target, draws)
        columns, codec = [*choice.wants_means, table.target.column], Codec(sums_bytes, sums_from_bytes)
        learned = learner.finish(reader.folded(learner.visit, merge_sums, columns, "means", journal, codec))
    exact = _recipe(table, choice, {**choice.encodings, **learned}, survey, request)
    whole = tuple(getattr(encoding, "whole", encoding) for encoding in exact.encodings)
    return replace(exact, encodings=whole), exact


def classes_of(target: Target, survey: Survey, task: Task) -> tuple[Any, ...] | None:
    """The classes in order, or None for a real target."""
    if target.kind == "real":
        return None
    distinct = survey.target.distinct
    if distinct is None:
        raise TableError(
            f"the target {target.column!r} has more than 1000 distinct values; "
            f"use task='regression' for numbers"
        )
    kind = {"label": "U", "boolean": "b", "integer": "i"}[target.kind]
    return tuple(sorted(distinct)) if choose_task(task, kind, len(distinct)) == "classification" else None


def _recipe(
    table: Table, choice: Choice, encodings: Mapping[str, Any], survey: Survey, request: Request
) -> ColumnRecipe:
    recipe = ColumnRecipe(
        tuple(encodings.values()),
        choice.indicators,
        {name: str(type_) for name, type_ in table.types.items()},
        table.target,
        stored_dtype(survey, choice),
        request.missing == "refuse",
        choice.dropped,
    )
    doubled = [name for name, number in Counter(recipe.feature_names).items() if number > 1]
    if doubled:
        raise TableError(
            f"two features would have the same name: {', '.join(map(repr, doubled))}; rename columns"
        )
    return recipe
