"""Data frames in memory, or of Dask, as sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from streamgp.errors import TableError
from streamgp.tables.sources import Source, after


def open_frame(frame: Any) -> Source:
    """A data frame of pandas, polars or Dask, or a table of pyarrow."""
    if isinstance(frame, pa.Table):
        return arrow_table(frame)
    if isinstance(frame, pa.RecordBatch):
        return arrow_table(pa.Table.from_batches([frame]))
    top = type(frame).__module__.partition(".")[0]
    if top == "pandas":
        return _pandas(frame)
    if top == "polars":
        return _polars(frame)
    if top in ("dask", "dask_expr"):
        return _dask(frame)
    raise TableError(f"cannot read columns from {type(frame).__name__}; give a table of pyarrow or its path")


def arrow_table(table: pa.Table) -> Source:
    """A table of pyarrow."""

    def pieces(columns: list[str], rows: int, start: int) -> Iterator[pa.Table]:
        for first in range(start, len(table), rows):
            yield table.select(columns).slice(first, rows)

    return Source("the table", table.schema, len(table), pieces)


def _pandas(frame: Any) -> Source:
    _check_names(frame.columns)

    def pieces(columns: list[str], rows: int, start: int) -> Iterator[pa.Table]:
        for first in range(start, len(frame), rows):
            yield _from_pandas(frame[columns].iloc[first : first + rows], schema)

    schema: pa.Schema | None = None
    # All rows are looked at once, column by column: a column of objects tells its type only then.
    schema = pa.schema([(name, _column_type(frame, name)) for name in frame.columns])
    return Source("the data frame", schema, len(frame), pieces)


def _column_type(frame: Any, name: str) -> pa.DataType:
    column = frame[[name]]
    looked_at = column if column.dtypes.iloc[0].kind == "O" else column.iloc[:1]
    return _from_pandas(looked_at, None).schema.field(name).type


def _from_pandas(frame: Any, schema: pa.Schema | None) -> pa.Table:
    chosen = None if schema is None else pa.schema([schema.field(name) for name in frame.columns])
    try:
        return pa.Table.from_pandas(frame, schema=chosen, preserve_index=False).replace_schema_metadata()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise TableError(
            f"a column of the data frame cannot be read ({'; '.join(map(str, error.args))}): "
            f"make all of its values strings or numbers, or drop it"
        ) from error


def _polars(frame: Any) -> Source:
    if not hasattr(frame, "slice") or not hasattr(frame, "to_arrow"):
        raise TableError(f"cannot read columns from polars.{type(frame).__name__}; call .collect() first")

    def pieces(columns: list[str], rows: int, start: int) -> Iterator[pa.Table]:
        for first in range(start, len(frame), rows):
            yield frame.slice(first, rows).select(columns).to_arrow()

    return Source("the data frame", frame.slice(0, 0).to_arrow().schema, len(frame), pieces)


def _dask(frame: Any) -> Source:
    """Partitions are computed one after the other, anew in every reading."""
    _check_names(frame.columns)
    lengths = [int(length) for length in frame.map_partitions(len).compute()]
    first = next((number for number, length in enumerate(lengths) if length), None)
    if first is None:
        raise TableError("the data frame has no rows")
    schema = _from_pandas(frame.partitions[first].compute(), None).schema

    def pieces(columns: list[str], rows: int, start: int) -> Iterator[pa.Table]:
        every = (
            _from_pandas(frame[columns].partitions[number].compute(), schema)
            for number in range(frame.npartitions)
        )
        yield from after(every, start)

    return Source("the data frame", schema, sum(lengths), pieces)


def _check_names(names: Any) -> None:
    odd = [name for name in names if not isinstance(name, str)]
    if odd:
        raise TableError(f"the data frame has a column {odd[0]!r}, but names of columns must be strings")
