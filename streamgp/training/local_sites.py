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
from streamgp.training.local import LocalSweeps, block_store, placed_weights
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft


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
    run_tasks(
        _write_group,
        shared,
        ((group,) for group in range(table.n_groups)),
        lambda earlier, later: earlier + later,
        problem.pass_settings,
        lengths=[table.group_rows] * table.n_groups,
        label="final sites",
    )


def _write_group(shared: _Final, group: int) -> int:
    table, store, size = shared.table, shared.store, shared.table.group_rows
    start = group * size
    blocks = table.blocks_of(group)
    for prefix, starts, counts in (
        ("", table.starts, table.counts),
        ("halo_", table.halo_starts, table.halo_counts),
    ):
        out = np.zeros((size, shared.n_heads, 2))
        for block in blocks:
            first, count = int(starts[block]), int(counts[block])
            targets = store.read(prefix + "targets", first, count)
            if shared.swept is None:
                sites = np.stack([np.ones(count), targets], axis=1)[:, None] / shared.noise
            elif prefix:
                sites = _gathered(shared.swept, store.read("halo_homes", first, count), size)
            else:
                sites = _final_sites(np.asarray(shared.swept[first : first + count]))
            if shared.weights is not None:
                numbers = store.read(prefix + "numbers", first, count)
                sites = sites * shared.weights.of_rows(numbers, targets)[:, None, None]
            out[first - start : first - start + count] = sites
        store.arrays[prefix + "sites"][start : start + size] = out
    return len(blocks)


def _gathered(swept: Any, homes: IntArray, size: int) -> Array:
    """Sites at scattered places, read group by group."""
    found = np.empty((len(homes), *swept.shape[1:]))
    groups = homes // size
    for group in np.unique(groups).tolist():
        inside = groups == group
        whole = np.asarray(swept[group * size : (group + 1) * size])
        found[inside] = whole[homes[inside] - group * size]
    return _final_sites(found)


def _final_sites(swept: Array) -> Array:
    """The sites of a model: linear where they may be.  Shapes: (c, heads, columns) → (c, heads, 2)."""
    return straightened(swept[:, :, :2], swept[:, :, 3])
