"""Rows given to a fitted model: arrays, frames, raw columns, or lazy arrays, as features."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from streamgp.data.lazy import as_dask, column_names, is_lazy
from streamgp.data.memory import refuse_raw_columns, refuse_unreadable
from streamgp.errors import ParameterError
from streamgp.estimators.columns import encoded, takes_raw

if TYPE_CHECKING:
    from streamgp.estimators.base import StreamGPEstimator


def features_of(estimator: StreamGPEstimator, X: Any) -> Any:
    """Rows as an array of features; raw columns are encoded as those of the training store were."""
    if takes_raw(estimator, X):
        return encoded(estimator, X)
    if is_lazy(X):
        return X
    refuse_other_than_numbers(X)
    store_named = estimator.model_.feature_names is not None and not estimator._named_by_frame
    # Features that are made already: of a store's names, unlike a frame's, an array need not know.
    if estimator.model_.column_recipe is not None or (store_named and not hasattr(X, "columns")):
        return check_array(X, dtype="numeric")
    return validate_data(estimator, X, dtype="numeric", reset=False)


def refuse_other_than_numbers(X: Any) -> None:
    """Refuse what scikit-learn would convert without a word, or with one about something else."""
    if isinstance(X, str | PathLike) or hasattr(X, "array_keys"):
        raise ParameterError(
            f"X must be an array or a data frame, not the store {X!r}: stores are for fit_stream, "
            f"predict_stream and evaluate_stream"
        )
    refuse_unreadable(X, "X")
    refuse_raw_columns(X)


def lazily(estimator: StreamGPEstimator, X: Any) -> Any:
    """A Dask array for features that are lazy; everything else, and raw columns, as they are."""
    check_is_fitted(estimator)
    if takes_raw(estimator, X):
        return X
    if is_lazy(X):
        check_names(estimator, column_names(X))
    return as_dask(X)


def check_names(estimator: StreamGPEstimator, names: Iterable[Any] | None) -> None:
    """Refuse columns that are named, but not as those that the model learned from, or in another order."""
    known, given = estimator.model_.feature_names, None if names is None else tuple(names)
    if known is None or given is None or given == known or len(given) != len(known):
        return
    place = next(place for place, pair in enumerate(zip(given, known, strict=True)) if len(set(pair)) > 1)
    raise ParameterError(
        f"the feature names should match those of the fit, in their order: feature {place} is "
        f"{given[place]!r}, but was {known[place]!r}. Reorder the columns, or give an array without names"
    )


def by_block(
    estimator: StreamGPEstimator,
    method: str,
    X: Any,
    dtype: np.dtype[Any],
    columns: int | None = None,
) -> Any:
    """Predictions of a Dask array as a Dask array: block by block, lazily, by the named method.

    Blocks have no column names, which were checked before: an estimator that knows none does not miss them.
    """
    unnamed = copy(estimator)
    unnamed._named_by_frame = False
    predict = getattr(unnamed, method)
    features = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
    if columns is None:
        return features.map_blocks(predict, dtype=dtype, drop_axis=1, meta=np.empty(0, dtype))
    chunks = (features.chunks[0], (columns,))
    return features.map_blocks(predict, dtype=dtype, chunks=chunks, meta=np.empty((0, columns), dtype))
