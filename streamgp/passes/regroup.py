"""Rows brought from the order of a store into that of blocks, out of core, in two rounds.

First one pass over the store: each span is sorted by centre and written as a *run*, a folder of plain arrays.
Then one task for each group of blocks collects its rows from all runs and writes the group whole. Rows of a
block are in the order of the store, whatever its chunks were.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.data import Span
from streamgp.passes.block import Block, Visitor
from streamgp.passes.block_store import BlockStore, BlockTable
from streamgp.passes.candidates import is_among

RUN_ARRAYS = ("features", "targets", "numbers", "starts", "offered", "margins", "offer_starts")


class Assigned(NamedTuple):
    """The centre of each of c rows, and k offers of rows to widen other centres.

    labels (c,); offered_rows (k,) count within these rows, offered_to (k,) centres, margins (k,).
    """

    labels: IntArray
    offered_rows: IntArray
    offered_to: IntArray
    margins: FloatArray


Assign = Callable[[Array], Assigned]
"""Standardised rows (c, p) → their centres and offers."""


class Counted(NamedTuple):
    """Rows of each centre, and offers to it: (spans, m) each, one line a span."""

    own: IntArray
    offers: IntArray


@dataclass(frozen=True, eq=False)
class CountRows(Visitor[IntArray]):
    """Rows of each centre, those held out not counted: (m,)."""

    assign: Assign
    n_centres: int
    excluded: IntArray

    def visit(self, block: Block) -> IntArray:
        """Counts of one block."""
        kept = _kept(block, self.excluded)
        return np.bincount(self.assign(block.features[kept]).labels, minlength=self.n_centres)

    def merge(self, earlier: IntArray, later: IntArray) -> IntArray:
        """Counts of both."""
        return earlier + later


class _Piece(NamedTuple):
    features: Array
    targets: FloatArray
    numbers: IntArray
    assigned: Assigned


@dataclass(frozen=True, eq=False)
class WriteRuns(Visitor[Any]):
    """Writes each span sorted by centre; ``excluded`` rows (sorted) are left out.

    A run is renamed to its place when it is complete: a task may run twice.
    """

    assign: Assign
    n_centres: int
    excluded: IntArray
    folder: Path

    def visit(self, block: Block) -> list[_Piece]:
        """The block's rows with their centres."""
        kept = _kept(block, self.excluded)
        assert block.targets is not None
        assigned = self.assign(block.features[kept])
        return [_Piece(block.stored[kept], block.targets[kept], block.start + kept, assigned)]

    def merge(self, earlier: Any, later: Any) -> Any:
        """Pieces of a span side by side; counts of spans one below the other."""
        if isinstance(earlier, list):
            return earlier + later
        return Counted(*(np.concatenate(pair) for pair in zip(earlier, later, strict=True)))

    def finish(self, span: Span, total: list[_Piece]) -> Counted:
        """Write the run; its counts are left to return."""
        before = np.cumsum([0] + [len(piece.numbers) for piece in total])
        labels = np.concatenate([piece.assigned.labels for piece in total])
        order = np.argsort(labels, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        offers = [
            np.concatenate(
                [piece.assigned.offered_rows + first for piece, first in zip(total, before, strict=False)]
            ),
            np.concatenate([piece.assigned.offered_to for piece in total]),
            np.concatenate([piece.assigned.margins for piece in total]),
        ]
        by_centre = np.argsort(offers[1], kind="stable")
        own, offered = (np.bincount(each, minlength=self.n_centres) for each in (labels, offers[1]))
        arrays = {
            "targets": np.concatenate([piece.targets for piece in total])[order],
            "numbers": np.concatenate([piece.numbers for piece in total])[order],
            "starts": np.concatenate([[0], np.cumsum(own)]),
            "offered": place[offers[0][by_centre]],
            "margins": offers[2][by_centre],
            "offer_starts": np.concatenate([[0], np.cumsum(offered)]),
        }
        self._write(span, total, before, place, arrays)
        return Counted(own[None], offered[None])

    def _write(
        self, span: Span, total: list[_Piece], before: IntArray, place: IntArray, arrays: dict[str, Array]
    ) -> None:
        unfinished = self.folder / f"unfinished-{uuid.uuid4().hex}"
        unfinished.mkdir(parents=True)
        first = total[0].features
        # Features are written where they belong, piece by piece: no second copy in memory.
        shape = (int(before[-1]), first.shape[1])
        features = np.empty(shape, first.dtype)
        for piece, start in zip(total, before, strict=False):
            features[place[start : start + len(piece.numbers)]] = piece.features
        np.save(unfinished / "features.npy", features)
        for name, array in arrays.items():
            np.save(unfinished / f"{name}.npy", array)
        try:
            os.rename(unfinished, run_folder(self.folder, span.number))
        except OSError:  # the same run, from a task that ran before
            shutil.rmtree(unfinished, ignore_errors=True)


def run_folder(folder: Path, number: int) -> Path:
    """Where the run of a span lies."""
    return folder / f"run-{number:06d}"


def _kept(block: Block, excluded: IntArray) -> IntArray:
    rows = np.arange(block.start, block.start + block.rows)
    return np.flatnonzero(~is_among(rows, excluded))


@dataclass(frozen=True, eq=False)
class Collect:
    """All that the tasks of the second round share.

    ``slices`` (blocks + 1,): first places of blocks where all rows are ordered by centre, then by number;
    ``centre_of`` (blocks,): the centre that a block is (a part) of; ``before`` (spans, m): rows of a centre
    in earlier spans; ``firsts`` (m,): first places of centres in that order.
    """

    folder: Path
    store: BlockStore
    table: BlockTable
    slices: IntArray
    centre_of: IntArray
    before: IntArray
    firsts: IntArray

    def homes(self, run: dict[str, Array], span: int, places: IntArray) -> IntArray:
        """Where rows of a run, given by their places in it, lie among the blocks' own rows."""
        centres = np.searchsorted(run["starts"], places, side="right") - 1
        ranks = self.before[span, centres] + places - run["starts"][centres]
        ordered = self.firsts[centres] + ranks
        block = np.searchsorted(self.slices, ordered, side="right") - 1
        homes: IntArray = self.table.starts[block] + ordered - self.slices[block]
        return homes


def collect_group(shared: Collect, group: int) -> int:
    """Write one group of blocks from all runs: the task of the second round; the rows that it has."""
    table, store = shared.table, shared.store
    size, start = table.group_rows, group * table.group_rows
    n_features, dtype = store.arrays["features"].shape[1], store.arrays["features"].dtype
    out = {
        prefix + name: np.zeros((size, *axes), kind)
        for prefix in ("", "halo_")
        for name, axes, kind in (
            ("features", (n_features,), dtype),
            ("targets", (), np.float64),
            ("numbers", (), np.int64),
        )
    }
    out["halo_homes"] = np.zeros(size, np.int64)
    blocks = table.blocks_of(group)
    runs = [_open_run(shared.folder, number) for number in range(len(shared.before))]
    for block in blocks:
        _collect_own(shared, runs, block, start, out)
        _collect_halo(shared, runs, block, start, out)
    for name, array in out.items():
        store.arrays[name][start : start + size] = array
    return int(table.counts[blocks.start : blocks.stop].sum())


def _open_run(folder: Path, number: int) -> dict[str, Array]:
    path = run_folder(folder, number)
    wide = {"features": np.load(path / "features.npy", mmap_mode="r")}
    return wide | {name: np.load(path / f"{name}.npy", mmap_mode="r") for name in RUN_ARRAYS[1:]}


def _collect_own(
    shared: Collect, runs: list[dict[str, Array]], block: int, start: int, out: dict[str, Array]
) -> None:
    centre = int(shared.centre_of[block])
    first = int(shared.slices[block] - shared.firsts[centre])
    last = first + int(shared.table.counts[block])
    to = int(shared.table.starts[block]) - start - first
    for span, run in enumerate(runs):
        here, begun = int(run["starts"][centre]), int(shared.before[span, centre])
        count = int(run["starts"][centre + 1]) - here
        low, high = max(first, begun), min(last, begun + count)
        if low < high:
            source = slice(here + low - begun, here + high - begun)
            for name in ("features", "targets", "numbers"):
                out[name][to + low : to + high] = run[name][source]


def _collect_halo(
    shared: Collect, runs: list[dict[str, Array]], block: int, start: int, out: dict[str, Array]
) -> None:
    """The rows of least margin that were offered to the block's centre; of equal ones the lowest numbers."""
    table, centre, wanted = shared.table, int(shared.centre_of[block]), int(shared.table.halo_counts[block])
    if wanted == 0:
        return
    spans, places, margins, numbers = [], [], [], []
    for span, run in enumerate(runs):
        offers = slice(int(run["offer_starts"][centre]), int(run["offer_starts"][centre + 1]))
        place = np.asarray(run["offered"][offers])
        spans.append(np.full(len(place), span))
        places.append(place)
        margins.append(np.asarray(run["margins"][offers]))
        numbers.append(np.asarray(run["numbers"][place]))
    columns = [np.concatenate(column) for column in (spans, places, margins, numbers)]
    best = np.lexsort((columns[3], columns[2]))[:wanted]
    chosen_spans, chosen = columns[0][best], columns[1][best]
    to = int(table.halo_starts[block]) - start
    for span in np.unique(chosen_spans).tolist():
        inside = np.flatnonzero(chosen_spans == span)
        run, source = runs[span], chosen[inside]
        for name in ("features", "targets", "numbers"):
            out[f"halo_{name}"][to + inside] = run[name][source]
        out["halo_homes"][to + inside] = shared.homes(run, span, source)
