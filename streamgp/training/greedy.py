"""Greedy inclusion: the best candidates move into the active set, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference.active_set import ActiveSet, Candidates, catch_up, include
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.passes.blas import single_threaded_blas
from streamgp.selection import IVM

TIE = 1e-9
"""Scores this close to the best one, relative to it, tie for the first pick."""


class Learner(NamedTuple):
    """One latent function that learns: its active set, its candidates, its likelihood."""

    active: ActiveSet
    candidates: Candidates
    likelihood: Likelihood


Enough = Callable[[Sequence[ActiveSet]], bool]


def grow(
    learners: Sequence[Learner],
    kernel: Kernel,
    selection: IVM,
    until: int,
    generator: np.random.Generator,
    enough: Enough | None = None,
) -> list[ActiveSet]:
    """Include candidates until there are ``until`` active rows, or none that could enter; buffers in place.

    Several learners (with the same candidate rows) share their active rows: the best candidate is that of the
    largest sum of scores. ``enough`` is asked every few inclusions whether to stop before.
    Source: [IVM2003] algorithm 1, [IVM2006] algorithm 1; the delay is the papers' delayed updating of stubs.
    """
    exact = selection.hot is None or selection.hot >= len(learners[0].candidates.rows)
    # Small products of NumPy's BLAS and of SciPy's alternate here, and their thread pools wait for each
    # other: one thread is seven times faster than two.
    with single_threaded_blas():
        while learners[0].active.count < until:
            since = learners[0].active.count
            stop = min(until, since + selection.delay)
            grow_some = _grow_window if exact else _grow_hottest
            learners = grow_some(learners, kernel, selection, stop, generator)
            actives = [learner.active for learner in learners]
            if actives[0].count < stop or (enough is not None and enough(actives)):
                break
    return [learner.active for learner in learners]


def _grow_hottest(
    learners: Sequence[Learner], kernel: Kernel, selection: IVM, stop: int, generator: np.random.Generator
) -> list[Learner]:
    """Inclusions from the hottest candidates only, all others brought up to date afterwards."""
    since = learners[0].active.count
    total, _ = _scored(learners, selection)
    assert selection.hot is not None
    slots = np.sort(np.argpartition(-total, selection.hot)[: selection.hot])  # in the order of rows
    windows = [learner._replace(candidates=learner.candidates.window(slots, stop)) for learner in learners]
    grown = _grow_window(windows, kernel, selection, stop, generator)
    updated = []
    for learner, window in zip(learners, grown, strict=True):
        learner.candidates.available[slots] = window.candidates.available
        catch_up(window.active, learner.candidates, kernel, since)
        updated.append(learner._replace(active=window.active))
    return updated


def _grow_window(
    learners: Sequence[Learner], kernel: Kernel, selection: IVM, stop: int, generator: np.random.Generator
) -> list[Learner]:
    """Inclusions with all candidates of the learners kept current."""
    learners, inputs = list(learners), learners[0].candidates.inputs
    columns = kernel.prepared(inputs)
    while learners[0].active.count < stop:
        total, sites = _scored(learners, selection)
        slot = int(np.argmax(total))  # the lowest row among equals
        if total[slot] == -np.inf:
            break
        if learners[0].active.count == 0:
            # Where all scores are equal (a stationary kernel), the first pick is as good as any.
            slot = int(generator.choice(np.flatnonzero(total >= total[slot] * (1.0 - TIE))))
        column = columns.block(inputs[slot : slot + 1])[0]
        for number, learner in enumerate(learners):
            precision, precision_mean = (float(site[slot]) for site in sites[number])
            if precision <= selection.least_precision:  # possible only where others wanted this row
                precision = selection.least_precision
                precision_mean = precision * float(learner.candidates.mean[slot])
            active = include(learner.active, learner.candidates, slot, column, precision, precision_mean)
            learners[number] = learner._replace(active=active)
    return learners


def _scored(
    learners: Sequence[Learner], selection: IVM
) -> tuple[FloatArray, list[tuple[FloatArray, FloatArray]]]:
    """Summed scores (−inf for rows of no use) and the sites that inclusions would set, by learner."""
    total, sites = None, []
    for _, window, likelihood in learners:
        scores, precision, precision_mean = selection.candidate_scores(
            likelihood, window.targets, window.mean, window.variance, window.weights
        )
        total = scores if total is None else _sum(total, scores)
        sites.append((precision, precision_mean))
    assert total is not None
    return np.where(learners[0].candidates.available, total, -np.inf), sites


def _sum(one: FloatArray, other: FloatArray) -> FloatArray:
    """The sum of scores, where −inf stands for nothing to add."""
    return np.where(np.isneginf(one), other, np.where(np.isneginf(other), one, one + other))
