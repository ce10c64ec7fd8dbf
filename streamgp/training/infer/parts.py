"""The mode of a large store in few passes: every part of it makes a step, and the steps are averaged.

A part is some of the spans, from all over the store, so that its rows stand for all of them. Steps are of
one length in coordinates in which the curvature of a sample is round: they come near the mode fast and then
wander around it, because each part has its own idea of where it lies; the mean of where they were lies nearer
than any of them. Rows held out say after each pass whether another one pays.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from streamgp.arrays import FloatArray, IntArray
from streamgp.data import Rows, Span
from streamgp.training.codec import record

PART_ROWS, ROWS_PER_INDUCING = 8192, 4
"""Rows of a part of the store: at least so many, and so many for each inducing input, to know their slope."""
MOST_PARTS = 512
FEWEST_PARTS = 32
"""Parts of a store with which it pays to let each of them make a step."""
TASKS_PER_PART = 16
"""Tasks of a part, where chunks are small enough: a step waits for the last one, so few leave cores idle."""
AHEAD = 3
"""Slopes at most that are under way beside the one that the next step waits for, so that no worker waits for
the trip of a step: each is taken at weights so many steps old."""
FRESH = 16
"""Steps between two checkpoints for each slope asked for ahead: fewer lose too much by old slopes."""
LENGTH = 0.2
"""Of a step in the first pass, relative to the one that would lead to the mode if the sample knew all."""
CHECKS = 16
"""Looks at some of the rows held out within a pass,"""
WORSE = 1.2
"""and the ratio of their loss to the least so far that tells that steps are too long."""
GROWTH = 1.15
"""How much longer steps become after a look that is content, up to what they may be."""
SAVES = 4
"""Checkpoints within a pass: there are many parts, and what is written is large."""
SKIPPED = 0.5
"""Share of the first pass that is spent on the way, and is not averaged."""
MOST_LOST = 2
"""Passes that may lose before no other is tried."""


def parts_of(rows: Rows, n_inducing: int) -> list[list[Span]]:
    """The spans of a store in parts, each from all over it: rows may be sorted. None where rows are few."""
    wanted = max(PART_ROWS, ROWS_PER_INDUCING * n_inducing, rows.n_rows // MOST_PARTS)
    spans = list(rows.cut(min(rows.span_rows, wanted // TASKS_PER_PART)).spans())
    count = min(rows.n_rows // wanted, len(spans))
    return [spans[part::count] for part in range(count)] if count >= FEWEST_PARTS else []


def steps_ahead(count: int) -> int:
    """Slopes asked for ahead in passes of ``count`` parts: the same on threads and on any cluster."""
    return min(AHEAD, count // SAVES // FRESH)


@record
@dataclass(frozen=True, eq=False)
class Walk:
    """Steps under way: where they are, the mean of where they were in this pass, and of how many.

    ``best`` is the mean of the best pass so far, and ``loss`` that of the rows that judge; ``safe`` is where
    the last look was content, and ``lowest`` the least loss of all looks. ``parts`` counts the parts visited
    in all passes, ``lost`` the passes that did not gain; ``length`` is that of a step.
    Shapes: weights, mean, best, safe (m, k).
    """

    weights: FloatArray
    mean: FloatArray
    best: FloatArray
    loss: float
    safe: FloatArray
    lowest: float
    counted: int = 0
    parts: int = 0
    lost: int = 0
    length: float = LENGTH

    @staticmethod
    def begin(start: FloatArray, loss: float, look: float) -> Walk:
        """Nothing visited yet; the losses of the start by all who judge, and by those of a look."""
        return Walk(start, start, start, loss, start, look)


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


def longest(passes: int) -> float:
    """Length of a step at most, after so many passes."""
    return LENGTH / math.sqrt(passes + 1.0)


def after_look(walk: Walk, loss: float, passes: int) -> Walk:
    """Go on, a little longer, or if steps were too long, back to where they were not, with half of it."""
    if loss <= WORSE * walk.lowest:
        length = min(GROWTH * walk.length, longest(passes))
        return replace(walk, safe=walk.weights, lowest=min(loss, walk.lowest), length=length)
    return replace(walk, weights=walk.safe, mean=walk.safe, counted=0, length=0.5 * walk.length)


def after_pass(walk: Walk, loss: float, passes: int) -> Walk:
    """What a pass leaves: the next has shorter steps; if this one lost, half of them, and from the best.

    Steps go on from where they are and not from their mean: they wander already.
    """
    if loss < walk.loss:
        length = min(walk.length, longest(passes))
        return replace(walk, best=walk.mean, loss=loss, counted=0, length=length)
    lost = walk.lost + 1
    return replace(walk, weights=walk.best, safe=walk.best, counted=0, lost=lost, length=0.5 * walk.length)


Slope = Callable[[FloatArray, Sequence[Span]], FloatArray]
"""Slope of −log posterior at weights (m, k), as some spans tell it for all rows."""


Ask = Callable[[FloatArray, Sequence[Span]], Callable[[], FloatArray]]
"""Has a slope computed, and returns what waits for it."""


class Judge(NamedTuple):
    """Losses of weights: by all rows that judge, and by a few of them."""

    loss: Callable[[FloatArray], float]
    look: Callable[[FloatArray], float]


def walk_parts(
    walk: Walk,
    parts: Sequence[Sequence[Span]],
    scale: FloatArray,
    slope: Slope,
    judge: Judge,
    order: Callable[[int], IntArray],
    *,
    at_once: int,
    most_passes: int,
    tolerance: float,
    is_late: Callable[[], bool],
    save: Callable[[Walk], None],
) -> tuple[Walk, int, bool]:
    """Passes until one gains less than ``tolerance`` of the loss; the walk, its passes, and whether it ended.

    ``slope`` is a function of weights (m, k), ``at_once`` of them are computed side by side; ``order`` gives
    the parts' order in a pass.
    """
    count = len(parts)
    every = max(1, count // SAVES)
    with _asking(slope, at_once) as ask:
        while walk.parts < most_passes * count:
            number, place = divmod(walk.parts, count)
            end = min(count, every * (place // every + 1))
            following = [parts[part] for part in order(number)[place:end]]
            walk, is_whole = _stretch(walk, following, count, scale, ask, judge, is_late)
            if not is_whole:
                return walk, number + 1, False
            if end < count:
                save(walk)
                continue
            before = walk
            walk = after_pass(walk, judge.loss(walk.mean), number + 1)
            save(walk)
            gains = walk.lost == before.lost
            little = gains and number and before.loss - walk.loss < tolerance * before.loss
            if walk.lost >= MOST_LOST or little:
                return walk, number + 1, True
    return walk, most_passes, False


def _stretch(
    walk: Walk,
    following: Sequence[Sequence[Span]],
    count: int,
    scale: FloatArray,
    ask: Ask,
    judge: Judge,
    is_late: Callable[[], bool],
) -> tuple[Walk, bool]:
    """The steps of some parts of a pass of ``count``, and whether there was time for all of them.

    Which weights a slope is taken at follows from the number of its part alone: those of ``steps_ahead``
    steps before, of the beginning for the first ones, of the way back for the first ones after it.
    """
    looks, ahead = max(1, count // CHECKS), steps_ahead(count)
    waiting: deque[Callable[[], FloatArray]] = deque()
    for done in range(len(following)):
        if is_late():
            return walk, False
        for part in following[done + len(waiting) : done + ahead + 1]:
            waiting.append(ask(walk.weights, part))
        number, place = divmod(walk.parts, count)
        counts = number > 0 or place >= SKIPPED * count
        walk = step(walk, scale, waiting.popleft()(), counts)
        if (place + 1) % looks == 0:
            looked = after_look(walk, judge.look(walk.weights), number)
            if looked.weights is not walk.weights:
                waiting.clear()  # they were taken where steps had led astray
            walk = looked
    return walk, True


@contextmanager
def _asking(slope: Slope, at_once: int) -> Iterator[Ask]:
    """Slopes side by side; where there is one at a time, each is computed when it is wanted.

    A thread for it would take turns with those that compute: a fifth of the time where steps are short.
    """
    if at_once == 1:
        yield partial(partial, slope)
        return
    with ThreadPoolExecutor(at_once) as pool:
        yield lambda weights, part: pool.submit(copy_context().run, slope, weights, part).result
