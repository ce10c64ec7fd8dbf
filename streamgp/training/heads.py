"""Work on the heads' active sets, several at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

import numpy as np

from streamgp.arrays import FloatArray, IntArray
from streamgp.inference import Propagated, Sites, expectation_propagation
from streamgp.inference.active_set import ActiveSet
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.passes.run import available_threads
from streamgp.training.context import Context
from streamgp.training.state import State

T = TypeVar("T")

MATRICES = 4
"""Matrices (d, d) that work on one head holds at once."""


def head_groups(context: Context) -> list[list[int]]:
    """Heads that share their active rows: all of them, or each on its own."""
    every = list(range(context.n_heads))
    return [every] if context.settings.shared else [[head] for head in every]


def side_by_side(context: Context, function: Callable[[int], T], count: int) -> list[T]:
    """The function of 0, 1, ..., on as many threads as the memory of the plan allows; in order."""
    plan = context.plan
    room = plan.candidate_share // max(1, MATRICES * 8 * plan.n_active**2)
    with ThreadPoolExecutor(max(1, min(available_threads(), count, 1 + room))) as pool:
        return list(pool.map(function, range(count)))


def active_set(rows: IntArray, inputs: FloatArray, targets: FloatArray, sites: Sites) -> ActiveSet:
    """Rows and their sites as they are kept between steps, without a factor."""
    return ActiveSet(rows, inputs, targets, *sites, np.zeros((0, 0)), np.zeros(len(rows)), count=len(rows))


def with_inducing(state: State, inputs: FloatArray, rows: IntArray | None = None) -> State:
    """The state with inducing inputs that all heads share; rows are −1 where they are none of the store."""
    size = len(inputs)
    flat = Sites(np.zeros(size), np.zeros(size))
    shared = active_set(np.full(size, -1) if rows is None else rows, inputs, np.zeros(size), flat)
    return replace(state, actives=(shared,) * len(state.likelihoods))


def propagate(kernel: Kernel, likelihood: Likelihood, active: ActiveSet, tolerance: float) -> Propagated:
    """Expectation propagation on an active set, from the sites it has."""
    gram = kernel.gram(active.inputs[: active.count]).astype(np.float64, copy=False)
    targets = active.targets[: active.count]
    return expectation_propagation(gram, targets, likelihood, active.sites, tolerance=tolerance)
