"""Predictions for every row, written to a Zarr group."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from streamgp.arrays import Array
from streamgp.data import Rows, Span
from streamgp.data.rows import COMPLETE
from streamgp.errors import StoreError
from streamgp.passes.block import Block, Visitor
from streamgp.posterior import Marginals

Predictions = Mapping[str, Array]
Columns = Mapping[str, tuple[tuple[int, ...], Any]]
"""Names of output arrays, with their further axes and their type."""


@dataclass(frozen=True, eq=False)
class PredictionWriter(Visitor[list[Predictions]]):
    """Writes what ``predict`` makes of the marginals; a span is one chunk of the output, written whole."""

    predict: Callable[[Marginals], Predictions]
    arrays: Mapping[str, zarr.Array]

    @property
    def needs_variance(self) -> bool:
        """Yes: predictions come with their uncertainty."""
        return True

    def visit(self, block: Block) -> list[Predictions]:
        """Predictions of one block, kept until the span is complete."""
        assert block.marginals is not None
        return [self.predict(block.marginals)]

    def merge(self, earlier: list[Predictions], later: list[Predictions]) -> list[Predictions]:
        """Predictions of both, in order."""
        return earlier + later

    def finish(self, span: Span, total: list[Predictions]) -> list[Predictions]:
        """Write the span; nothing is left to return."""
        for name, array in self.arrays.items():
            array[span.start : span.stop] = np.concatenate([block[name] for block in total])
        return []


@contextmanager
def output_group(
    out: str | os.PathLike[str] | zarr.Group,
    rows: Rows,
    columns: Columns,
    attributes: Mapping[str, Any] | None = None,
) -> Iterator[dict[str, zarr.Array]]:
    """Arrays for predictions of ``rows``, by name, in a group with these attributes.

    A local folder appears only when all is written: until then the arrays lie beside it under another name.
    Elsewhere the mark of completeness is set last.
    """
    target = None if isinstance(out, zarr.Group) or "://" in os.fspath(out) else Path(os.fspath(out))
    if target is None:
        group = out if isinstance(out, zarr.Group) else zarr.open_group(os.fspath(out), mode="w-")
        group.attrs.update(attributes or {})
        yield _create(group, rows, columns)
        group.attrs[COMPLETE] = True
        return
    if target.exists():
        raise StoreError(f"{str(target)!r} exists already; predictions are written to a new folder only")
    unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.unfinished")
    try:
        group = zarr.open_group(unfinished, mode="w-")
        group.attrs.update(attributes or {})
        yield _create(group, rows, columns)
        group.attrs[COMPLETE] = True
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _create(group: zarr.Group, rows: Rows, columns: Columns) -> dict[str, zarr.Array]:
    return {
        name: group.create_array(
            name,
            shape=(rows.n_rows, *axes),
            chunks=(min(rows.span_rows, rows.n_rows), *axes),
            dtype=dtype,
            config={"write_empty_chunks": True},
        )
        for name, (axes, dtype) in columns.items()
    }
