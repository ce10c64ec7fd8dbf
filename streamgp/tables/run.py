"""From raw columns to a store: read to learn about the columns, read again to write their features."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.budget import parse_size, return_large_allocations
from streamgp.tables.journal import resumable
from streamgp.tables.keys import RowDraws
from streamgp.tables.learn import Table, classes_of, learn_recipe, survey_rows, used_columns
from streamgp.tables.reader import Reader
from streamgp.tables.recipe import ColumnRecipe
from streamgp.tables.request import Request, share
from streamgp.tables.sources import open_source
from streamgp.tables.summary import ColumnSummary, Summary
from streamgp.tables.survey import LabelFacts, Survey
from streamgp.tables.write import TEST, Plan, encode_batch, make_plan, new_place, write_parts


def run(sources: Any, out: str | os.PathLike[str], request: Request) -> Summary:
    """See :func:`streamgp.ingest`."""
    began = time.perf_counter()
    draws = RowDraws(int(request.checked().seed), share(request.test))
    place, budget = new_place(out), parse_size(request.memory_budget)
    source = open_source(sources)
    table = used_columns(source, request)
    return_large_allocations()
    with resumable(place, source, request) as journal, Reader(source, budget, request.progress) as reader:
        survey = survey_rows(reader, table, draws, journal)
        recipe, out_of_fold = learn_recipe(reader, table, survey, draws, request, journal)
        parts = {"": survey.train_rows} | ({TEST: survey.test_rows} if request.test is not None else {})
        dtype = _target_dtype(recipe, survey) if request.shuffle else None
        plan = make_plan(recipe, parts, request.rows_per_chunk, budget, reader.workspace_bytes, dtype)
        columns = [*recipe.columns, recipe.target.column]
        read = partial(reader.in_order, partial(encode_batch, out_of_fold, draws), columns, "write")
        write_parts(journal, plan, read, source.n_rows, reader.pool)
    return _summary(place, plan, survey, table, request, time.perf_counter() - began)


def _target_dtype(recipe: ColumnRecipe, survey: Survey) -> np.dtype[Any]:
    """The NumPy type that holds every target."""
    dtype: np.dtype[Any] = np.dtype(recipe.target.stored_dtype)
    if recipe.target.kind == "label":
        assert survey.target.distinct is not None
        dtype = np.array(sorted(survey.target.distinct)).dtype
    return dtype


def _summary(
    place: Path, plan: Plan, survey: Survey, table: Table, request: Request, seconds: float
) -> Summary:
    recipe = plan.recipe
    classes = classes_of(table.target, survey, request.task)
    done = {encoding.column: encoding for encoding in recipe.encodings}
    columns = []
    for name, type_ in table.types.items():
        facts, encoding = survey.columns[name], done.get(name)
        columns.append(
            ColumnSummary(
                name,
                str(type_),
                "dropped: " + recipe.dropped[name] if encoding is None else encoding.kind,
                0 if encoding is None else len(recipe.names_of(encoding)),
                facts.missing,
                len(facts.counts or ()) if isinstance(facts, LabelFacts) else None,
            )
        )
    return Summary(
        out=str(place),
        test=str(place / TEST) if TEST in plan.parts else None,
        rows=survey.train_rows,
        test_rows=survey.test_rows,
        rows_without_target=survey.rows_without_target,
        target=table.target.column,
        target_kind=table.target.kind if classes is None else "classes",
        classes=None if classes is None else list(classes),
        dtype=recipe.dtype,
        rows_per_chunk=plan.chunk_rows,
        seconds=round(seconds, 2),
        columns=columns,
        recipe=recipe,
    )
