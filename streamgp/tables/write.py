"""Writing the rows of all parts."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import zarr
from numpy.typing import NDArray

from streamgp.arrays import Array
from streamgp.budget import format_size
from streamgp.data.rows import COMPLETE
from streamgp.errors import BudgetError, StoreError
from streamgp.persistence.atomic import discard
from streamgp.tables.chunks import CHUNK_BYTES, rows_per_chunk
from streamgp.tables.journal import Journal
from streamgp.tables.keys import RowDraws
from streamgp.tables.reader import REMEMBERED_BATCHES
from streamgp.tables.recipe import ColumnRecipe
from streamgp.tables.shuffle import Spill
from streamgp.tables.sources import Columns
from streamgp.tables.store import CHUNKS_HELD, PartWriter

logger = logging.getLogger(__name__)

TEST = "test"
"""Name of the group with the test rows."""
_SHUFFLE_SHARE = 10  # a bucket has at most this part of the budget: it is read, sorted and cut


class Block(NamedTuple):
    """Features and targets of some rows of a part, with their keys."""

    part: str
    features: Array
    targets: Array | None
    keys: NDArray[np.uint64]


class Batch(NamedTuple):
    """The blocks of the rows ``start`` to ``stop`` of a source."""

    start: int
    stop: int
    blocks: list[Block]


Read = Callable[[int], Iterator[Batch]]
"""row ↦ the batches from the one on that has this row."""


def encode_batch(recipe: ColumnRecipe, draws: RowDraws, start: int, batch: Columns) -> Batch:
    """The rows of a batch by part, without those whose target is missing; training rows have folds.

    Where the target is not among the columns, all rows are there, without one.
    """
    stop = start + len(next(iter(batch.values())))
    values, present = None, np.ones(stop - start, bool)
    if recipe.target.column in batch:
        values, present = recipe.target.values(batch[recipe.target.column])
    keys, folds, in_test = draws.order(start, stop), draws.folds(start, stop), draws.in_test(start, stop)
    blocks = []
    for part, rows in (("", present & ~in_test), (TEST, present & in_test)):
        if rows.any():
            chosen = pa.array(rows)
            here = batch if rows.all() else {name: array.filter(chosen) for name, array in batch.items()}
            features = recipe.encode(here, None if part else folds[rows])
            blocks.append(Block(part, features, None if values is None else values[rows], keys[rows]))
    return Batch(start, stop, blocks)


@dataclass(frozen=True)
class Plan:
    """What is written: rows of each part ("" is the training part), and in which pieces."""

    recipe: ColumnRecipe
    parts: Mapping[str, int]
    chunk_rows: int
    budget: int
    shuffled_targets: np.dtype[Any] | None = None
    """Type of targets on their way through the shuffle; None: the rows stay in order."""
    with_target: bool = True

    @property
    def row_bytes(self) -> int:
        """Bytes of a row's features."""
        return len(self.recipe.feature_names) * np.dtype(self.recipe.dtype).itemsize

    @property
    def record(self) -> np.dtype[Any]:
        """A row on its way through the shuffle."""
        row = ("X", np.dtype(self.recipe.dtype), (len(self.recipe.feature_names),))
        return np.dtype([("key", np.uint64), ("y", self.shuffled_targets), row])

    def n_buckets(self, part: str) -> int:
        """Buckets of the shuffle, each small enough to be sorted in memory."""
        return 1 + self.parts[part] * self.record.itemsize // (self.budget // _SHUFFLE_SHARE)


def make_plan(
    recipe: ColumnRecipe,
    parts: Mapping[str, int],
    asked_rows: int | None,
    budget: int,
    reading_bytes: int,
    shuffled_targets: np.dtype[Any] | None = None,
    with_target: bool = True,
) -> Plan:
    """Settle the rows of a chunk; refuse where they, and what reading needs, do not fit into the budget."""
    plan = Plan(recipe, parts, 1, budget, shuffled_targets, with_target)
    n_rows, most = parts[""], min(CHUNK_BYTES, budget // 40)
    rows = min(n_rows, asked_rows or rows_per_chunk(n_rows, plan.row_bytes, most))
    needed = CHUNKS_HELD * rows * plan.row_bytes + reading_bytes
    if needed > budget:
        raise BudgetError(
            f"chunks of {rows} rows x {plan.row_bytes} bytes, and {format_size(reading_bytes)} to read them, "
            f"need about {format_size(needed)}, more than the budget of {format_size(budget)}: give a larger "
            f"memory_budget or a smaller rows_per_chunk"
        )
    return replace(plan, chunk_rows=rows)


def new_place(out: str | os.PathLike[str]) -> Path:
    """The path of a store to be made; refuses one that is there."""
    if "://" in os.fspath(out):
        raise StoreError(f"{os.fspath(out)!r}: give a local folder, and copy the store from there")
    place = Path(out).absolute()
    if place.exists():
        raise StoreError(f"{os.fspath(out)!r} exists already: remove it first, or give another name")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def write_parts(journal: Journal, plan: Plan, read: Read, n_rows: int, pool: ThreadPoolExecutor) -> None:
    """Write all parts, in the order of rows or of their keys; mark the store complete.

    ``read`` gives the batches from a row on; what the journal says to be complete is not read again.
    """
    root = _opened_root(journal.store)
    groups = {part: root.require_group(part) if part else root for part in plan.parts}
    writers = {
        part: PartWriter(
            groups[part],
            plan.recipe,
            rows,
            min(plan.chunk_rows, rows),
            pool,
            plan.with_target,
            part,
            journal,
        )
        for part, rows in plan.parts.items()
    }
    if complete := sum(writer.complete for writer in writers.values()):
        logger.info("write: %d chunks are complete already", complete)
    unwritten = [writer.origin for writer in writers.values() if not writer.is_full]
    if unwritten and plan.shuffled_targets is not None:
        _shuffled(journal, plan, read, n_rows, writers)
    elif unwritten:
        for batch in read(min(unwritten)):
            for block in batch.blocks:
                writers[block.part].add(block.features, block.targets, batch.start)
    for part in reversed(list(plan.parts)):  # the training part last: its group holds the others
        writers[part].close()
        groups[part].attrs[COMPLETE] = True


def _opened_root(store: Path) -> zarr.Group:
    """The store to be written; one that cannot be opened any more is begun anew."""
    if store.exists():
        try:
            return zarr.open_group(store, mode="r+")
        except (OSError, ValueError, KeyError):
            discard(store)
    return zarr.open_group(store, mode="w-")


def _shuffled(
    journal: Journal, plan: Plan, read: Read, n_rows: int, writers: Mapping[str, PartWriter]
) -> None:
    needed = 2 * sum(plan.parts.values()) * (plan.row_bytes + 8)
    _check_room(journal.folder, needed)
    spill = Spill(journal, {part: plan.n_buckets(part) for part in plan.parts}, plan.record)
    row = spill.resume()
    for number, batch in enumerate(read(row) if row < n_rows else (), 1):
        for block in batch.blocks:
            assert block.targets is not None
            spill.parts[block.part].add(block.keys, block.features, block.targets)
        if number % REMEMBERED_BATCHES == 0 or batch.stop == n_rows:
            spill.remember(batch.stop)
    # The buckets stay until the store appears: chunks on their way may still be lost.
    for part, buckets in spill.parts.items():
        for place, features, targets in buckets.blocks(writers[part].origin):
            writers[part].add(features, targets, place)


def _check_room(folder: Path, needed: int) -> None:
    used = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    free = used + shutil.disk_usage(folder).free
    if free < needed:
        raise BudgetError(
            f"the store and its shuffle need {format_size(needed)} of disk, but {format_size(free)} are free "
            f"at {str(folder.parent)!r}"
        )
