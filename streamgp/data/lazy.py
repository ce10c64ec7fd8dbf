"""Arrays of other libraries that need not be in memory: xarray, Dask data frames."""

from __future__ import annotations

import sys
from typing import Any

import dask.array
import numpy as np
import zarr
from dask.base import is_dask_collection

from streamgp.errors import ArrayNotFoundError

_BLOCK_BYTES = 4 * 2**20
"""Bytes of a block where the source does not say how its chunks lie."""


def is_lazy(array: Any) -> bool:
    """Whether values lie on disk or are still to be computed: such an array is streamed, never converted."""
    if isinstance(array, zarr.Array) or is_dask_collection(array):
        return True
    return _is_xarray(array, "DataArray") and not isinstance(array.variable._data, np.ndarray)


def is_dataset(store: Any) -> bool:
    """Whether it is an ``xarray.Dataset``."""
    return _is_xarray(store, "Dataset")


def variable(dataset: Any, name: str) -> Any:
    """A variable of a dataset, or an error that lists those there."""
    if name not in dataset.variables:
        there = ", ".join(sorted(repr(key) for key in dataset.data_vars)) or "none"
        raise ArrayNotFoundError(
            f"no variable {name!r} in the dataset; those there: {there}. Name them by x= and y=."
        )
    return dataset[name]


def column_names(array: Any) -> Any:
    """Names of the columns of a data frame, or labels of the second axis of an xarray; else None."""
    if _is_xarray(array, "DataArray"):
        labels = array.coords.get(array.dims[-1]) if array.ndim == 2 else None
        return None if labels is None else labels.values.tolist()
    return getattr(array, "columns", None)


def as_dask(array: Any) -> Any:
    """A Dask array for what is lazy and not Zarr's; everything else as it is.

    The partitions of a data frame are counted, which reads it once, one at a time.
    """
    if _is_xarray(array, "DataArray"):
        if isinstance(array.variable._data, np.ndarray):
            return array.values
        lazily = array if is_dask_collection(array) else array.chunk({array.dims[0]: _block_rows(array)})
        return lazily.data
    if is_dask_collection(array) and hasattr(array, "to_dask_array"):
        return array.to_dask_array(lengths=True)
    return array


def stacked(columns: list[Any]) -> Any:
    """Columns side by side, as a Dask array."""
    return dask.array.stack([dask.array.asarray(column) for column in columns], axis=1)


def _block_rows(array: Any) -> int:
    chunks = array.encoding.get("chunks") or array.encoding.get("preferred_chunks")
    if isinstance(chunks, tuple) and chunks:
        return int(chunks[0])
    row_bytes = max(1, int(array.dtype.itemsize * np.prod(array.shape[1:])))
    return max(1, _BLOCK_BYTES // row_bytes)


def _is_xarray(value: Any, kind: str) -> bool:
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(value, getattr(xarray, kind))
