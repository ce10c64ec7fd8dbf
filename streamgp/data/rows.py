"""A data set as rows: features and targets side by side, cut into spans of whole storage chunks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import zarr

from streamgp.arrays import Array
from streamgp.data.columns import Column, as_column, check_numeric
from streamgp.errors import ArrayNotFoundError, ChunkReadError, StoreError, UnsupportedDtypeError

COMPLETE = "streamgp_complete"
"""Attribute of a group: every chunk of its arrays was written, so one that is absent was lost."""

FEATURE_NAMES = "feature_names"
"""Attribute of a group: a name for each feature."""
RECIPE = "streamgp_columns"
"""Attribute of a group: how its features were made from raw columns."""

Store = Any
"""A path or URL of a Zarr group, a ``zarr.Group``, or a pair of arrays (NumPy, Zarr, Dask)."""


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
        """Bytes of one storage chunk of the features, decoded."""
        return min(self.features.chunk_rows, self.n_rows) * self.feature_bytes()

    def cut(self, span_rows: int) -> Rows:
        """The same rows in spans of at least ``span_rows`` rows, rounded down to whole storage chunks."""
        chunk = self.features.chunk_rows
        whole = max(1, span_rows // chunk) * chunk
        targets = None if self.targets is None else self.targets.cut(whole)
        return replace(self, features=self.features.cut(whole), targets=targets, span_rows=whole)

    def absent_chunks(self) -> dict[str, int]:
        """Number of chunks that are not in the store, by array; refuses those that had been written.

        A chunk of nothing but fill value is normally not stored, and a lost chunk reads the same way: without
        the mark :data:`COMPLETE` the two cannot be told apart, so they are counted and reported.
        """
        columns = [self.features] if self.targets is None else [self.features, self.targets]
        absent = {column.name: column.absent_chunks() for column in columns}
        if self.written_completely and any(absent.values()):
            lost = ", ".join(f"{count} of {name!r}" for name, count in absent.items() if count)
            raise ChunkReadError(f"the store was written completely, but chunks are missing now: {lost}")
        return absent


def open_rows(store: Store, x: str = "X", y: str | None = "y") -> Rows:
    """Open a data set and check its form; nothing is read yet.

    ``store`` is a path or URL of a Zarr group (format 2 or 3), a ``zarr.Group``, or a pair of arrays (NumPy,
    Zarr, Dask). ``y=None`` opens features alone: then a single array is accepted too.
    """
    written_completely = False
    names, recipe = None, None
    targets: Column | None
    if isinstance(store, tuple | list) and len(store) == 2 and y is not None:
        features, targets = as_column(store[0], x), as_column(store[1], y)
        names = getattr(store[0], "columns", None)
    elif isinstance(store, str | os.PathLike | zarr.Group):
        group = _open_group(store)
        written_completely = bool(group.attrs.get(COMPLETE, False))
        names, recipe = group.attrs.get(FEATURE_NAMES), group.attrs.get(RECIPE)
        features = as_column(_member(group, x), x)
        targets = None if y is None else as_column(_member(group, y), y)
    elif y is None and hasattr(store, "shape"):
        features, targets = as_column(store, x), None
    else:
        raise StoreError(
            f"cannot read rows from {type(store).__name__}: give a path or URL of a Zarr group, a "
            f"zarr.Group, or a pair of arrays (X, y)"
        )
    _check(features, targets)
    names = _checked_names(names, features)
    return Rows(features, targets, features.chunk_rows, written_completely, names, recipe)


def _open_group(store: str | os.PathLike[str] | zarr.Group) -> zarr.Group:
    if isinstance(store, zarr.Group):
        return store
    path = os.fspath(store)
    try:
        return zarr.open_group(path, mode="r")
    except (FileNotFoundError, KeyError, ValueError, OSError) as error:
        raise StoreError(
            f"there is no Zarr group at {path!r} ({error}); give the folder or URL of a group that holds the "
            f"features and the targets as two arrays. A table (Parquet, CSV, ...) becomes one by "
            f"streamgp.ingest({path!r}, 'new.zarr', target='...'), or by the command streamgp ingest"
        ) from error


def _checked_names(names: Any, features: Column) -> tuple[str, ...] | None:
    """Names of features where they are strings, one for each."""
    known = () if names is None else tuple(names)
    return known if len(known) == features.shape[1] and all(isinstance(name, str) for name in known) else None


def _member(group: zarr.Group, name: str) -> zarr.Array:
    member = group.get(name)
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
            f"array {features.name!r} is empty (shape {features.shape}): there are no rows to learn"
        )
    if targets is None:
        return
    if len(targets.shape) != 1:
        raise StoreError(f"array {targets.name!r} has shape {targets.shape}; targets need one axis: rows")
    if targets.dtype.kind not in "iufbUST":
        raise UnsupportedDtypeError(
            f"array {targets.name!r} has dtype {targets.dtype}; targets must be integers, booleans, strings "
            f"or real floating-point numbers"
        )
    if targets.shape[0] != features.shape[0]:
        raise StoreError(
            f"{features.name!r} has {features.shape[0]} rows, but {targets.name!r} has {targets.shape[0]}"
        )


__all__ = ["COMPLETE", "Array", "Rows", "Span", "open_rows"]
