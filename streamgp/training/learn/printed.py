"""Learning as the papers of the IVM print it: by the criterion of all rows, or by errors of rows held out.

[IVM2006] section 3.3: a major step selects active rows anew, minor steps descend in the criterion φ of all
rows with the active set fixed. [IVM2003] section 4: a list of kernels, each judged by its errors.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference import Sites, filter_sites
from streamgp.inference.active_set import ActiveSet
from streamgp.inference.criterion import Criterion, begin_criterion, end_criterion, merge_sums
from streamgp.inference.criterion_rows import CriterionRows
from streamgp.kernels import Constant, Kernel
from streamgp.likelihoods import Likelihood
from streamgp.passes.run import run_pass
from streamgp.passes.sites import SiteSweep
from streamgp.selection.printed import IVM2003, IVM2006
from streamgp.training.codec import record
from streamgp.training.judge import marginals_in_memory
from streamgp.training.optimise import (
    Evaluations,
    descend,
    logged,
    minus_log_posterior,
    pack,
    pack_bounds,
    unpack,
)
from streamgp.training.printed import Grown, Labelled, grow_printed, labelled
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Save, Stage
from streamgp.training.starts import Starts

SETTLED = 1e-3
"""Largest change of a log parameter in a round after which no further round is needed."""
VALIDATED_ROWS = 5000
"""Rows on which each kernel of a list is tried [IVM2003] section 4,"""
VALIDATED_ACTIVE = 500
"""and active rows of such a trial, at most: the paper does not say how many."""


@record
@dataclass(frozen=True, eq=False)
class MajorSteps:
    """How many rounds are done, and the evaluations of the round under way."""

    round: int = 0
    evaluations: Evaluations = field(default_factory=dict)


def learn_as_printed(selection: IVM2006, strategy: str) -> Stage:
    """Rounds of a selection and of minor steps, over all rows and with all active rows that are asked for.

    ``strategy``: sites stay as they are in a round ("constant"), are set anew before every search direction
    ("hybrid") or at every evaluation ("exact").
    """

    def step(
        problem: Problem, draft: Draft, own: MajorSteps, save: Save
    ) -> tuple[Draft, MajorSteps | None, dict[str, Any]]:
        active = _selected(problem, selection, draft)
        before = pack(draft.kernel, draft.likelihoods)
        after, value = _minor_steps(problem, selection, strategy, draft, active, own, save)
        kernel, likelihoods = unpack(draft.kernel, draft.likelihoods, after)
        moved = float(np.max(np.abs(after - before)))
        following = own.round + 1
        done = following >= selection.rounds or moved < SETTLED or problem.is_late()
        told = {"criterion": value, "moved": moved, "kernel": repr(kernel), "strategy": strategy}
        draft = replace(draft, kernel=kernel, likelihoods=likelihoods)
        return draft, None if done else MajorSteps(following), told

    return Stage("learn: criterion of all rows", lambda problem, draft: MajorSteps(), step)


def _selected(problem: Problem, selection: IVM2006, draft: Draft) -> ActiveSet:
    """A major step: active rows under the draft's parameters, from scratch."""
    choice = labelled(problem)
    begun = Grown(ActiveSet.empty(0, choice.inputs.shape[1]), np.arange(len(choice.rows)))
    # The same stream in every round: what changes is to be the parameters' doing.
    generator = problem.generator(len(choice.rows))
    size = problem.plan.n_active
    grown = grow_printed(selection, draft.kernel, draft.likelihoods[0], choice, begun, size, generator)
    return grown.active.trimmed()


def _minor_steps(
    problem: Problem,
    selection: IVM2006,
    strategy: str,
    draft: Draft,
    active: ActiveSet,
    own: MajorSteps,
    save: Save,
) -> tuple[FloatArray, float]:
    """Minimise φ plus hyperpriors with the active set fixed."""
    start, value = pack(draft.kernel, draft.likelihoods), np.inf
    bounds = pack_bounds(draft.kernel, draft.likelihoods)
    sites = active.sites

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        kernel, (likelihood,) = unpack(draft.kernel, draft.likelihoods, vector)
        own_sites = _refiltered(kernel, likelihood, active) if strategy == "exact" else sites
        found = criterion_of_all_rows(problem, kernel, likelihood, active, own_sites)
        prior = kernel.log_prior(active.inputs.shape[1])
        return minus_log_posterior(prior, (likelihood,), [found], sign=1.0)

    log = logged(objective, own.evaluations, lambda arrays: save(replace(own, evaluations=arrays)))
    turns, steps = (selection.minor_steps, 1) if strategy == "hybrid" else (1, selection.minor_steps)
    for _ in range(turns):
        start, value = descend(log, start, bounds, steps, 3 * selection.minor_steps, problem.is_late)
        if strategy == "hybrid":
            kernel, (likelihood,) = unpack(draft.kernel, draft.likelihoods, start)
            sites = _refiltered(kernel, likelihood, active)
    return start, value


def criterion_of_all_rows(
    problem: Problem, kernel: Kernel, likelihood: Likelihood, active: ActiveSet, sites: Sites
) -> Criterion:
    """φ and its gradient with all rows of the store that are not active as candidates: one pass.

    Oracle: :func:`streamgp.inference.criterion.criterion` on rows in memory.
    """
    d = active.count
    begun = begin_criterion(kernel, likelihood, active.inputs[:d], active.targets[:d], sites)
    left_out = np.union1d(active.rows[:d], problem.excluded)
    step = CriterionRows(begun, problem.prepared.targets, 0, left_out)
    _, [sums] = run_pass(
        problem.prepared.rows,
        SiteSweep(step, merge_sums),
        replace(problem.pass_settings, tasks_in_flight=problem.plan.criterion_workers),
        reading=problem.prepared.reading(np.float64),
        label="criterion",
    )
    return end_criterion(begun, sums)


def _refiltered(kernel: Kernel, likelihood: Likelihood, active: ActiveSet) -> Sites:
    gram = kernel.gram(active.inputs[: active.count]).astype(np.float64, copy=False)
    return filter_sites(gram, active.targets[: active.count], likelihood)


@record
@dataclass(frozen=True, eq=False)
class Tried:
    """Errors of the kernels tried so far, as shares of the rows held out."""

    errors: tuple[float, ...] = ()


def choose_by_errors(selection: IVM2003, starts: Starts) -> Stage:
    """The kernel of a list with the fewest errors on rows held out, learned from 5000 rows; one a step."""
    return Stage("learn: errors", lambda problem, draft: Tried(), partial(_try_next, selection, starts))


def _try_next(
    selection: IVM2003, starts: Starts, problem: Problem, draft: Draft, own: Tried, save: Save
) -> tuple[Draft, Tried | None, dict[str, Any]]:
    kernels = starts.kernels(problem)
    if not len(problem.held_out.rows):
        return draft, None, {"kernel": repr(draft.kernel)}
    kernel = kernels[len(own.errors)]
    choice = labelled(problem, np.sort(problem.sample_order(VALIDATED_ROWS)))
    with_bias = kernel + Constant(selection.bias_variance)
    error = _error(problem, selection, with_bias, draft.likelihoods[0], choice)
    own = Tried((*own.errors, error))
    told = {"kernel": repr(kernel), "error": error}
    if len(own.errors) < len(kernels) and not problem.is_late():
        return draft, own, told
    return replace(draft, kernel=kernels[int(np.argmin(own.errors))]), None, told


def _error(
    problem: Problem, selection: IVM2003, kernel: Kernel, likelihood: Likelihood, choice: Labelled
) -> float:
    """Share of rows held out that a selection from the given rows gets wrong."""
    begun = Grown(ActiveSet.empty(0, choice.inputs.shape[1]), np.arange(len(choice.rows)))
    size = min(problem.plan.n_active, VALIDATED_ACTIVE, len(choice.rows))
    generator = problem.generator(len(choice.rows))  # the same for every kernel
    active = grow_printed(selection, kernel, likelihood, choice, begun, size, generator).active
    held_out = problem.held_out
    found = marginals_in_memory(active.snapshot(kernel), held_out.features, problem)
    assert found.variance is not None
    targets = problem.head_targets(held_out.targets, 0)
    densities = likelihood.log_predictive_density(targets, found.mean[:, 0], found.variance[:, 0])
    return float(np.mean(densities < np.log(0.5)))
