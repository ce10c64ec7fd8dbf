"""The sites of a model of local blocks, written when sweeps have ended."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamgp.arrays import Array, IntArray
from streamgp.inference.inducing.heads import RowWeights
from streamgp.inference.local.divided import straightened
from streamgp.likelihoods import Gaussian
from streamgp.passes.block_store import BlockStore, BlockTable
from streamgp.passes.run import run_tasks
from streamgp.training.local import LocalSweeps, block_store, groups_at_once, placed_weights
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft

SITE_BYTES = 128
"""Of a row and head while its final site is made: as swept, twice; the site, and as it is written."""


class _Final(NamedTuple):
    """What the tasks share that write final sites; ``swept`` None: those of Gaussian noise."""

    store: BlockStore
    table: BlockTable
    weights: RowWeights | None
    swept: Any
    noise: float
    n_heads: int


def write_final_sites(problem: Problem, draft: Draft, sweeps: LocalSweeps) -> None:
    """Sites times weights of all rows, those of halos too: what predictions need."""
    assert problem.scratch is not None
    store, table, likelihood = block_store(problem), sweeps.table, draft.likelihoods[0]
    gaussian = isinstance(likelihood, Gaussian)
    shared = _Final(
        store,
        table,
        placed_weights(problem, None).weights,
        None if gaussian else problem.scratch.read(sweeps.generation),
        likelihood.noise if isinstance(likelihood, Gaussian) else 1.0,
        problem.n_heads,
    )
    tasks = groups_at_once(problem, table, table.group_rows * (SITE_BYTES * problem.n_heads + 48))
    run_tasks(
        _write_groups,
        shared,
        tasks,
        lambda earlier, later: earlier + later,
        problem.pass_settings,
        lengths=[(stop - first) * table.group_rows for first, stop in tasks],
        label="final sites",
    )


def _write_groups(shared: _Final, first: int, stop: int) -> int:
    """Write the sites of some consecutive groups, their halos too; how many blocks they have."""
    table, store = shared.table, shared.store
    start, size = first * table.group_rows, (stop - first) * table.group_rows
    blocks = slice(table.blocks_of(first).start, table.blocks_of(stop - 1).stop)
    for prefix, starts, counts in (
        ("", table.starts[blocks], table.counts[blocks]),
        ("halo_", table.halo_starts[blocks], table.halo_counts[blocks]),
    ):
        places = np.repeat(starts - start - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        if shared.swept is None:
            targets = store.read(prefix + "targets", start, size)[places]
            sites = np.stack([np.ones(len(places)), targets], axis=1)[:, None] / shared.noise
        elif prefix:
            homes = store.read("halo_homes", start, size)[places]
            sites = _gathered(shared.swept, homes, table.group_rows)
        else:
            sites = _final_sites(np.asarray(shared.swept[start : start + size])[places])
        if shared.weights is not None:
            numbers, targets = (store.read(prefix + name, start, size) for name in ("numbers", "targets"))
            sites = sites * shared.weights.of_rows(numbers[places], targets[places])[:, None, None]
        out = np.zeros((size, shared.n_heads, 2))
        out[places] = sites
        store.arrays[prefix + "sites"][start : start + size] = out
    return blocks.stop - blocks.start


def _gathered(swept: Any, homes: IntArray, size: int) -> Array:
    """Final sites at scattered places, read group by group."""
    found = np.empty((len(homes), swept.shape[1], 2))
    order = np.argsort(homes, kind="stable")
    groups, firsts = np.unique(homes[order] // size, return_index=True)
    for group, first, stop in zip(groups.tolist(), firsts, [*firsts[1:], len(order)], strict=False):
        inside = order[first:stop]
        whole = np.asarray(swept[group * size : (group + 1) * size])
        found[inside] = _final_sites(whole[homes[inside] - group * size])
    return found


def _final_sites(swept: Array) -> Array:
    """The sites of a model: linear where they may be.  Shapes: (c, heads, columns) → (c, heads, 2)."""
    return straightened(swept[:, :, :2], swept[:, :, 3])
