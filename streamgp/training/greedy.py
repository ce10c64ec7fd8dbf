"""Greedy inclusion: the best candidates move into the active set, one after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from streamgp.inference.active_set import ActiveSet, Candidates, catch_up, include
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.passes.blas import single_threaded_blas
from streamgp.selection import IVM

FloatArray = NDArray[np.float64]

TIE = 1e-9
"""Scores this close to the best one, relative to it, tie for the first pick."""


def grow(
    active: ActiveSet,
    candidates: Candidates,
    kernel: Kernel,
    likelihood: Likelihood,
    selection: IVM,
    until: int,
    generator: np.random.Generator,
    enough: Callable[[ActiveSet], bool] | None = None,
) -> ActiveSet:
    """Include candidates until there are ``until`` active rows, or none that could enter; buffers in place.

    ``enough`` is asked every few inclusions whether to stop before.
    Source: [IVM2003] algorithm 1, [IVM2006] algorithm 1; the delay is the papers' delayed updating of stubs.
    """
    exact = selection.hot is None or selection.hot >= len(candidates.rows)
    # Inclusions alternate between small products of NumPy's BLAS and SciPy's, whose thread pools wait for
    # each other: one thread is seven times faster than two.
    with single_threaded_blas():
        return _grow(active, candidates, kernel, likelihood, selection, until, generator, enough, exact)


def _grow(
    active: ActiveSet,
    candidates: Candidates,
    kernel: Kernel,
    likelihood: Likelihood,
    selection: IVM,
    until: int,
    generator: np.random.Generator,
    enough: Callable[[ActiveSet], bool] | None,
    exact: bool,
) -> ActiveSet:
    while active.count < until:
        since, stop = active.count, min(until, active.count + selection.delay)
        window, slots = candidates, None
        if not exact:
            slots = _hottest(candidates, likelihood, selection)
            window = candidates.window(slots, stop)
        active = _grow_window(active, window, kernel, likelihood, selection, stop, generator)
        if slots is not None:
            candidates.available[slots] = window.available
            catch_up(active, candidates, kernel, since)
        if active.count < stop or (enough is not None and enough(active)):
            break
    return active


def _scored(
    window: Candidates, likelihood: Likelihood, selection: IVM
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Scores of a window (−inf for rows that are active already) and the sites inclusions would set."""
    scores, precision, precision_mean = selection.candidate_scores(
        likelihood, window.targets, window.mean, window.variance
    )
    return np.where(window.available, scores, -np.inf), precision, precision_mean


def _hottest(candidates: Candidates, likelihood: Likelihood, selection: IVM) -> NDArray[np.int64]:
    """Slots of the best scores, in the order of rows."""
    scores, _, _ = _scored(candidates, likelihood, selection)
    assert selection.hot is not None
    return np.sort(np.argpartition(-scores, selection.hot)[: selection.hot])


def _grow_window(
    active: ActiveSet,
    window: Candidates,
    kernel: Kernel,
    likelihood: Likelihood,
    selection: IVM,
    stop: int,
    generator: np.random.Generator,
) -> ActiveSet:
    while active.count < stop:
        scores, precision, precision_mean = _scored(window, likelihood, selection)
        slot = int(np.argmax(scores))  # the lowest row among equals
        if scores[slot] == -np.inf:
            break
        if active.count == 0:
            # Where all scores are equal (a stationary kernel), the first pick is as good as any.
            slot = int(generator.choice(np.flatnonzero(scores >= scores[slot] * (1.0 - TIE))))
        active = include(active, window, slot, kernel, float(precision[slot]), float(precision_mean[slot]))
    return active
