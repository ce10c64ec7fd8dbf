"""The column recipe applied again: raw columns of new rows as features of a fitted model."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from streamgp.arrays import Array
from streamgp.budget import return_large_allocations
from streamgp.data.rows import COMPLETE
from streamgp.errors import TableError
from streamgp.tables.reader import Reader
from streamgp.tables.recipe import ColumnRecipe
from streamgp.tables.sources import Columns, Source, open_source
from streamgp.tables.store import PartWriter, rows_per_chunk


def encoded(document: Mapping[str, Any], frame: Any) -> Array:
    """Features of a data frame, in memory.  Shape: (rows, features)."""
    recipe, source = ColumnRecipe.from_json(document), open_source(frame)
    _check(source, recipe.columns)
    with Reader(source, progress=False) as reader:
        blocks = list(reader.in_order(lambda start, batch: recipe.encode(batch), recipe.columns, "encode"))
    return np.concatenate(blocks) if blocks else np.empty((0, len(recipe.feature_names)), recipe.dtype)


@contextmanager
def encoded_store(
    document: Mapping[str, Any],
    source: Any,
    target: str | None,
    *,
    folder: Any = None,
    progress: bool | None = None,
) -> Iterator[Path]:
    """A store with the features (and the target) of raw rows, in a temporary folder that is removed after.

    Rows without a target are left out where a target is asked for.
    """
    recipe, opened = ColumnRecipe.from_json(document), open_source(source)
    columns = [*recipe.columns, *([target] if target is not None else [])]
    _check(opened, columns)
    return_large_allocations()
    place = Path(tempfile.mkdtemp(prefix="streamgp-columns-", dir=folder))
    try:
        with Reader(opened, progress) as reader:
            encode = partial(_features_and_targets, recipe, target)
            n_rows = opened.n_rows if target is None else _count(reader, recipe, target)
            _write(place / "rows.zarr", recipe, n_rows, reader.in_order(encode, columns, "encode"), reader.pool, target is not None)
        yield place / "rows.zarr"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _check(source: Source, columns: list[str]) -> None:
    absent = [name for name in columns if name not in source.schema.names]
    if absent:
        raise TableError(
            f"{source.label} has no column {', '.join(map(repr, absent))}, which the model needs; "
            f"its columns are {', '.join(map(repr, source.schema.names))}"
        )
    if not source.n_rows:
        raise TableError(f"{source.label} has no rows")
