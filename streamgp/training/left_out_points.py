"""Rows by which a mode is calibrated: those held out and, where they are few, rows left out in turn.

How sure a mode may be is a matter of its rare errors, of which a few hundred rows have hardly any. So where
all rows are in memory the mode is found again without a fifth of them, which then judge it; and without
another fifth, until there are enough judges. The model itself has learned from them all.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.inference.inducing.basis import make_basis, whiten
from streamgp.inference.inducing.held import HeldRows, held_bytes
from streamgp.inference.inducing.mode import PointTerms, find_mode
from streamgp.passes.run import available_threads
from streamgp.training.heads import inducing_of, snapshot_of
from streamgp.training.judge import marginals_in_memory
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft

ENOUGH_JUDGES = 2000
PARTS = 5
"""Of which one is left out at a time."""
TILE_ROWS = 1024
MODE_STEPS = 200
MODE_TOLERANCE = 1e-6


class LeftOutPoints(NamedTuple):
    """Rows that did not teach: latent values (n, k), encoded targets, weights and random keys (n,)."""

    latent: FloatArray
    targets: FloatArray
    weights: FloatArray
    keys: FloatArray


def left_out_points(problem: Problem, draft: Draft) -> LeftOutPoints:
    """Rows held out, as the model sees them, and rows of the sample, as a mode without them does."""
    held_out = problem.held_out
    latent = marginals_in_memory(snapshot_of(draft), held_out.features, problem).mean
    weights = problem.weights.of_rows(held_out.rows, held_out.targets)
    found = [LeftOutPoints(latent, held_out.targets, weights, held_out.keys)]
    missing = ENOUGH_JUDGES - len(held_out.rows)
    if missing > 0 and problem.holds_all_rows and not problem.is_late():
        found += _from_sample(problem, draft, missing)
    return LeftOutPoints._make(map(np.concatenate, zip(*found, strict=True)))


def _from_sample(problem: Problem, draft: Draft, missing: int) -> list[LeftOutPoints]:
    """So many rows of the sample, or all of them, a fifth at a time; none where memory has no room."""
    sample, order = problem.sample, problem.sample_order()
    basis = make_basis(draft.kernel, inducing_of(draft), np.float32).astype(np.float32)
    if held_bytes(len(order), len(basis.whitening), basis.dtype.itemsize) > problem.plan.free_bytes:
        return []
    features = whiten(basis, problem.inputs(sample.features, basis.dtype)).features
    weights = problem.weights.of_rows(sample.rows, sample.targets)
    part = order[: len(order) // PARTS]
    found = []
    for number in range(min(PARTS, math.ceil(missing / max(1, len(part))))):
        judges = np.sort(order[number::PARTS])
        teachers = np.setdiff1d(order, judges)
        latent = features[judges] @ _mode(problem, draft, features, weights, teachers)
        found.append(LeftOutPoints(latent, sample.targets[judges], weights[judges], sample.keys[judges]))
    return found


def _mode(
    problem: Problem, draft: Draft, features: Array, weights: FloatArray, teachers: IntArray
) -> FloatArray:
    """The mode of some rows of the sample, from that of all of them.  Shape: (m, k)."""
    [likelihood] = draft.likelihoods
    tiles = [teachers[begin : begin + TILE_ROWS] for begin in range(0, len(teachers), TILE_ROWS)]
    return find_mode(
        [HeldRows(features[tile], problem.sample.targets[tile], weights[tile]) for tile in tiles],
        PointTerms(likelihood, problem.prepared.targets),
        n_functions=problem.n_heads,
        start=draft.sweeps.weights,
        most_steps=MODE_STEPS,
        tolerance=MODE_TOLERANCE,
        workers=available_threads(),
    ).weights
