"""The mode of a large store in few passes: every part of it makes a step, and the steps are averaged.

A part is some of the spans, from all over the store, so that its rows stand for all of them. Steps are of
one length in coordinates in which the curvature of a sample is round: they come near the mode fast and then
wander around it, because each part has its own idea of where it lies; the mean of where they were lies nearer
than any of them. Rows held out say after each pass whether another one pays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from streamgp.arrays import FloatArray, IntArray
from streamgp.data import Rows, Span
from streamgp.training.codec import record

PART_ROWS, ROWS_PER_INDUCING = 8192, 4
"""Rows of a part of the store: at least so many, and so many for each inducing input, to know their slope."""
MOST_PARTS = 512
FEWEST_PARTS = 32
"""Parts of a store with which it pays to let each of them make a step."""
LENGTH = 0.2
"""Of a step in the first pass, relative to the one that would lead to the mode if the sample knew all."""
SAVES = 4
"""Checkpoints within a pass: there are many parts, and what is written is large."""
SKIPPED = 0.5
"""Share of the first pass that is spent on the way, and is not averaged."""


def parts_of(rows: Rows, n_inducing: int) -> list[list[Span]]:
    """The spans of a store in parts, each from all over it: rows may be sorted. None where rows are few."""
    spans = list(rows.spans())
    wanted = max(PART_ROWS, ROWS_PER_INDUCING * n_inducing, rows.n_rows // MOST_PARTS)
    count = min(rows.n_rows // wanted, len(spans))
    return [spans[part::count] for part in range(count)] if count >= FEWEST_PARTS else []


@record
@dataclass(frozen=True, eq=False)
class Walk:
    """Steps under way: where they are, the mean of where they were in this pass, and of how many.

    ``best`` is the mean of the best pass so far with ``loss`` (of the rows that judge), ``parts`` counts the
    parts visited in all passes, ``length`` is that of a step. Shapes: weights, mean, best (m, k).
    """

    weights: FloatArray
    mean: FloatArray
    best: FloatArray
    loss: float
    counted: int = 0
    parts: int = 0
    length: float = LENGTH

    @staticmethod
    def begin(start: FloatArray, loss: float) -> Walk:
        """Nothing visited yet."""
        return Walk(start, start, start, loss)


def step(walk: Walk, scale: FloatArray, slope: FloatArray, counts: bool) -> Walk:
    """One step, and the mean with it.

    U ← U − ℓ R Rᵀ g,  Ū ← Ū + (U − Ū)/(t + 1)
    R scale, g slope of −log posterior as the part tells it for all rows, ℓ walk.length, Ū walk.mean,
    t walk.counted. Shapes: scale (m, m), slope (m, k).  Cost: 4 m² k flops.
    Source: Polyak and Juditsky 1992.
    """
    weights = walk.weights - walk.length * (scale @ (scale.T @ slope))
    counted = walk.counted + counts
    mean = walk.mean + (weights - walk.mean) / counted if counts else weights
    return replace(walk, weights=weights, mean=mean, counted=counted, parts=walk.parts + 1)


def after_pass(walk: Walk, loss: float, passes: int) -> Walk:
    """What a pass leaves: the next one goes on with shorter steps; if it lost, from the best with half of it.

    Steps go on from where they are and not from their mean: they wander already.
    """
    if loss < walk.loss:
        shorter = walk.length * np.sqrt(passes / (passes + 1.0))
        return replace(walk, best=walk.mean, loss=loss, counted=0, length=shorter)
    return replace(walk, weights=walk.best, counted=0, length=0.5 * walk.length)


def walk_parts(
    walk: Walk,
    parts: Sequence[Sequence[Span]],
    scale: FloatArray,
    slope: Callable[[FloatArray, Sequence[Span]], FloatArray],
    loss: Callable[[FloatArray], float],
    order: Callable[[int], IntArray],
    *,
    most_passes: int,
    tolerance: float,
    is_late: Callable[[], bool],
    save: Callable[[Walk], None],
) -> tuple[Walk, int, bool]:
    """Passes until one gains less than ``tolerance`` of the loss; the walk, its passes, and whether it ended.

    ``slope`` and ``loss`` are functions of weights (m, k); ``order`` gives the parts' order in a pass.
    """
    count, every = len(parts), max(1, len(parts) // SAVES)
    while walk.parts < most_passes * count:
        number, place = divmod(walk.parts, count)
        turn = order(number)
        for at in range(place, count):
            if is_late():
                return walk, number + 1, False
            counts = number > 0 or at >= SKIPPED * count
            walk = step(walk, scale, slope(walk.weights, parts[turn[at]]), counts)
            if walk.parts % every == 0 and at + 1 < count:
                save(walk)
        before = walk.loss
        walk = after_pass(walk, loss(walk.mean), number + 1)
        save(walk)
        if before - walk.loss < tolerance * before and number > 0:
            return walk, number + 1, True
    return walk, most_passes, False
