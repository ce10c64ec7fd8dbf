"""Files as sources: Parquet, CSV, Arrow, NumPy, and Zarr groups of one array per column."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq
import zarr

from streamgp.errors import TableError
from streamgp.tables.sources import Source, after, is_text, table_of

_CSV_TYPES = [pa.int64(), pa.float64(), pa.bool_(), pa.timestamp("us")]
"""Types that text is tried as, first to last; what none of them can hold stays text."""
_CSV_BLOCK = 4 << 20


def open_file(path: Path, suffix: str) -> Source:
    """The file as a source, by its ending."""
    try:
        return replace(_OPENERS[suffix](path), files=(path,))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, ValueError, EOFError) as error:
        if isinstance(error, TableError):
            raise
        raise TableError(f"{str(path)!r} cannot be read as {suffix}: {error}") from error


def _parquet(path: Path) -> Source:
    text = [field.name for field in pq.read_schema(path) if is_text(field.type)]

    def opened() -> pq.ParquetFile:
        # Without pre-buffering a row group is read page by page: it may be larger than the budget.
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20, read_dictionary=text)

    def pieces(columns: list[str], rows: int, start: int) -> Iterator[pa.Table]:
        with opened() as file:
            sizes = [file.metadata.row_group(place).num_rows for place in range(file.num_row_groups)]
            ends = np.cumsum(sizes)
            left = [place for place, end in enumerate(ends) if end > start]
            before = int(ends[left[0]] - sizes[left[0]]) if left else start
            batches = file.iter_batches(batch_size=rows, columns=columns, row_groups=left)
            yield from after((pa.Table.from_batches([batch]) for batch in batches), start - before)

    with opened() as file:
        return Source(path.name, file.schema_arrow.remove_metadata(), file.metadata.num_rows, pieces)


def _csv(path: Path) -> Source:
    delimiter = "\t" if ".tsv" in path.name.lower() else ","
    parsing = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)

    def opened(types: dict[str, pa.DataType], columns: list[str] | None) -> Any:
        options = pyarrow.csv.ConvertOptions(
            column_types=types, include_columns=columns, strings_can_be_null=True
        )
        reading = pyarrow.csv.ReadOptions(block_size=_CSV_BLOCK)
        return pyarrow.csv.open_csv(path, reading, parsing, options)

    def pieces(columns: list[str], rows: int, start: int) -> Iterator[pa.Table]:
        chosen = {name: schema.field(name).type for name in columns}
        with opened(chosen, columns) as reader:
            yield from after((pa.Table.from_batches([batch]) for batch in reader), start)

    with opened({}, None) as reader:
        names = reader.schema.names
    with opened(dict.fromkeys(names, pa.string()), None) as reader:
        schema, n_rows = _csv_types(names, reader)
    return Source(path.name, schema, n_rows, pieces)


def _csv_types(names: list[str], batches: Any) -> tuple[pa.Schema, int]:
    """The narrowest type of each column that holds the text of *all* rows; and the number of rows.

    The reader itself would look at the first block only, and stop with an error at the first other value.
    """
    possible = {name: list(_CSV_TYPES) for name in names}
    n_rows = 0
    for batch in batches:
        n_rows += len(batch)
        for name, column in zip(names, batch.columns, strict=True):
            kept = possible[name]
            # Whatever is an integer is a floating-point number too.
            while kept and not _fits(column, kept[0]):
                kept.pop(0)
            skipped = 2 if kept[:1] == [pa.int64()] else 1
            kept[skipped:] = [type_ for type_ in kept[skipped:] if _fits(column, type_)]
    return pa.schema([(name, (possible[name] or [pa.string()])[0]) for name in names]), n_rows


def _fits(text: pa.Array, type_: pa.DataType) -> bool:
    try:
        pc.cast(text, type_)
    except pa.ArrowInvalid:
        return False
    return True


def _arrow(path: Path) -> Source:
    def opened(stack: ExitStack) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        file = stack.enter_context(pa.memory_map(str(path)))
        try:
            reader = pyarrow.ipc.open_file(file)
        except pa.ArrowInvalid:
            file.seek(0)
            stream = pyarrow.ipc.open_stream(file)
            return stream.schema, iter(stream)
        return reader.schema, (reader.get_batch(number) for number in range(reader.num_record_batches))

    def pieces(columns: list[str], rows: int, start: int) -> Iterator[pa.Table]:
        with ExitStack() as stack:
            every = (pa.Table.from_batches([batch]).select(columns) for batch in opened(stack)[1])
            for table in after(every, start):  # the file is mapped: what is left out is not read
                for first in range(0, len(table), rows):
                    yield table.slice(first, rows)

    with ExitStack() as stack:
        schema, batches = opened(stack)
        return Source(path.name, schema.remove_metadata(), sum(len(batch) for batch in batches), pieces)


class _NpyReader:
    """Reads an array of an ``.npy`` file, or of a member of an ``.npz`` file, from its first row on."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        version = np.lib.format.read_magic(file)
        header = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        self.file, (self.shape, fortran, self.dtype) = file, header(file)
        if self.dtype.hasobject:
            raise TableError(f"array {name!r} holds Python objects; save it as numbers or strings")
        if len(self.shape) not in (1, 2) or (fortran and len(self.shape) == 2 and min(self.shape) > 1):
            raise TableError(
                f"array {name!r} of shape {self.shape} cannot be read row by row: it must have one or two "
                f"axes and be in C order (np.ascontiguousarray)"
            )

    def skip(self, rows: int) -> None:
        self.file.seek(self._bytes(rows), os.SEEK_CUR)

    def _bytes(self, rows: int) -> int:
        return int(np.prod((rows, *self.shape[1:]))) * self.dtype.itemsize

    def read(self, rows: int) -> np.ndarray[Any, Any]:
        shape, needed = (rows, *self.shape[1:]), self._bytes(rows)
        content = self.file.read(needed)
        if len(content) < needed:
            raise TableError(f"{getattr(self.file, 'name', 'the file')} ends before its last row")
        return np.frombuffer(content, self.dtype).reshape(shape)


def _npy(path: Path) -> Source:
    def opened(stack: ExitStack) -> dict[str, _NpyReader]:
        return {"x": _NpyReader(stack.enter_context(path.open("rb")), path.name)}

    return _numpy(path, opened)


def _npz(path: Path) -> Source:
    def opened(stack: ExitStack) -> dict[str, _NpyReader]:
        archive = stack.enter_context(zipfile.ZipFile(path))
        return {
            name.removesuffix(".npy"): _NpyReader(stack.enter_context(archive.open(name)), name)
            for name in archive.namelist()
        }

    return _numpy(path, opened)


def _numpy(path: Path, opened: Callable[[ExitStack], dict[str, _NpyReader]]) -> Source:
    def pieces(columns: list[str], rows: int, start: int) -> Iterator[pa.Table]:
        with ExitStack() as stack:
            readers = opened(stack)
            for reader in readers.values():
                reader.skip(start)
            for first in range(start, n_rows, rows):
                arrays = {name: reader.read(min(rows, n_rows - first)) for name, reader in readers.items()}
                yield table_of(_fields(arrays)).select(columns)

    with ExitStack() as stack:
        readers = opened(stack)
        lengths = {name: reader.shape[0] for name, reader in readers.items()}
        if len(set(lengths.values())) != 1:
            raise TableError(f"the arrays of {path.name} have not the same number of rows: {lengths}")
        n_rows = next(iter(lengths.values()))
        first = {name: reader.read(min(1, n_rows)) for name, reader in readers.items()}
    return Source(path.name, table_of(_fields(first)).schema, n_rows, pieces)


def _fields(arrays: dict[str, Any]) -> dict[str, Any]:
    """Fields of structured arrays are columns of their own."""
    columns: dict[str, Any] = {}
    for name, array in arrays.items():
        names = array.dtype.names
        columns |= {name: array} if names is None else {field: array[field] for field in names}
    return columns


def open_zarr(path: Path) -> Source:
    """A Zarr group of one array per column (one of two axes is several columns)."""
    group = zarr.open_group(path, mode="r")
    arrays = dict(sorted(group.arrays()))
    lengths = {name: array.shape[0] for name, array in arrays.items()}
    if len(set(lengths.values())) != 1:
        raise TableError(f"the arrays in {str(path)!r} have not the same number of rows: {lengths or 'none'}")
    n_rows = next(iter(lengths.values()))

    def pieces(columns: list[str], rows: int, start: int) -> Iterator[pa.Table]:
        needed = {name: array for name, array in arrays.items() if array.ndim > 1 or name in columns}
        step = max([rows, *(array.chunks[0] for array in needed.values())])
        for first in range(start, n_rows, step):
            here = {name: np.asarray(array[first : first + step]) for name, array in needed.items()}
            yield table_of(here).select(columns)

    head = {name: np.asarray(array[:1]) for name, array in arrays.items()}
    return Source(path.name, table_of(head).schema, n_rows, pieces, (path,))


_OPENERS = {
    **dict.fromkeys((".parquet", ".pq"), _parquet),
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz"), _csv),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), _arrow),
    ".npy": _npy,
    ".npz": _npz,
}
