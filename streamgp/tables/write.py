"""Writing the rows of all parts to a folder that appears when it is complete."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
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
from streamgp.persistence.atomic import discard, replacing, unfinished_in
from streamgp.tables.keys import RowDraws
from streamgp.tables.recipe import ColumnRecipe
from streamgp.tables.shuffle import Buckets
from streamgp.tables.sources import Columns
from streamgp.tables.store import CHUNK_BYTES, CHUNKS_HELD, PartWriter, rows_per_chunk

TEST = "test"
"""Name of the group with the test rows."""
_SHUFFLE_SHARE = 10  # a bucket has at most this part of the budget: it is read, sorted and cut


class Block(NamedTuple):
    """Features and targets of some rows of a part, with their keys."""

    part: str
    features: Array
    targets: Array | None
    keys: NDArray[np.uint64]


def encode_batch(recipe: ColumnRecipe, draws: RowDraws, start: int, batch: Columns) -> list[Block]:
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
    return blocks


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

    def n_buckets(self, part: str) -> int:
        """Buckets of the shuffle, each small enough to be sorted in memory."""
        assert self.shuffled_targets is not None
        record = self.row_bytes + 8 + self.shuffled_targets.itemsize
        return 1 + self.parts[part] * record // (self.budget // _SHUFFLE_SHARE)


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


@contextmanager
def appearing(out: Path) -> Iterator[Path]:
    """A hidden folder beside ``out`` that becomes it when the block ends without error.

    What earlier calls left there when they were killed is removed first.
    """
    for left in unfinished_in(out.parent):
        if left.name.startswith(f".{out.name}."):
            discard(left)
    with replacing(out) as unfinished:
        yield unfinished


def new_place(out: str | os.PathLike[str]) -> Path:
    """The path of a store to be made; refuses one that is there."""
    if "://" in os.fspath(out):
        raise StoreError(f"{os.fspath(out)!r}: give a local folder, and copy the store from there")
    place = Path(out).absolute()
    if place.exists():
        raise StoreError(f"{os.fspath(out)!r} exists already: remove it first, or give another name")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def write_parts(folder: Path, plan: Plan, blocks: Iterable[list[Block]], pool: ThreadPoolExecutor) -> None:
    """Write the blocks of all parts, in their order or in that of their keys; mark the store complete."""
    root = zarr.open_group(folder, mode="w-")
    groups = {part: root.create_group(part) if part else root for part in plan.parts}
    writers = {
        part: PartWriter(
            groups[part], plan.recipe, n_rows, min(plan.chunk_rows, n_rows), pool, plan.with_target
        )
        for part, n_rows in plan.parts.items()
    }
    if plan.shuffled_targets is None:
        for block in chain.from_iterable(blocks):
            writers[block.part].add(block.features, block.targets)
    else:
        _shuffled(folder / ".shuffle", plan, blocks, writers)
    for part in reversed(list(plan.parts)):  # the training part last: its group holds the others
        writers[part].close()
        groups[part].attrs[COMPLETE] = True


def _shuffled(
    folder: Path, plan: Plan, blocks: Iterable[list[Block]], writers: Mapping[str, PartWriter]
) -> None:
    assert plan.shuffled_targets is not None
    _check_room(folder.parent, 2 * sum(plan.parts.values()) * (plan.row_bytes + 8))
    buckets = {
        part: Buckets(folder / (part or "train"), plan.n_buckets(part), plan.shuffled_targets)
        for part in plan.parts
    }
    for block in chain.from_iterable(blocks):
        assert block.targets is not None
        buckets[block.part].add(block.keys, block.features, block.targets)
    for part, spilled in buckets.items():
        for features, targets in spilled.blocks():
            writers[part].add(features, targets)
    shutil.rmtree(folder)


def _check_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise BudgetError(
            f"the store and its shuffle need {format_size(needed)} of disk, but {format_size(free)} are free "
            f"at {str(folder)!r}"
        )
