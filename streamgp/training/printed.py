"""Greedy growth with a selection index J as the papers of the IVM print it, rows in memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamgp.arrays import FloatArray, Floats, IntArray
from streamgp.inference.active_set import ActiveSet, Candidates, catch_up, include, refresh_factor
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.selection.printed import PrintedIVM
from streamgp.training.greedy import Learner, grow
from streamgp.training.problem import Problem


class Labelled(NamedTuple):
    """Rows to choose from, in ascending order: their numbers, inputs (n, p), targets and weights (n,)."""

    rows: IntArray
    inputs: Floats
    targets: FloatArray
    weights: FloatArray


class Grown(NamedTuple):
    """An active set, and J as places among the rows to choose from; ``is_done``: no row would help."""

    active: ActiveSet
    places: IntArray
    is_done: bool = False


def grow_printed(
    selection: PrintedIVM,
    kernel: Kernel,
    likelihood: Likelihood,
    choice: Labelled,
    start: Grown,
    until: int,
    generator: np.random.Generator,
) -> Grown:
    """Grow an active set to ``until`` rows; J changes as the selection says.

    Stubs of J are computed anew at the beginning, so that the result does not depend on how the growth is cut
    into calls beyond rounding, and those of a row that enters J when it enters: the papers' delayed updating,
    without their store of all stubs.  Source: [IVM2003] section 3, [IVM2006] section 3.2.
    """
    active = start.active.with_capacity(until)
    places = start.places
    if active.count:
        refresh_factor(active, kernel)
    else:  # J must fit before the first inclusion
        flat, free = np.zeros(len(places)), np.ones(len(places), np.bool_)
        places = places[selection.kept(0, flat, free, generator)]
    stop = min(until, selection.stays_until(active.count))
    window = _candidates(kernel, choice, places, active, stop)
    while active.count < until:
        before = active.count
        if before < selection.n_random:
            active = _drawn(selection, kernel, likelihood, window, active, generator)
        if active.count < stop and window.available.any():
            learner = Learner(active, window, likelihood)
            [active] = grow([learner], kernel, selection.greedy, stop, generator)
        if active.count == before:
            return Grown(active, places, is_done=True)
        stop = min(until, selection.stays_until(active.count))
        window, places = _next_window(
            selection, kernel, likelihood, choice, window, places, active, stop, generator
        )
    return Grown(active, places)


def _candidates(
    kernel: Kernel, choice: Labelled, places: IntArray, active: ActiveSet, capacity: int
) -> Candidates:
    """Rows of J with stubs of all active rows."""
    window = Candidates.new(
        choice.rows[places],
        choice.inputs[places],
        choice.targets[places],
        kernel,
        capacity,
        choice.weights[places],
    )
    catch_up(active, window, kernel, since=0)
    return window


def _drawn(
    selection: PrintedIVM,
    kernel: Kernel,
    likelihood: Likelihood,
    window: Candidates,
    active: ActiveSet,
    generator: np.random.Generator,
) -> ActiveSet:
    """The first rows, at random."""
    count = min(selection.n_random, len(active.rows)) - active.count
    for slot in generator.choice(np.flatnonzero(window.available), count, replace=False):
        _, precision, precision_mean = selection.greedy.candidate_scores(
            likelihood, window.targets, window.mean, window.variance, window.weights
        )
        column = kernel.block(window.inputs, window.inputs[slot : slot + 1])[:, 0]
        site = max(float(precision[slot]), selection.least_precision), float(precision_mean[slot])
        active = include(active, window, int(slot), column, *site)
    return active


def _next_window(
    selection: PrintedIVM,
    kernel: Kernel,
    likelihood: Likelihood,
    choice: Labelled,
    window: Candidates,
    places: IntArray,
    active: ActiveSet,
    capacity: int,
    generator: np.random.Generator,
) -> tuple[Candidates, IntArray]:
    """J after a change: what stays of it, with rows at random from outside."""
    scores, _, _ = selection.greedy.candidate_scores(
        likelihood, window.targets, window.mean, window.variance, window.weights
    )
    slots = selection.kept(active.count, scores, window.available, generator)
    stay = places[slots]
    wanted = selection.n_fresh(active.count, len(stay))
    staying = window.window(slots, capacity)
    if not wanted:
        return staying, stay
    outside = np.ones(len(choice.rows), np.bool_)
    outside[stay] = False
    outside[np.searchsorted(choice.rows, active.rows[: active.count])] = False
    others = np.flatnonzero(outside)
    fresh = np.sort(generator.choice(others, min(wanted, len(others)), replace=False))
    entering = _candidates(kernel, choice, fresh, active, capacity)
    order = np.argsort(np.concatenate([stay, fresh]), kind="stable")
    return _joined(staying, entering, order), np.concatenate([stay, fresh])[order]


def _joined(one: Candidates, other: Candidates, order: IntArray) -> Candidates:
    """Candidates of both, in the given order."""
    fields = Candidates.__dataclass_fields__
    return Candidates(*(np.concatenate([getattr(one, f), getattr(other, f)])[order] for f in fields))


def labelled(problem: Problem, places: IntArray | None = None) -> Labelled:
    """The sample's rows (or those at some places, in ascending order) as the model of one head sees them."""
    sample = problem.sample if places is None else problem.sample.take(places)
    weights = problem.weights.of_rows(sample.rows, sample.targets)
    return Labelled(
        sample.rows, problem.inputs(sample.features), problem.head_targets(sample.targets, 0), weights
    )
