"""Greedy inclusion: the best candidates move into the active set, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.inference.active_set import ActiveSet, Candidates, catch_up, include
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.selection.scores import Score, information_gain

FloatArray = NDArray[np.float64]

TIE = 1e-9
"""Scores this close to the best one, relative to it, tie for the first pick."""


@dataclass(frozen=True)
class Greedy:
    """How inclusions are made.

    ``hot`` candidates of best score are current at every inclusion; all others are brought up to date after
    ``delay`` inclusions, by matrix products instead of matrix-vector ones. ``hot=None`` keeps all current: then
    this is algorithm 1 of the papers, exactly. Sites of less precision than ``least_precision`` are not set.
    """

    score: Score = information_gain
    hot: int | None = 1024
    delay: int = 32
    least_precision: float = 1e-10


class Scored(NamedTuple):
    """Scores of a window (−inf where a candidate cannot enter) and the sites that inclusions would set."""

    scores: FloatArray
    precision: FloatArray
    precision_mean: FloatArray


def score_candidates(window: Candidates, likelihood: Likelihood, greedy: Greedy) -> Scored:
    """Score every candidate by one EP update from its marginal.  Cost: O(s)."""
    _, precision, precision_mean = likelihood.tilted_sites(window.targets, window.mean, window.variance)
    scores = greedy.score(window.mean, window.variance, precision, precision_mean)
    eligible = window.available & (precision > greedy.least_precision) & np.isfinite(scores)
    return Scored(np.where(eligible, scores, -np.inf), precision, precision_mean)


def grow(
    active: ActiveSet,
    candidates: Candidates,
    kernel: Kernel,
    likelihood: Likelihood,
    greedy: Greedy,
    until: int,
    generator: np.random.Generator,
) -> ActiveSet:
    """Include candidates until there are ``until`` active rows, or none that could enter; buffers in place.

    Source: [IVM2003] algorithm 1, [IVM2006] algorithm 1; the delay is the papers' delayed updating of stubs.
    """
    exact = greedy.hot is None or greedy.hot >= len(candidates.rows)
    while active.count < until:
        since = active.count
        stop = until if exact else min(until, since + greedy.delay)
        window, slots = candidates, None
        if not exact:
            slots = _hottest(candidates, likelihood, greedy)
            window = candidates.window(slots, stop)
        active = _grow_window(active, window, kernel, likelihood, greedy, stop, generator)
        if slots is not None:
            candidates.available[slots] = window.available
            catch_up(active, candidates, kernel, since)
        if active.count < stop:
            break
    return active


def _hottest(candidates: Candidates, likelihood: Likelihood, greedy: Greedy) -> NDArray[np.int64]:
    """Slots of the best scores, in the order of rows."""
    scores = score_candidates(candidates, likelihood, greedy).scores
    assert greedy.hot is not None
    return np.sort(np.argpartition(-scores, greedy.hot)[: greedy.hot])


def _grow_window(
    active: ActiveSet,
    window: Candidates,
    kernel: Kernel,
    likelihood: Likelihood,
    greedy: Greedy,
    stop: int,
    generator: np.random.Generator,
) -> ActiveSet:
    while active.count < stop:
        scores, precision, precision_mean = score_candidates(window, likelihood, greedy)
        slot = int(np.argmax(scores))  # the lowest row among equals
        if scores[slot] == -np.inf:
            break
        if active.count == 0:
            # Where all scores are equal (a stationary kernel), the first pick is as good as any.
            slot = int(generator.choice(np.flatnonzero(scores >= scores[slot] * (1.0 - TIE))))
        active = include(active, window, slot, kernel, float(precision[slot]), float(precision_mean[slot]))
    return active
