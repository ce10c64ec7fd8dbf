"""Predictions as a table: Parquet or CSV, written piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from streamgp.arrays import Array
from streamgp.errors import ParameterError

TABLES = (".parquet", ".csv")
"""Endings of the tables that can be written."""

Write = Callable[[dict[str, Any]], None]


def write_table(predictions: Path, out: Path, classes: Sequence[Any] | None) -> int:
    """Write a group of predictions as a table of one row each; returns the number of rows.

    Of ``classes``: ``label``, and ``p_<class>`` for each. Of real targets (None): ``mean`` and
    ``standard_deviation``. The table appears under its name when it is complete.
    """
    group = zarr.open_group(predictions, mode="r")
    first: Any = group["mean" if classes is None else "label"]
    n_rows, size = int(first.shape[0]), int(first.chunks[0])
    unfinished = out.with_name(f".{out.name}.unfinished")
    try:
        with _writer(unfinished, out.suffix) as write:
            for start in range(0, n_rows, size):
                here = slice(start, start + size)
                write(_real(group, here) if classes is None else _classes(group, here, classes))
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)
    return n_rows


def _classes(group: Any, here: slice, classes: Sequence[Any]) -> dict[str, Any]:
    """Names of the labels, none for rows that could not be predicted (label -1), and probabilities."""
    import pyarrow as pa

    places, probability = group["label"][here], group["probability"][here]
    labels = pa.array(np.asarray(classes)[places], mask=places < 0)
    return {"label": labels} | {f"p_{name}": probability[:, place] for place, name in enumerate(classes)}


def _real(group: Any, here: slice) -> dict[str, Array]:
    return {"mean": group["mean"][here], "standard_deviation": np.sqrt(group["variance"][here])}


@contextmanager
def _writer(path: Path, kind: str) -> Iterator[Write]:
    """Writes columns as they come; the first ones decide about names and types."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    if kind not in TABLES:
        raise ParameterError(f"{path.name!r}: predictions are written to .parquet, .csv or .zarr")
    opened: list[Any] = []

    def write(columns: dict[str, Any]) -> None:
        batch = pa.table(columns)
        if not opened:
            make = parquet.ParquetWriter if kind == ".parquet" else csv.CSVWriter
            opened.append(make(path, batch.schema))
        opened[0].write_table(batch)

    try:
        yield write
    finally:
        for writer in opened:
            writer.close()
