"""Rows grouped into blocks of near rows, out of core: centres, runs, blocks; one step each."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.arrays import FloatArray, IntArray
from streamgp.passes.block_store import BlockTable, create_blocks, pack
from streamgp.passes.candidates import PickRows
from streamgp.passes.nearest import nearest_centres
from streamgp.passes.regroup import (
    Collect,
    Counted,
    CountRows,
    Runs,
    WriteRuns,
    collect_bytes,
    collect_groups,
)
from streamgp.passes.run import run_tasks
from streamgp.selection.centres import metric
from streamgp.selection.grouping import (
    GENEROSITY,
    NEAR_CENTRES,
    ROWS_PER_CENTRE,
    AssignRows,
    Sizes,
    balanced_centres,
    halo_limits,
    regroup,
    slices,
)
from streamgp.selection.keys import key_bounds
from streamgp.settings import Local
from streamgp.training.codec import record
from streamgp.training.local import LocalSweeps, groups_at_once
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Save, Stage

GROUPING = 1_000_000
"""Purpose of the random keys of rows that are grouped by: no step of a selection has this number."""
COUNTING_PASSES = 2
"""Rounds of counting all rows and splitting or merging centres, where the sample is not all there is."""

record(BlockTable)
record(Counted)


@record
@dataclass(frozen=True, eq=False)
class Grouping:
    """How far the grouping has come.

    centres (m, p) in units of scale (p,), limits (m,) of halos; counted: rows of all spans by centre, once
    the runs are written.
    """

    centres: FloatArray | None = None
    scale: FloatArray | None = None
    limits: FloatArray | None = None
    counted: Counted | None = None

    @property
    def assign(self) -> AssignRows:
        """Where rows go."""
        assert self.centres is not None
        assert self.scale is not None
        return AssignRows(self.centres, self.scale, self.limits)


def group_rows(settings: Local) -> Stage:
    """Centres in the learned metric; a pass that sorts spans; then groups of blocks, each written once."""

    def step(
        problem: Problem, draft: Draft, own: Grouping, save: Save
    ) -> tuple[Draft, Grouping | None, dict[str, Any]]:
        if own.centres is None:
            own = _centres(problem, draft)
            assert own.centres is not None
            return draft, own, {"centres": len(own.centres)}
        if own.counted is None:
            return draft, replace(own, counted=_write_runs(problem, own)), {"rows": problem.n_rows}
        table = _write_blocks(problem, own)
        draft = replace(draft, sweeps=LocalSweeps.begin(problem, draft, table, settings))
        sizes = table.counts
        told = {
            "blocks": table.n_blocks,
            "cut": table.n_blocks - int(np.count_nonzero(own.counted.own)),
            "block_rows": [int(sizes.min()), float(np.median(sizes)), int(sizes.max())],
        }
        return draft, None, told

    return Stage("group: blocks", lambda problem, draft: Grouping(), step)


def _centres(problem: Problem, draft: Draft) -> Grouping:
    """Centres of the sample's clusters, split and merged until all rows have blocks of the wanted sizes."""
    sizes, scale = problem.plan.block_sizes, metric(draft.kernel, problem.n_features)
    n_rows = problem.n_rows - len(problem.excluded)
    sample = _sample(problem, n_rows) / scale
    if n_rows <= sizes.target:
        return Grouping(sample.mean(axis=0)[None], scale, np.full(1, -1.0))
    centres = balanced_centres(sample, n_rows, sizes)
    if not problem.holds_all_rows:
        centres = _counted_centres(problem, centres, scale, sample, sizes)
    nearest = nearest_centres(sample, centres, NEAR_CENTRES)
    return Grouping(centres, scale, halo_limits(nearest, len(centres), GENEROSITY))


def _sample(problem: Problem, n_rows: int) -> FloatArray:
    """Rows in random order, as the model sees them: more than the sample where so many blocks need them.

    A large part of a store may lie where the sample has a handful of rows: blocks there could not be divided
    by nearness.
    """
    wanted = ROWS_PER_CENTRE * n_rows // problem.plan.block_sizes.target
    # Stored twice while pools are merged, and four times in float64: k-means and its clusters.
    row_bytes = 4 * 8 * problem.n_features + 2 * problem.prepared.rows.feature_bytes() + 64
    size = min(n_rows, wanted, problem.plan.free_bytes // (2 * row_bytes))
    if problem.holds_all_rows or size <= len(problem.sample.rows):
        inputs: FloatArray = problem.inputs(problem.sample.features[problem.sample_order()])
        return inputs
    quota = np.array([size])
    bounds = key_bounds(quota, np.array([problem.n_rows]))
    visitor = PickRows(problem.row_keys(GROUPING), quota, bounds, excluded=problem.excluded)
    pool = visitor.pooled(problem.run_pass(visitor, np.float32, "rows to group by"))
    drawn: FloatArray = problem.inputs(pool.features[np.argsort(pool.keys, kind="stable")])
    return drawn


def _counted_centres(
    problem: Problem, centres: FloatArray, scale: FloatArray, sample: FloatArray, sizes: Sizes
) -> FloatArray:
    """The centres after rounds of counting all rows."""
    for number in range(COUNTING_PASSES):
        visitor = CountRows(AssignRows(centres, scale), len(centres), problem.excluded)
        counts = problem.run_pass(visitor, np.float64, f"blocks {number + 1}")
        labels = nearest_centres(sample, centres).labels[:, 0]
        centres, split, merged = regroup(centres, counts, sample, labels, sizes)
        if split == 0 and merged == 0:
            break
    return centres


def _write_runs(problem: Problem, own: Grouping) -> Counted:
    assert problem.scratch is not None
    assert own.centres is not None
    runs = problem.scratch.runs
    for folder in runs.parent.glob(f"{runs.name}*"):  # of a fit that was interrupted
        shutil.rmtree(folder, ignore_errors=True)
    unfinished = runs.with_name(f"{runs.name}-unfinished")
    unfinished.mkdir(parents=True)
    visitor = WriteRuns(own.assign, len(own.centres), problem.excluded, unfinished)
    counted: Counted = problem.run_pass(visitor, np.float64, "group")
    unfinished.rename(runs)  # what has this name is complete
    return counted


def _write_blocks(problem: Problem, own: Grouping) -> BlockTable:
    """The block store from the runs, which are removed."""
    assert problem.scratch is not None
    assert own.counted is not None
    runs = problem.scratch.runs
    if not runs.exists():  # a fit was killed when it had removed them, and had not noted yet that it did
        _write_runs(problem, own)
    counts = own.counted.own
    cuts, centre_of = _blocks_of_centres(counts, problem.plan.block_sizes.most)
    table = _table(problem, own, np.diff(cuts), centre_of)
    features = problem.prepared.rows.features
    store = create_blocks(problem.scratch.blocks, table, problem.n_features, features.dtype, problem.n_heads)
    firsts = np.cumsum(counts) - counts
    shared = Collect(Runs(runs, own.counted.runs), store, table, cuts, centre_of, firsts)
    least = collect_bytes(table.group_rows, problem.n_features, features.dtype.itemsize)
    tasks = groups_at_once(problem, table, least)
    run_tasks(
        collect_groups,
        shared,
        tasks,
        lambda earlier, later: earlier + later,
        problem.pass_settings,
        lengths=[(stop - first) * table.group_rows for first, stop in tasks],
        label="blocks",
    )
    _remove_at_once(runs)
    return table


def _remove_at_once(folder: Path) -> None:
    """Remove a folder so that at any moment all of it is there under its name, or nothing."""
    removed = folder.with_name(f"{folder.name}-removed")
    shutil.rmtree(removed, ignore_errors=True)
    folder.rename(removed)
    shutil.rmtree(removed, ignore_errors=True)


def _blocks_of_centres(counts: IntArray, most: int) -> tuple[IntArray, IntArray]:
    """First places of blocks in the order of centres (blocks + 1,), and the centre of each (blocks,)."""
    cuts = slices(counts, most)
    centre_of = np.searchsorted(np.cumsum(counts), cuts[:-1], side="right")
    return cuts, centre_of


def _table(problem: Problem, own: Grouping, sizes: IntArray, centre_of: IntArray) -> BlockTable:
    assert own.counted is not None
    assert own.centres is not None
    assert own.scale is not None
    size = max(problem.plan.group_rows, int(sizes.max()))
    halo = np.minimum(own.counted.offers[centre_of], sizes)
    starts = pack(sizes, size)
    # A halo is no larger than its block: packed alike, halos fit into groups of the same size.
    groups = starts // size
    before = np.cumsum(halo) - halo
    halo_starts = groups * size + before - before[np.searchsorted(groups, groups)]
    return BlockTable(own.centres[centre_of], own.scale, starts, sizes, halo_starts, halo, size)
