"""Rows brought from the order of a store into that of blocks, out of core, in two rounds.

First one pass over the store: each span is sorted by centre and written as a *run*, a folder of plain arrays.
Then each task collects the rows of some groups of blocks from all runs and writes these groups whole. Rows of
a block are in the order of the store, whatever its chunks were.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.data import Span
from streamgp.passes.block import Block, Visitor
from streamgp.passes.block_store import BlockStore, BlockTable
from streamgp.passes.candidates import is_among
from streamgp.passes.scratch import FILE_BLOCK

OFFERS = 2
"""Offers a row makes, where a sample of those that centres were fitted to would make 1.3."""
RUN_FILES = 7
"""Arrays of a run, each in a file of its own; half a block of each is empty, and the folder is one."""


class Runs(NamedTuple):
    """All runs of a folder, each array opened when it is asked for.

    An array that is mapped counts as memory of the process page by page: none is held for longer than one
    run is looked at, so that memory does not grow with the number of runs.
    """

    folder: Path
    n_runs: int

    def array(self, number: int, name: str) -> Array:
        """An array of a run, mapped."""
        found: Array = np.load(run_folder(self.folder, number) / f"{name}.npy", mmap_mode="r")
        return found

    def each(self, name: str) -> Iterator[Array]:
        """An array of all runs, one after the other."""
        return (self.array(number, name) for number in range(self.n_runs))


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
    """Rows of each centre, and offers to it, (m,) each; over how many runs."""

    own: IntArray
    offers: IntArray
    runs: int


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
        """Pieces of a span side by side; counts of spans added up."""
        if isinstance(earlier, list):
            return earlier + later
        return Counted(*(one + other for one, other in zip(earlier, later, strict=True)))

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
        return Counted(own, offered, 1)

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


def runs_bytes(rows: int, n_runs: int, n_centres: int, n_features: int, itemsize: int) -> int:
    """Bytes on disk of all runs: rows, offers, and in each run where those of every centre begin."""
    by_row = n_features * itemsize + 16 + 16 * OFFERS
    return rows * by_row + n_runs * (16 * (n_centres + 1) + RUN_FILES * FILE_BLOCK)


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
    ``centre_of`` (blocks,): the centre that a block is (a part) of; ``firsts`` (m,): first places of centres
    in that order.
    """

    runs: Runs
    store: BlockStore
    table: BlockTable
    slices: IntArray
    centre_of: IntArray
    firsts: IntArray

    def homes(self, ordered: IntArray) -> IntArray:
        """Where rows lie among the blocks' own, from their places in the order by centre."""
        block = np.searchsorted(self.slices, ordered, side="right") - 1
        homes: IntArray = self.table.starts[block] + ordered - self.slices[block]
        return homes


def collect_groups(shared: Collect, first: int, stop: int) -> int:
    """Write some consecutive groups of blocks from all runs: a task of the second round; the rows they have.

    Centres of groups follow each other, so each run has their rows, and what was offered, in one stretch.
    Memory: :func:`collect_bytes`.  Cost: every run is opened a few times, however many groups there are.
    """
    table, store = shared.table, shared.store
    size, start = (stop - first) * table.group_rows, first * table.group_rows
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
    blocks = range(table.blocks_of(first).start, table.blocks_of(stop - 1).stop)
    centres = np.arange(shared.centre_of[blocks.start], shared.centre_of[blocks.stop - 1] + 1)
    _collect_own(shared, centres, start, out)
    _collect_halos(shared, blocks, centres, start, out)
    for name, array in out.items():
        store.arrays[name][start : start + size] = array
    return int(table.counts[blocks.start : blocks.stop].sum())


def collect_bytes(rows: int, n_features: int, itemsize: int) -> int:
    """Upper bound of the bytes that :func:`collect_groups` takes for groups of ``rows`` places in all.

    Rows and halos; and of each offer, of which up to three for each place of a halo are held, run, place,
    number, centre, margin, and its order. What one run offers comes on top.
    """
    return rows * (2 * (n_features * itemsize + 16) + 8 + 3 * 2 * 48)


def _collect_own(shared: Collect, centres: IntArray, start: int, out: dict[str, Array]) -> None:
    """All rows of consecutive centres, but those of parts of centres that other groups have."""
    runs, size = shared.runs, len(out["numbers"])
    earlier = np.zeros(len(centres), np.int64)  # rows of the centres in the runs before
    for number, all_starts in enumerate(runs.each("starts")):
        starts = np.array(all_starts[centres[0] : centres[-1] + 2])
        counts, source = np.diff(starts), slice(int(starts[0]), int(starts[-1]))
        within = np.arange(source.start, source.stop) - np.repeat(starts[:-1], counts)
        to = shared.homes(within + np.repeat(shared.firsts[centres] + earlier, counts)) - start
        inside = (to >= 0) & (to < size)
        for name in ("features", "targets", "numbers"):
            out[name][to[inside]] = runs.array(number, name)[source][inside]
        earlier += counts


class _Offers(NamedTuple):
    """Rows offered to the centres of a group: their run, place there, number; the centre, the margin."""

    runs: IntArray
    places: IntArray
    numbers: IntArray
    centres: IntArray
    margins: FloatArray

    def least(self, first: int, most: IntArray) -> _Offers:
        """Of each centre from ``first`` on the ``most`` (centres,) of least margin, by centre.

        Of equal margins the lowest numbers.
        """
        order = np.lexsort((self.numbers, self.margins, self.centres))
        centres = self.centres[order] - first
        rank = np.arange(len(order)) - np.searchsorted(centres, centres)
        kept = order[rank < most[centres]]
        columns: Iterator[Array] = (column[kept] for column in self)
        return _Offers(*columns)


def _collect_halos(
    shared: Collect, blocks: range, centres: IntArray, start: int, out: dict[str, Array]
) -> None:
    """The rows of least margin that were offered to a block's centre; of equal ones the lowest numbers."""
    runs, centre_of = shared.runs, shared.centre_of[blocks.start : blocks.stop]
    starts, counts = (
        column[blocks.start : blocks.stop] for column in (shared.table.halo_starts, shared.table.halo_counts)
    )
    most = np.zeros(len(centres), np.int64)
    np.maximum.at(most, centre_of - centres[0], counts)
    offers = _offers(runs, centres, most)
    first = np.searchsorted(offers.centres, centre_of)
    chosen, to = (
        np.concatenate([np.arange(count) + begin for begin, count in zip(begins, counts, strict=True)])
        for begins in (first, starts - start)
    )
    for number in np.unique(offers.runs[chosen]).tolist():
        inside = np.flatnonzero(offers.runs[chosen] == number)
        source = offers.places[chosen[inside]]
        for name in ("features", "targets", "numbers"):
            out[f"halo_{name}"][to[inside]] = runs.array(number, name)[source]
    out["halo_homes"][to] = _homes(shared, offers.runs[chosen], offers.places[chosen])


def _offers(runs: Runs, centres: IntArray, most: IntArray) -> _Offers:
    """What all runs offer to consecutive centres, of each the ``most`` (centres,) of least margin.

    Others are dropped on the way: a centre may be offered far more rows than it takes.
    """
    nothing, room = np.zeros(0, np.int64), int(most.sum())
    held = _Offers(nothing, nothing, nothing, nothing, np.zeros(0))
    for number, all_starts in enumerate(runs.each("offer_starts")):
        starts = np.array(all_starts[centres[0] : centres[-1] + 2])
        source = slice(int(starts[0]), int(starts[-1]))
        places = np.array(runs.array(number, "offered")[source])
        numbers = runs.array(number, "numbers")[places]
        margins = np.array(runs.array(number, "margins")[source])
        to = np.repeat(centres, np.diff(starts))
        part = _Offers(np.full(len(places), number), places, numbers, to, margins)
        held = _Offers(*(np.concatenate(pair) for pair in zip(held, part, strict=True)))
        if len(held.numbers) > 2 * room:
            held = held.least(int(centres[0]), most)
    return held.least(int(centres[0]), most)


def _homes(shared: Collect, numbers: IntArray, places: IntArray) -> IntArray:
    """Where rows, given by run and place there, lie among the blocks' own rows."""
    centres, within = np.empty_like(places), np.empty_like(places)
    by_run = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[by_run], np.arange(1, shared.runs.n_runs))
    rows_of = np.split(by_run, ends)
    for rows, starts in zip(rows_of, shared.runs.each("starts"), strict=True):
        centres[rows] = np.searchsorted(starts, places[rows], side="right") - 1
        within[rows] = places[rows] - starts[centres[rows]]
    present, column = np.unique(centres, return_inverse=True)
    earlier = np.zeros(len(present), np.int64)
    for rows, starts in zip(rows_of, shared.runs.each("starts"), strict=True):
        within[rows] += earlier[column[rows]]
        earlier += starts[present + 1] - starts[present]
    return shared.homes(shared.firsts[centres] + within)
