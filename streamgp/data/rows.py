"""A data set as rows: features and targets side by side, cut into spans of whole storage chunks."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import zarr
from zarr.abc.store import Store as ZarrStore
from zarr.storage import ZipStore

from streamgp.arrays import Array
from streamgp.data.columns import Column, DaskColumn, NumpyColumn
from streamgp.data.labels import plain_labels
from streamgp.data.lazy import column_names, is_dataset, is_lazy, variable
from streamgp.data.memory import refuse_raw_columns
from streamgp.data.missing import Absent, refuse_lost_chunks
from streamgp.data.remote import opened_place
from streamgp.data.targets import NoLabel
from streamgp.data.wrap import as_column, as_stacked_column, check_numeric, refuse_long
from streamgp.errors import ArrayNotFoundError, ParameterError, StoreError, UnsupportedDtypeError

COMPLETE = "streamgp_complete"
"""Attribute of a group: every chunk of its arrays was written, so one that is absent was lost."""

FEATURE_NAMES = "feature_names"
"""Attribute of a group: a name for each feature."""
RECIPE = "streamgp_columns"
"""Attribute of a group: how its features were made from raw columns."""

Store = Any
"""What :func:`open_rows` opens: a path or URL of a Zarr group, a group, a dataset, or a pair of arrays."""

Names = str | Sequence[str]
"""The name of one array of features, or of one array for each column."""


class Span(NamedTuple):
    """A stretch of rows that one task reads: whole storage chunks."""

    number: int
    start: int
    stop: int

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.stop - self.start


@dataclass(frozen=True)
class Rows:
    """Features, and targets where there are any, of ``n_rows`` rows.

    Made by :func:`open_rows`, which has checked shapes and types. ``span_rows`` is a whole multiple of the
    storage chunk; it follows from the store and the plan, never from the number of workers.
    """

    features: Column
    targets: Column | None
    span_rows: int
    written_completely: bool = False
    allow_missing_chunks: bool = False
    feature_names: tuple[str, ...] | None = None
    column_recipe: Mapping[str, Any] | None = None  # how features were made from raw columns

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.features.shape[0]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.features.shape[1]

    @property
    def n_spans(self) -> int:
        """Number of spans."""
        return -(-self.n_rows // self.span_rows)

    def spans(self) -> Iterator[Span]:
        """All spans in the order of rows."""
        for number in range(self.n_spans):
            start = number * self.span_rows
            yield Span(number, start, min(start + self.span_rows, self.n_rows))

    def pieces(self, span: Span) -> tuple[Any, Any]:
        """What a task is given to load features and targets (None where there are none)."""
        features = self.features.piece(span.start, span.stop)
        return features, None if self.targets is None else self.targets.piece(span.start, span.stop)

    def feature_bytes(self) -> int:
        """Bytes of one row's features as they are stored, decoded."""
        return self.n_features * self.features.dtype.itemsize

    def row_bytes(self) -> int:
        """Bytes of one row as it is stored, decoded."""
        string_bytes = 32  # short variable-length strings, while they are decoded
        targets = 0
        if self.targets is not None:
            targets = string_bytes if self.targets.dtype.kind == "T" else self.targets.dtype.itemsize
        return self.feature_bytes() + targets

    def chunk_bytes(self) -> int:
        """Bytes of one storage chunk of the features, decoded; of targets where they have larger ones.

        A chunk that is longer than its array is stored, and decoded, in full.
        """
        own = self.features.chunk_bytes
        if self.targets is None:
            return own
        beside = min(self.features.chunk_rows, self.n_rows) * self.targets.dtype.itemsize
        return own + max(0, self.targets.chunk_bytes - beside)

    def cut(self, span_rows: int) -> Rows:
        """The same rows in spans of at least ``span_rows`` rows, rounded down to whole storage chunks."""
        chunk = self.features.chunk_rows
        whole = max(1, span_rows // chunk) * chunk
        targets = None if self.targets is None else self.targets.cut(whole)
        return replace(self, features=self.features.cut(whole), targets=targets, span_rows=whole)

    def check_chunks(self) -> tuple[Absent, Absent | None]:
        """Refuse chunks that were lost for certain; those of features and targets that are absent.

        See :mod:`streamgp.data.missing`.
        """
        features = self.features.absent_chunks()
        targets = None if self.targets is None else self.targets.absent_chunks()
        refuse_lost_chunks(
            features,
            targets,
            self.n_rows,
            written_completely=self.written_completely,
            allowed=self.allow_missing_chunks,
        )
        return features, targets


def open_rows(
    store: Store,
    x: Names = "X",
    y: str | None = "y",
    *,
    allow_missing_chunks: bool = False,
    no_label: NoLabel | None = None,
) -> Rows:
    """Open a data set and check its form; nothing is read yet.

    ``store`` is a path (a folder or a zip file) or URL of a Zarr group of format 2 or 3, a ``zarr.Group`` or
    a Zarr ``Store``, an ``xarray.Dataset``, or a pair of arrays (NumPy, Zarr, Dask, xarray, data frames).
    ``x`` names one array of two axes, or a list of arrays of one column each. ``y=None`` opens features
    alone: of a pair the first, and a single array is accepted too. ``allow_missing_chunks`` reads every
    chunk that is not stored as the fill value. ``no_label`` says how it shows that a row has none.
    """
    written_completely = False
    names, recipe = None, None
    targets: Any = None
    name = x if isinstance(x, str) else _joined(x)
    if isinstance(store, tuple | list) and len(store) == 2:
        refuse_raw_columns(store[0])
        features, targets = as_column(store[0], name), None if y is None else store[1]
        names = column_names(store[0])
    elif isinstance(store, str | os.PathLike | zarr.Group | ZarrStore) or is_dataset(store):
        group = store if is_dataset(store) else _open_group(store)
        written_completely = bool(group.attrs.get(COMPLETE, False))
        if isinstance(x, str):
            features = as_column(_member(group, x), x)
            names, recipe = group.attrs.get(FEATURE_NAMES), group.attrs.get(RECIPE)
            names = column_names(group[x]) if names is None and is_dataset(group) else names
        else:
            features, names = as_stacked_column([_member(group, each) for each in x], list(x)), x
        targets = None if y is None else _member(group, y)
    elif y is None and (hasattr(store, "shape") or is_lazy(store)):
        features, names = as_column(store, name), column_names(store)
    else:
        raise StoreError(
            f"cannot read rows from {type(store).__name__}: give a path or URL of a Zarr group, a "
            f"zarr.Group, an xarray.Dataset, or a pair of arrays (X, y)"
        )
    column = None if y is None else _target_column(targets, y, no_label)
    _check(features, column)
    return Rows(
        features,
        column,
        features.chunk_rows,
        written_completely,
        allow_missing_chunks,
        _checked_names(names, features),
        recipe,
    )


def _joined(names: Any) -> str:
    """Names of arrays of one column each, for messages."""
    if isinstance(names, list | tuple) and names and all(isinstance(name, str) for name in names):
        return ", ".join(names)
    raise ParameterError(f"x must be the name of an array, or a list of names of one or more, not {names!r}")


def _target_column(targets: Any, name: str, no_label: NoLabel | None) -> Column:
    """Targets; labels that are Python objects become numbers or strings."""
    if np.ma.is_masked(targets):
        targets = plain_labels(targets, name, no_label)
    column = as_column(targets, name)
    if isinstance(column, NumpyColumn):
        return NumpyColumn(plain_labels(column.array, name, no_label), name)
    if isinstance(column, DaskColumn) and column.dtype.kind not in "iufbUST":
        return DaskColumn(column.array.astype(np.dtypes.StringDType()), name)
    return column


def _open_group(store: Any) -> zarr.Group:
    if isinstance(store, zarr.Group):
        return store
    try:
        if isinstance(store, ZarrStore):
            return zarr.open_group(store, mode="r")
        path = os.fspath(store)
        zipped = "://" not in path and os.path.isfile(path) and zipfile.is_zipfile(path)
        place = ZipStore(path, mode="r") if zipped else opened_place(path, read_only=True)
        return zarr.open_group(place, mode="r")
    except (FileNotFoundError, KeyError, ValueError) as error:
        place = repr(store if isinstance(store, ZarrStore) else os.fspath(store))
        raise StoreError(
            f"there is no Zarr group at {place} ({error}); give the folder or URL of a group that holds the "
            f"features and the targets as two arrays. A table (Parquet, CSV, ...) becomes one by "
            f"streamgp.ingest({place}, 'new.zarr', target='...'), or by the command streamgp ingest"
        ) from error


def _checked_names(names: Any, features: Column) -> tuple[str, ...] | None:
    """Names of features where they are strings, one for each."""
    known = () if names is None else tuple(names)
    return known if len(known) == features.shape[1] and all(isinstance(name, str) for name in known) else None


def _member(group: Any, name: str) -> Any:
    if is_dataset(group):
        return variable(group, name)
    try:
        member = group.get(name)
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f"the metadata of array {name!r} cannot be read ({type(error).__name__}: {error}): restore its "
            f"zarr.json (or .zarray)"
        ) from error
    if isinstance(member, zarr.Array):
        return member
    there = ", ".join(sorted(repr(key) for key in group.array_keys())) or "none"
    raise ArrayNotFoundError(
        f"no array {name!r} in the store; arrays there: {there}. Name them by x= and y=."
    )


def _check(features: Column, targets: Column | None) -> None:
    check_numeric(features)
    if len(features.shape) != 2:
        raise StoreError(
            f"array {features.name!r} has shape {features.shape}; features need two axes: rows and features"
        )
    if 0 in features.shape:
        raise StoreError(
            f"array {features.name!r} is empty (shape {features.shape}): one row and one feature are needed"
        )
    if targets is None:
        return
    if len(targets.shape) != 1:
        one = "take" if targets.shape[1:] == (1,) else "choose one column, such as"
        raise StoreError(
            f"array {targets.name!r} has shape {targets.shape}; targets need one axis, rows: {one} "
            f"{targets.name}[:, 0]"
        )
    if targets.dtype.kind not in "iufbUST":
        raise UnsupportedDtypeError(
            f"array {targets.name!r} has dtype {targets.dtype}; targets must be integers, booleans, strings "
            f"or real floating-point numbers"
        )
    refuse_long(targets)
    if targets.shape[0] != features.shape[0]:
        raise StoreError(
            f"{features.name!r} has {features.shape[0]} rows, but {targets.name!r} has {targets.shape[0]}"
        )


__all__ = ["COMPLETE", "Array", "Rows", "Span", "open_rows"]
