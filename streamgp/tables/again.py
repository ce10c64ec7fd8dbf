"""The column recipe applied again: raw columns of new rows as features of a fitted model."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.arrays import Array
from streamgp.budget import parse_size, return_large_allocations
from streamgp.errors import TableError
from streamgp.tables.journal import Journal
from streamgp.tables.keys import RowDraws
from streamgp.tables.reader import Reader
from streamgp.tables.recipe import ColumnRecipe
from streamgp.tables.sources import Columns, Source, open_source
from streamgp.tables.write import encode_batch, make_plan, write_parts


def encoded(document: Mapping[str, Any], source: Any, memory_budget: int | str = "1GiB") -> Array:
    """Features of raw rows, in memory.  Shape: (rows, features)."""
    recipe, opened = ColumnRecipe.from_json(document), open_source(source)
    _check(opened, recipe.columns)
    with Reader(opened, parse_size(memory_budget), progress=False) as reader:
        blocks = reader.in_order(lambda start, batch: recipe.encode(batch), recipe.columns, "encode")
        return np.concatenate(list(blocks))


@contextmanager
def encoded_store(
    document: Mapping[str, Any],
    source: Any,
    target: str | None,
    *,
    memory_budget: int | str,
    folder: Any = None,
    progress: bool | None = None,
) -> Iterator[Path]:
    """A store with the features of raw rows, and with the target where asked for; removed afterwards.

    Rows without a target are left out where it is asked for. ``folder`` is where the store lies, default the
    system's folder for temporary files.
    """
    recipe, opened = ColumnRecipe.from_json(document), open_source(source)
    if target is not None:
        recipe = replace(recipe, target=replace(recipe.target, column=target))
    columns = [*recipe.columns, *([target] if target is not None else [])]
    _check(opened, columns)
    return_large_allocations()
    place = Path(tempfile.mkdtemp(prefix="streamgp-columns-", dir=folder))
    try:
        budget = parse_size(memory_budget)
        with Reader(opened, budget, progress) as reader:
            n_rows = opened.n_rows if target is None else _count(reader, recipe)
            plan = make_plan(
                recipe,
                {"": n_rows},
                None,
                budget,
                reader.workspace_bytes,
                with_target=target is not None,
            )
            read = partial(reader.in_order, partial(encode_batch, recipe, RowDraws(0)), columns, "encode")
            journal = Journal(place)
            write_parts(journal, plan, read, opened.n_rows, reader.pool)
        yield journal.store
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _count(reader: Reader, recipe: ColumnRecipe) -> int:
    """Rows that have a target."""

    def present(start: int, batch: Columns) -> int:
        return int(recipe.target.values(batch[recipe.target.column])[1].sum())

    count = sum(reader.in_order(present, [recipe.target.column], "count"))
    if not count:
        raise TableError(f"no row of {reader.source.label} has a target in {recipe.target.column!r}")
    return count


def _check(source: Source, columns: list[str]) -> None:
    absent = [name for name in columns if name not in source.schema.names]
    if absent:
        raise TableError(
            f"{source.label} has no column {', '.join(map(repr, absent))}, which the model needs; "
            f"its columns are {', '.join(map(repr, source.schema.names))}"
        )
    if not source.n_rows:
        raise TableError(f"{source.label} has no rows")
