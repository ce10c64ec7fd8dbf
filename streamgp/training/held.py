"""Whitened rows of the sample, held in memory for searches that meet them again and again."""

from __future__ import annotations

import numpy as np

from streamgp.inference.inducing.basis import Basis, whiten
from streamgp.inference.inducing.held import HeldRows, held_bytes
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft

TILE_ROWS = 1024


def rows_that_fit(problem: Problem, draft: Draft, precision: str) -> int:
    """Whitened rows that fit into the memory that a pass leaves free, in some type."""
    room = problem.plan.free_bytes - problem.sample.features.nbytes
    return max(0, room) // held_bytes(1, draft.n_active, np.dtype(precision).itemsize)


def held_sample(
    problem: Problem, basis: Basis, size: int, *, after: int = 0, as_they_are: bool = False
) -> tuple[HeldRows, ...]:
    """Whitened rows of the sample; they stand for all rows, unless they are all and count as they are.

    ``after``: not the first ones in the order of their keys, but those after so many.
    """
    sample, chosen = problem.sample, np.sort(problem.sample_order(after + size)[after:])
    encoded = sample.targets[chosen]
    weights = problem.weights.of_rows(sample.rows[chosen], encoded)
    if not as_they_are:
        drawn = problem.sample_weights(encoded)
        weights = weights * drawn * ((problem.n_rows - len(problem.excluded)) / drawn.sum())
    tiles = [slice(begin, begin + TILE_ROWS) for begin in range(0, len(chosen), TILE_ROWS)]
    rows = [whiten(basis, problem.inputs(sample.features[chosen[tile]], basis.dtype)) for tile in tiles]
    return tuple(
        HeldRows(whitened.features, encoded[tile], weights[tile], whitened.residual_variance)
        for tile, whitened in zip(tiles, rows, strict=True)
    )
