"""Work on the active sets of several heads at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import TypeVar

import numpy as np

from streamgp.arrays import FloatArray, IntArray
from streamgp.errors import NotConvergedWarning
from streamgp.inference import Propagated, Sites, expectation_propagation, head_from_sites
from streamgp.inference.active_set import ActiveSet
from streamgp.kernels import ClassKernels, Kernel
from streamgp.likelihoods import Likelihood
from streamgp.passes.run import available_threads
from streamgp.posterior import ClassesSnapshot, Head, Snapshot
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft

T = TypeVar("T")

MATRICES = 4
"""Matrices (d, d) that work on one head holds at once."""


def side_by_side(problem: Problem, function: Callable[[int], T], count: int) -> list[T]:
    """The function of 0, 1, ..., on as many threads as the memory of the plan allows; in order."""
    plan = problem.plan
    room = plan.candidate_share // max(1, MATRICES * 8 * plan.n_active**2)
    with ThreadPoolExecutor(max(1, min(available_threads(), count, 1 + room))) as pool:
        # Each call in a context of its own, so that a limit of threads holds inside too.
        calls = [pool.submit(copy_context().run, function, number) for number in range(count)]
        return [call.result() for call in calls]


def active_set(
    rows: IntArray,
    inputs: FloatArray,
    targets: FloatArray,
    sites: Sites,
    weights: FloatArray | None = None,
) -> ActiveSet:
    """Rows and their sites as they are kept between steps, without a factor; each counts once by default."""
    size = len(rows)
    weights = np.ones(size) if weights is None else weights
    return ActiveSet(
        rows, inputs, targets, *sites, np.zeros((0, 0)), np.zeros(size), weights=weights, count=size
    )


def with_inducing(draft: Draft, inputs: FloatArray, rows: IntArray | None = None) -> Draft:
    """The draft with inducing inputs that all heads share; rows are −1 where they are none of the store."""
    size = len(inputs)
    flat = Sites(np.zeros(size), np.zeros(size))
    shared = active_set(np.full(size, -1) if rows is None else rows, inputs, np.zeros(size), flat)
    return replace(draft, actives=(shared,) * len(draft.likelihoods))


def inducing_of(draft: Draft) -> FloatArray:
    """The inducing inputs, which all heads share."""
    first = draft.actives[0]
    return first.inputs[: first.count]


def make_snapshot(draft: Draft) -> Snapshot:
    """The posterior of the active sets in float64; rows that all heads share are held once."""
    first = draft.actives[0]
    shared = all(np.array_equal(a.rows[: a.count], first.rows[: first.count]) for a in draft.actives)
    inputs, heads, start = [], [], 0
    for active, calibration in zip(draft.actives, draft.calibrations, strict=True):
        own = active.inputs[: active.count]
        columns = slice(0, len(own)) if shared else slice(start, start + len(own))
        head = head_from_sites(draft.kernel.gram(own).astype(np.float64, copy=False), active.sites, columns)
        heads.append(Head(head.projection, head.projected_targets, columns, calibration))
        inputs.append(own)
        start += len(own)
    return Snapshot(draft.kernel, inputs[0] if shared else np.concatenate(inputs), tuple(heads))


def make_classes_snapshot(draft: Draft, kernels: ClassKernels) -> ClassesSnapshot:
    """The posterior of active sets of classes that have a kernel each, in float64."""
    heads = zip(kernels, draft.actives, draft.calibrations, strict=True)
    return ClassesSnapshot(
        tuple(
            make_snapshot(replace(draft, kernel=kernel, actives=(active,), calibrations=(calibration,)))
            for kernel, active, calibration in heads
        )
    )


def snapshot_of(draft: Draft) -> Snapshot:
    """The posterior of a draft in float64: of inference over all rows where there was any."""
    if draft.sweeps is None:
        return make_snapshot(draft)
    found: Snapshot = draft.sweeps.snapshot(draft.kernel, inducing_of(draft), draft.calibrations)
    return found


def propagate(kernel: Kernel, likelihood: Likelihood, active: ActiveSet, tolerance: float) -> Propagated:
    """Expectation propagation on an active set, from the sites it has."""
    gram = kernel.gram(active.inputs[: active.count]).astype(np.float64, copy=False)
    targets, weights = active.targets[: active.count], active.weights[: active.count]
    return expectation_propagation(
        gram,
        targets,
        likelihood,
        active.sites,
        None if np.all(weights == 1.0) else weights,
        tolerance=tolerance,
    )


def converged(problem: Problem, draft: Draft, tolerance: float) -> tuple[Draft, list[Propagated]]:
    """The draft with sites at the fixed point of expectation propagation, from those that it has."""

    def one(head: int) -> Propagated:
        return propagate(draft.kernel, draft.likelihoods[head], draft.actives[head], tolerance)

    found = side_by_side(problem, one, problem.n_heads)
    far = [head for head, result in enumerate(found) if not result.converged]
    if far:
        warnings.warn(
            f"expectation propagation did not converge for {len(far)} of {len(found)} latent functions: "
            f"moments are off by {max(found[head].residual for head in far):.1e} (wanted {tolerance:.0e}); "
            f"the best sites met are used. A smaller kernel variance converges more easily.",
            NotConvergedWarning,
            stacklevel=2,
        )
    actives = tuple(
        replace(active, precision=result.sites.precision, precision_mean=result.sites.precision_mean)
        for active, result in zip((active.trimmed() for active in draft.actives), found, strict=True)
    )
    return replace(draft, actives=actives), found
