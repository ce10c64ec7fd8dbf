"""Sources of raw columns behind one small interface: a schema, a number of rows, and a way to read pieces."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from streamgp.arrays import Array
from streamgp.errors import TableError
from streamgp.tables.formats import SUFFIXES, files_below, is_frame, is_zarr, suffix_of

Pieces = Callable[[list[str], int, int], Iterator[pa.Table]]
"""(columns, rows, start) ↦ pieces of about so many rows, in order, from row ``start`` on."""
Columns = dict[str, pa.Array]
"""The columns of a batch of rows, by name."""


@dataclass(frozen=True)
class Source:
    """A table that can be read any number of times, always in the same order."""

    label: str
    schema: pa.Schema
    n_rows: int
    pieces: Pieces
    files: tuple[Path, ...] | None = None
    """The files or folders that hold it, so that a later process knows them again; None: it is in memory."""

    def batches(self, columns: Sequence[str], rows: int, start: int = 0) -> Iterator[tuple[int, Columns]]:
        """Batches of exactly ``rows`` rows (the last has the rest), each with the number of its first row.

        So what is computed from batches does not depend on how the source is cut. ``start`` is the first row.
        """
        held, waiting = 0, list[pa.Table]()
        for piece in self._read(list(columns), rows, start):
            waiting.append(piece.select(list(columns)))
            held += len(piece)
            while held >= rows:
                joined = pa.concat_tables(waiting)
                yield start, contiguous(joined.slice(0, rows))
                start, held, waiting = start + rows, held - rows, [joined.slice(rows)]
        if held:
            yield start, contiguous(pa.concat_tables(waiting))

    def _read(self, columns: list[str], rows: int, start: int) -> Iterator[pa.Table]:
        try:
            yield from self.pieces(columns, rows, start)
        except (pa.ArrowException, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise TableError(f"{self.label} cannot be read to its end: {error}") from error


def after(pieces: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Pieces without their first ``rows`` rows: for what can be read from its start only."""
    for piece in pieces:
        if rows < len(piece):
            yield piece.slice(rows)
        rows = max(0, rows - len(piece))


def contiguous(table: pa.Table) -> Columns:
    """Every column as one array."""
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        unified = column.unify_dictionaries() if pa.types.is_dictionary(column.type) else column
        joined = unified.combine_chunks()
        columns[name] = joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined
    return columns


def open_source(sources: Any) -> Source:
    """The table that a path, a data frame, a mapping of arrays, or a list of paths or frames holds."""
    parts = list(sources) if isinstance(sources, list | tuple) else [sources]
    opened = [source for part in parts for source in _open(part)]
    if not opened:
        raise TableError("there is no source: give a path, a data frame, or a list of them")
    source = opened[0] if len(opened) == 1 else concatenated(opened)
    doubled = [name for name, number in Counter(source.schema.names).items() if number > 1]
    if doubled:
        raise TableError(f"{source.label} has columns of the same name: {', '.join(map(repr, doubled))}")
    return source


def _open(part: Any) -> list[Source]:
    # Only here: these modules build on this one.
    from streamgp.tables import files, frames

    if isinstance(part, Mapping):
        return [frames.arrow_table(pa.table(dict(part)))]
    if is_frame(part):
        return [frames.open_frame(part)]
    if not isinstance(part, str | os.PathLike):
        raise TableError(
            f"cannot read columns from {type(part).__name__}: give a path, a data frame of pandas, polars or "
            f"Dask, a pyarrow table, or a mapping of arrays"
        )
    path = Path(part)
    if path.is_dir() and is_zarr(path):
        return [files.open_zarr(path)]
    if path.is_dir():
        return _folder(path)
    suffix = suffix_of(path)
    if suffix is None:
        raise TableError(f"{str(path)!r} has no known ending; known are {', '.join(SUFFIXES)}")
    if not path.exists():
        raise TableError(f"there is no file {str(path)!r}")
    return [files.open_file(path, suffix)]


def _folder(folder: Path) -> list[Source]:
    """The files of a folder; what their folders are called (``month=3``) is a column."""
    from streamgp.tables import files

    found = files_below(folder)
    if not found:
        raise TableError(
            f"the folder {str(folder)!r} holds no file with a known ending: {', '.join(SUFFIXES)}"
        )
    keys = [dict(_key(part) for part in path.relative_to(folder).parts[:-1] if "=" in part) for path in found]
    if any(list(key) != list(keys[0]) for key in keys):
        raise TableError(
            f"the files in {str(folder)!r} are not all in folders of the same keys ({keys[0]}, ...)"
        )
    numeric = {name for name in keys[0] if all(key[name].lstrip("-").isdigit() for key in keys)}
    opened = []
    for path, key in zip(found, keys, strict=True):
        values = {name: int(value) if name in numeric else value for name, value in key.items()}
        opened.append(with_constants(files.open_file(path, suffix_of(path) or ""), values))
    return opened


def _key(part: str) -> tuple[str, str]:
    name, _, value = part.partition("=")
    return name, value


def with_constants(source: Source, values: Mapping[str, int | str]) -> Source:
    """A source with more columns, the same value in every row."""
    if not values:
        return source
    schema = source.schema
    for name, value in values.items():
        schema = schema.append(pa.field(name, pa.scalar(value).type))

    def pieces(columns: list[str], rows: int, start: int) -> Iterator[pa.Table]:
        stored = [name for name in columns if name not in values]
        for piece in source.pieces(stored or source.schema.names[:1], rows, start):
            whole = piece
            for name in columns:
                if name in values:
                    whole = whole.append_column(name, pa.repeat(pa.scalar(values[name]), len(piece)))
            yield whole.select(columns)

    return Source(source.label, schema, source.n_rows, pieces, source.files)


def concatenated(sources: list[Source]) -> Source:
    """One source after the other; columns that all have, in types that hold the values of all."""
    names = sources[0].schema.names
    for source in sources:
        if set(source.schema.names) != set(names):
            odd = sorted(set(source.schema.names) ^ set(names))
            raise TableError(
                f"{source.label} and {sources[0].label} have not the same columns: "
                f"{', '.join(map(repr, odd))} only in one of them"
            )
    types = {name: _common_type(name, sources) for name in names}

    def pieces(columns: list[str], rows: int, start: int) -> Iterator[pa.Table]:
        schema = pa.schema([(name, types[name]) for name in columns])
        for source in sources:
            if start < source.n_rows:
                for piece in source.pieces(columns, rows, start):
                    yield piece.select(columns).cast(schema, safe=False)
            start = max(0, start - source.n_rows)

    label = f"{sources[0].label} and {len(sources) - 1} more"
    n_rows = sum(source.n_rows for source in sources)
    known = [source.files for source in sources]
    files = None if None in known else tuple(chain.from_iterable(filter(None, known)))
    return Source(label, pa.schema(list(types.items())), n_rows, pieces, files)


def _common_type(name: str, sources: list[Source]) -> pa.DataType:
    types = list(dict.fromkeys(source.schema.field(name).type for source in sources))
    known = [type_ for type_ in types if not pa.types.is_null(type_)] or types
    if len(known) == 1:
        return known[0]
    if all(is_text(type_) for type_ in known):
        return pa.string()
    try:
        unified = pa.unify_schemas(
            [pa.schema([(name, type_)]) for type_ in known], promote_options="permissive"
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        shown = " and ".join(map(str, known))
        raise TableError(f"column {name!r} is of different types in the sources: {shown}") from error
    return unified.field(name).type


def is_text(type_: pa.DataType) -> bool:
    """Whether values are strings, directly or by a dictionary."""
    if pa.types.is_dictionary(type_):
        return is_text(type_.value_type)
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_(type_) for is_ in kinds)


def table_of(arrays: Mapping[str, Array]) -> pa.Table:
    """NumPy arrays as columns; one of two axes is several columns: ``X`` gives ``X0``, ``X1``, ..."""
    columns: dict[str, Any] = {}
    for name, array in arrays.items():
        if array.ndim == 1:
            columns[name] = as_arrow(name, array)
        else:
            columns |= {f"{name}{place}": as_arrow(name, array[:, place]) for place in range(array.shape[1])}
    return pa.table(columns)


def as_arrow(name: str, array: Array) -> pa.Array:
    """A NumPy array of one axis as an Arrow array."""
    try:
        return pa.array(array.astype(object) if array.dtype.kind == "T" else array, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise TableError(f"column {name!r} of type {array.dtype} cannot be read: {error}") from error
