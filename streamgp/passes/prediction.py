"""Predictions for every row, written to a Zarr group; a run that was killed is continued."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr
from zarr.errors import GroupNotFoundError

from streamgp.arrays import Array
from streamgp.data import Rows, Span
from streamgp.data.missing import absent_chunks
from streamgp.data.remote import opened_place
from streamgp.data.rows import COMPLETE
from streamgp.errors import StoreError
from streamgp.passes.block import Block, Visitor
from streamgp.persistence.lock import LOCK, LockedError, locked
from streamgp.posterior import Marginals

Predictions = Mapping[str, Array]
Columns = Mapping[str, tuple[tuple[int, ...], Any]]
"""Names of output arrays, with their further axes and their type."""
Written = tuple[list[Predictions], int]
"""Predictions that are not written yet, and the number of bad rows."""

IDENTITY = "streamgp_predictions"
"""Attribute of the group: which model and which rows it is being written for."""
BAD_ROWS = "streamgp_bad_rows"
"""Attribute of a complete group: rows whose predictions are NaN, because they cannot be computed with."""
NO_LABEL = -1


@dataclass(frozen=True, eq=False)
class PredictionWriter(Visitor[Written]):
    """Writes what ``predict`` makes of the marginals; a span is one chunk of the output, written whole.

    Predictions of bad rows are NaN, their labels -1.
    """

    predict: Callable[[Marginals], Predictions]
    arrays: Mapping[str, zarr.Array]

    @property
    def needs_variance(self) -> bool:
        """Yes: predictions come with their uncertainty."""
        return True

    def visit(self, block: Block) -> Written:
        """Predictions of one block, kept until the span is complete."""
        assert block.marginals is not None
        found = self.predict(block.marginals)
        bad = 0 if block.bad is None else len(block.bad)
        if bad:
            for column in found.values():
                column[block.bad] = np.nan if column.dtype.kind == "f" else NO_LABEL
        return [found], bad

    def merge(self, earlier: Written, later: Written) -> Written:
        """Predictions of both, in order."""
        return earlier[0] + later[0], earlier[1] + later[1]

    def finish(self, span: Span, total: Written) -> Written:
        """Write the span; its bad rows are left to return."""
        for name, array in self.arrays.items():
            array[span.start : span.stop] = np.concatenate([block[name] for block in total[0]])
        return [], total[1]


class Output(NamedTuple):
    """Arrays for predictions, by name; the spans that are still to be written; bad rows of the others."""

    group: zarr.Group
    arrays: dict[str, zarr.Array]
    spans: list[Span]
    bad_rows: int

    def note_bad_rows(self, count: int) -> None:
        """Leave the number of bad rows with the predictions."""
        self.group.attrs[BAD_ROWS] = count


@contextmanager
def output_group(
    out: str | os.PathLike[str] | zarr.Group, rows: Rows, columns: Columns, attributes: Mapping[str, Any]
) -> Iterator[Output]:
    """Room for predictions of ``rows`` in a group with these attributes, :data:`IDENTITY` among them.

    What a killed run of the same identity left is continued.

    A local folder appears only when all is written: until then the arrays lie beside it under another name,
    and an error removes them. Elsewhere the mark of completeness is set last.
    """
    target = None if isinstance(out, zarr.Group) or "://" in os.fspath(out) else Path(os.fspath(out))
    if target is None:
        group = out if isinstance(out, zarr.Group) else _opened(os.fspath(out))
        yield _begun(group, rows, columns, attributes)
        group.attrs[COMPLETE] = True
        return
    if target.exists():
        raise StoreError(f"{str(target)!r} exists already; predictions are written to a new folder only")
    unfinished = target.with_name(f".{target.name}.unfinished")
    try:
        unfinished.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"predictions cannot be written to {str(target)!r}: {error}") from error
    try:
        with locked(unfinished):
            try:
                yield _begun(_opened(str(unfinished), attributes[IDENTITY]), rows, columns, attributes)
            except Exception:
                shutil.rmtree(unfinished, ignore_errors=True)
                raise
            zarr.open_group(unfinished, mode="r+").attrs[COMPLETE] = True
            (unfinished / LOCK).unlink()
            unfinished.rename(target)
    except LockedError as error:
        raise StoreError(f"{str(target)!r} is being written by {error}: wait for it to end") from error


def _opened(place: str, identity: str | None = None) -> zarr.Group:
    """The group that is there, or a new one; a local one of another run is emptied."""
    store = opened_place(place, read_only=False)
    try:
        group = zarr.open_group(store, mode="r+")
    except (GroupNotFoundError, FileNotFoundError):
        return zarr.open_group(store, mode="a")
    if identity is not None and group.attrs.get(IDENTITY) != identity:
        for name in list(group.keys()):
            del group[name]
        group.attrs.clear()
    elif identity is not None and COMPLETE in group.attrs:
        del group.attrs[COMPLETE]  # killed before it was given its name: it is looked through again
    return group


def _begun(group: zarr.Group, rows: Rows, columns: Columns, attributes: Mapping[str, Any]) -> Output:
    """New arrays, or those of a run that was killed, with what is left to do."""
    if not any(name in group for name in columns):
        group.attrs.update(attributes)
    elif group.attrs.get(IDENTITY) != attributes[IDENTITY] or COMPLETE in group.attrs:
        raise StoreError(
            f"the group already holds {', '.join(map(repr, columns))}, of a finished run or of another "
            f"model or store: write to a new one"
        )
    arrays = {name: _array(group, name, rows, *form) for name, form in columns.items()}
    absent = {number for name, array in arrays.items() for number in absent_chunks(array, name).numbers}
    bad = {span: _bad_rows_of(arrays, span) for span in rows.spans() if span.number not in absent}
    left = [span for span in rows.spans() if bad.get(span) is None]
    return Output(group, arrays, left, sum(filter(None, bad.values())))


def _bad_rows_of(arrays: Mapping[str, zarr.Array], span: Span) -> int | None:
    """Bad rows of a span that was written; None where it cannot be read."""
    marks = [np.zeros(span.rows, bool)]
    for array in arrays.values():
        try:
            values = np.asarray(array[span.start : span.stop])
        except Exception:  # whatever is wrong with it, it is written again
            return None
        if values.dtype.kind == "f":
            marks.append(np.isnan(values.reshape(len(values), -1)).any(axis=1))
    return int(np.count_nonzero(np.any(marks, axis=0)))


def _array(group: zarr.Group, name: str, rows: Rows, axes: tuple[int, ...], dtype: Any) -> zarr.Array:
    if name in group:
        return group[name].with_config({"write_empty_chunks": True})
    return group.create_array(
        name,
        shape=(rows.n_rows, *axes),
        chunks=(min(rows.span_rows, rows.n_rows), *axes),
        dtype=dtype,
        config={"write_empty_chunks": True},
    )
