"""From what a user gives to a :class:`~streamgp.data.columns.Column`, or an error that says what it is."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import dask.array
import numpy as np
import zarr

from streamgp.data.columns import Column, DaskColumn, NumpyColumn, StackedColumn, ZarrColumn
from streamgp.data.lazy import as_dask, stacked
from streamgp.data.memory import refuse_unreadable
from streamgp.errors import DataWarning, StoreError, UnsupportedDtypeError


def as_column(array: Any, name: str) -> Column:
    """Wrap a Zarr, Dask or NumPy array (or what becomes one of these)."""
    refuse_unreadable(array, name)
    array = as_dask(array)
    if isinstance(array, zarr.Array):
        column: Column = ZarrColumn(array, name)
        split = len(array.shape) > 1 and array.chunks[1] < array.shape[1]
    elif isinstance(array, dask.array.Array):
        if any(np.isnan(size) for sizes in array.chunks for size in sizes):
            raise StoreError(
                f"Dask array {name!r} has chunks of unknown size; call {name}.compute_chunk_sizes() first"
            )
        column = DaskColumn(array, name)
        split = array.ndim > 1 and len(array.chunks[1]) > 1
    else:
        column, split = NumpyColumn(np.asarray(array), name), False
    if split:
        warnings.warn(
            f"the feature axis of {name!r} is split over chunks, so every row comes from several reads; "
            f"store it with chunks=({column.chunk_rows}, {column.shape[1]}), "
            f"or pass dask.array.from_zarr(...).rechunk(({column.chunk_rows}, -1))",
            DataWarning,
            stacklevel=3,
        )
    return column


def as_stacked_column(arrays: Sequence[Any], names: Sequence[str]) -> Column:
    """Wrap arrays of one axis, one for each column."""
    name = ", ".join(names)
    for each, array in zip(names, arrays, strict=True):
        if len(array.shape) != 1 or array.shape != arrays[0].shape:
            raise StoreError(
                f"array {each!r} has shape {array.shape}; arrays that are named one by one need one axis, "
                f"all of the same length ({names[0]!r} has shape {arrays[0].shape})"
            )
    if all(isinstance(array, zarr.Array) for array in arrays):
        columns = tuple(ZarrColumn(array, each) for each, array in zip(names, arrays, strict=True))
        for column in columns:
            check_numeric(column)
        return StackedColumn(columns, name)
    return as_column(stacked([as_dask(array) for array in arrays]), name)


def check_numeric(column: Column) -> None:
    """Refuse features that are not real numbers."""
    if column.dtype.kind not in "iufb":
        raise UnsupportedDtypeError(
            f"array {column.name!r} has dtype {column.dtype}; features must be integers, booleans or real "
            f"floating-point numbers: encode or convert them first"
        )
    refuse_long(column)


def refuse_long(column: Column) -> None:
    """Refuse numbers of more than 64 bits, which nothing here computes with."""
    if column.dtype.kind == "f" and column.dtype.itemsize > 8:
        raise UnsupportedDtypeError(
            f"array {column.name!r} has dtype {column.dtype}, more than is computed with: convert it by "
            f"astype('float64')"
        )
