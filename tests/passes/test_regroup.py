"""Rows on their way to blocks: a task gathers what it needs, however many blocks and offers there are."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from streamgp.data import Rows, open_rows
from streamgp.passes import PassSettings, run_pass
from streamgp.passes.block_store import BlockStore, BlockTable
from streamgp.passes.regroup import Assigned, Collect, Runs, WriteRuns, collect_bytes, collect_groups

BLOCK = 20
"""Rows of a block."""


def assign(features):
    """The second feature is a row's centre; each row is offered to the first centre, by its third feature."""
    labels = features[:, 1].astype(np.int64)
    others = np.flatnonzero(labels > 0)
    return Assigned(labels, others, np.zeros(len(others), np.int64), features[others, 2])


def sought_after(n_blocks):
    """Rows of so many blocks in random order, and all that is needed to collect the first block."""
    generator, n_rows = np.random.default_rng(0), n_blocks * BLOCK
    labels = generator.permutation(np.repeat(np.arange(n_blocks), BLOCK))
    margins = generator.integers(0, n_rows // 4, n_rows)  # some are equal
    return np.column_stack([np.arange(n_rows), labels, margins]).astype(np.float64)


def collected(X, folder, n_blocks, span_rows=500):
    """The arrays of the first group, a block, and the peak of what its task took."""
    rows = open_rows((X, X[:, 0]))
    rows = Rows(rows.features, rows.targets, span_rows)
    none = np.zeros(0, np.int64)
    counted = run_pass(rows, WriteRuns(assign, n_blocks, none, folder), PassSettings(span_rows, 1))
    starts = BLOCK * np.arange(n_blocks)
    sizes, halos = np.full(n_blocks, BLOCK), np.where(np.arange(n_blocks) == 0, BLOCK, 0)
    assert counted.own.tolist() == sizes.tolist()
    table = BlockTable(np.zeros((n_blocks, 3)), np.ones(3), starts, sizes, starts, halos, BLOCK)
    arrays = {
        prefix + name: np.zeros((BLOCK, *axes))
        for prefix in ("", "halo_")
        for name, axes in (("features", (3,)), ("targets", ()), ("numbers", ()), ("homes", ()))
    }
    cuts = BLOCK * np.arange(n_blocks + 1)
    shared = Collect(Runs(folder, counted.runs), BlockStore(arrays), table, cuts, np.arange(n_blocks), starts)
    collect_groups(shared, 0, 1)
    peaks = []
    for _ in range(3):  # threads that other tests have left may allocate as well
        tracemalloc.start()
        collect_groups(shared, 0, 1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return arrays, min(peaks)


@pytest.mark.parametrize("span_rows", [70, 500])
def test_of_many_offers_those_of_least_margin_are_taken(tmp_path, span_rows):
    X = sought_after(100)
    found, _ = collected(X, tmp_path, 100, span_rows)
    own, others = np.flatnonzero(X[:, 1] == 0), np.flatnonzero(X[:, 1] > 0)
    np.testing.assert_array_equal(found["numbers"], own)
    nearest = others[np.lexsort((others, X[others, 2]))[:BLOCK]]
    np.testing.assert_array_equal(found["halo_numbers"], nearest)
    np.testing.assert_array_equal(found["halo_features"], X[nearest])
    # Homes are places among all blocks' own rows: by centre, then by number.
    by_block = np.argsort(X[:, 1], kind="stable")
    np.testing.assert_array_equal(by_block[found["halo_homes"].astype(int)], nearest)


def test_memory_does_not_grow_with_blocks_and_offers(tmp_path):
    few, many = (collected(sought_after(n), tmp_path / str(n), n)[1] for n in (100, 3000))
    assert many < 3 * few + 2**18  # 30 times as many offers
    assert many < collect_bytes(BLOCK, 3, 8) + 2**20  # and a run; the offers of all runs are 5 MB
