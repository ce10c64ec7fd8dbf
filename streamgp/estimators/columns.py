"""Raw columns for a fitted model: encoded as those of its training store were."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from streamgp.arrays import Array
from streamgp.data import Rows, open_rows
from streamgp.data.rows import Names, Store
from streamgp.errors import TableError
from streamgp.posterior.model import Model
from streamgp.tables.formats import is_frame, is_raw, require_pyarrow


def takes_raw(estimator: Any, rows: Any) -> bool:
    """Whether rows are raw columns to this model; without a recipe, a frame holds features."""
    return is_raw(rows) and (estimator.model_.column_recipe is not None or not is_frame(rows))


def encoded(estimator: Any, source: Any) -> Array:
    """Features of a data frame or a file, in memory."""
    recipe = _recipe(estimator.model_, source)
    from streamgp.tables import again  # only here: it needs pyarrow

    return again.encoded(recipe, source, estimator.memory_budget)


@contextmanager
def opened(
    estimator: Any, store: Store, x: Names, y: str | None, allow_missing_chunks: bool = False
) -> Iterator[Rows]:
    """Rows of a store; raw columns become one, in a temporary folder, while the block lasts.

    Of raw columns the target is the one that the model learned, unless ``y`` names another.
    """
    if not takes_raw(estimator, store):
        no_label = getattr(estimator.model_.targets, "no_label", None)
        yield open_rows(store, x, y, allow_missing_chunks=allow_missing_chunks, no_label=no_label)
        return
    recipe = _recipe(estimator.model_, store)
    from streamgp.tables import again  # only here: it needs pyarrow

    target = recipe["target"]["column"] if y == "y" else y
    with again.encoded_store(
        recipe,
        store,
        target,
        memory_budget=estimator.memory_budget,
        folder=estimator.scratch,
        progress=estimator.progress,
    ) as path:
        yield open_rows(path, "X", None if y is None else "y")


def _recipe(model: Model, source: Any) -> Mapping[str, Any]:
    if model.column_recipe is None:
        named = repr(os.fspath(source)) if isinstance(source, str | os.PathLike) else "a data frame"
        raise TableError(
            f"{named} holds raw columns, but the model was not fitted to a store that streamgp.ingest made, "
            f"so it cannot tell how to read them; give features: an array, or a Zarr store"
        )
    require_pyarrow()
    return model.column_recipe
