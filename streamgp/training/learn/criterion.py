"""Learning by the IVM's criterion on a sample: major steps select anew, minor steps descend.

Rounds of [IVM2006] section 3.3: a major step selects active rows from the sample under the present
parameters; minor steps then minimise the criterion φ (plus hyperpriors) by L-BFGS-B, the active set fixed.
A last round tunes the smoothness by what φ only approximates: the density of rows not learned from.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.errors import NumericsWarning
from streamgp.inference import Sites, filter_sites
from streamgp.inference.active_set import ActiveSet, Candidates, left_out_marginals
from streamgp.inference.criterion import criterion
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.selection import IVM
from streamgp.training.codec import record
from streamgp.training.greedy import Learner, grow
from streamgp.training.judge import log_densities, marginals_in_memory
from streamgp.training.optimise import (
    Evaluations,
    descend,
    logged,
    minus_log_posterior,
    pack,
    pack_bounds,
    unpack,
)
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Save, Stage, once
from streamgp.training.starts import Starts

ROUNDS = 15
MINOR_STEPS = 8
SAMPLE_ROWS = 2500
SAMPLE_ACTIVE = 250
SETTLED = 0.02
"""Largest change of a log parameter in a round after which no further round is needed."""
JUDGED_HEADS = 3
HELD_OUT = 0.25
"""Share of a sample that judges the model of the rest."""
FEWEST_JUDGES = 50
TUNING_ROWS = 8000
TUNING_ACTIVE = 500
MOST_TUNING_STEPS = 6


class Task(NamedTuple):
    """One head's learning problem: inputs (n, p) shared by all heads, targets (n,); rows to be judged by."""

    head: int
    inputs: FloatArray
    targets: FloatArray
    held_inputs: FloatArray
    held_targets: FloatArray


@record
@dataclass(frozen=True, eq=False)
class Rounds:
    """How far the rounds have come: the best parameters met, and the density they gave to rows left out.

    ``round`` counts them; ``evaluations`` are those of the round under way.
    """

    round: int = 0
    density: float | None = None
    kernel: Kernel | None = None
    likelihoods: tuple[Likelihood, ...] = ()
    evaluations: Evaluations = field(default_factory=dict)


def choose_start(selection: IVM, starts: Starts | None) -> Stage:
    """The best of several kernels, judged by rows left out; where no starts are given the kernel stays."""

    def work(problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
        tasks = _judging_tasks(problem, SAMPLE_ROWS)
        kernels = [draft.kernel] if starts is None else starts.kernels(problem)
        densities = [
            _judged(problem, selection, replace(draft, kernel=kernel), tasks, SAMPLE_ACTIVE)
            for kernel in kernels
        ]
        kernel = kernels[int(np.argmax(densities))]
        return replace(draft, kernel=kernel), {"kernel": repr(kernel), "log_density": max(densities)}

    return once("learn: start", work)


def learn_by_criterion(selection: IVM, *, strategy: str, tune: bool) -> Stage:
    """Rounds of learning, then (``tune``) the smoothness by rows left out.

    ``strategy``: sites stay as they are in a round ("constant"), are set anew before every search direction
    ("hybrid") or at every evaluation ("exact").
    """
    return Stage(
        "learn: criterion", lambda problem, draft: Rounds(), partial(_round, selection, strategy, tune)
    )


def _round(
    selection: IVM, strategy: str, tune: bool, problem: Problem, draft: Draft, own: Rounds, save: Save
) -> tuple[Draft, Rounds | None, dict[str, Any]]:
    """One major step and its minor steps.

    The criterion can run away where labels are noisy, so every round is judged by what it is for: the density
    of the sample's rows, each as if left out. The first round that is worse ends the learning, and is undone.
    """
    tasks = _learning_tasks(problem)
    selected = _select_heads(problem, selection, draft, tasks, SAMPLE_ACTIVE)
    density = _density(draft, tasks, selected)
    if own.kernel is not None and own.density is not None and density < own.density:
        best = replace(draft, kernel=own.kernel, likelihoods=own.likelihoods)
        return _settled(problem, selection, best, tune)
    if own.round >= ROUNDS or problem.is_late():
        return _settled(problem, selection, draft, tune)
    own = replace(own, density=density, kernel=draft.kernel, likelihoods=draft.likelihoods)
    before = pack(draft.kernel, draft.likelihoods)
    actives = [active for active, _ in selected]
    after, value = _minor_steps(problem, draft, tasks, actives, strategy, own, save)
    moved = float(np.max(np.abs(after - before)))
    _warn_if_stuck(own.round, moved)
    kernel, likelihoods = unpack(draft.kernel, draft.likelihoods, after)
    told = {"criterion": value, "log_density": density, "moved": moved, "kernel": repr(kernel)}
    following = ROUNDS if moved < SETTLED else own.round + 1
    own = replace(own, round=following, evaluations={})
    return replace(draft, kernel=kernel, likelihoods=likelihoods), own, told


def _settled(
    problem: Problem, selection: IVM, draft: Draft, tune: bool
) -> tuple[Draft, None, dict[str, Any]]:
    """The end of learning."""
    kernel = _tuned(problem, selection, draft) if tune and not problem.is_late() else draft.kernel
    return replace(draft, kernel=kernel), None, {"kernel": repr(kernel)}


def _warn_if_stuck(number: int, moved: float) -> None:
    if number == 0 and moved < 1e-6:
        warnings.warn(
            "learning did not move the hyperparameters: they are where they started. Standardise the "
            "features, or start from another kernel.",
            NumericsWarning,
            stacklevel=2,
        )


def _learning_tasks(problem: Problem) -> list[Task]:
    """Every head has parameters to learn: on fewer rows where there are many heads."""
    return _tasks(problem, range(problem.n_heads), max(500, SAMPLE_ROWS // min(problem.n_heads, 5)), 0.0)


def _judging_tasks(problem: Problem, rows: int) -> list[Task]:
    """A kernel is judged by a few heads, on many rows: small samples prefer kernels that are too smooth.

    Where few rows have a label, all of them judge, each as if left out.
    """
    heads = range(0, problem.n_heads, -(-problem.n_heads // JUDGED_HEADS))
    labelled = problem.is_labelled(problem.sample.targets)
    few = not labelled.all() and HELD_OUT * labelled.sum() < FEWEST_JUDGES
    held_out = HELD_OUT if problem.is_classification and not few else 0.0
    return _tasks(problem, heads, round(rows / (1.0 - held_out)), held_out)


def _tasks(problem: Problem, heads: Iterable[int], rows: int, held_out: float) -> list[Task]:
    """The sample's rows of smallest key, a share of those with a label held out.

    Where some have none, those that do are half of all at least, or all that there are.
    """
    order = problem.sample_order()
    labelled = problem.is_labelled(problem.sample.targets[order])
    known, free = order[labelled], order[~labelled]
    known = known[: max(rows // 2, rows - len(free))]
    learners, judges = np.split(known, [len(known) - int(held_out * len(known))])
    parts = [np.sort(np.append(learners, free[: rows - len(known)])), np.sort(judges)]
    inputs, held_inputs = (problem.inputs(problem.sample.features[part]) for part in parts)
    encoded, held_encoded = (problem.sample.targets[part] for part in parts)
    return [
        Task(
            head,
            inputs,
            problem.head_targets(encoded, head),
            held_inputs,
            problem.head_targets(held_encoded, head),
        )
        for head in heads
    ]


def _select_heads(
    problem: Problem, selection: IVM, draft: Draft, tasks: list[Task], n_active: int
) -> list[tuple[ActiveSet, Candidates]]:
    """Active rows of the sample under the draft's parameters, for each task."""
    size = min(n_active, problem.plan.n_active, max(1, len(tasks[0].targets) // 4))
    selected = []
    for task in tasks:
        n_rows, n_features = task.inputs.shape
        candidates = Candidates.new(np.arange(n_rows), task.inputs, task.targets, draft.kernel, size)
        active = ActiveSet.empty(size, n_features)
        # The same stream for every kernel: comparisons are not to be decided by the first pick.
        generator = problem.generator(n_rows)
        learner = Learner(active, candidates, draft.likelihoods[task.head])
        selected.append((grow([learner], draft.kernel, selection, size, generator)[0], candidates))
    return selected


def _density(draft: Draft, tasks: list[Task], selected: list[tuple[ActiveSet, Candidates]]) -> float:
    """Mean log density of rows, calibrated as the model will be: those held out, else all as if left out.

    Selection leaves the easy rows of classes outside, and they prefer kernels that are too smooth: to choose
    the smoothness, rows must be held out.
    """
    total = 0.0
    for task, (active, candidates) in zip(tasks, selected, strict=True):
        if len(task.held_targets):
            targets = task.held_targets
            found = marginals_in_memory(active.snapshot(draft.kernel), task.held_inputs)
            assert found.variance is not None
            mean, variance = found.mean[:, 0], found.variance[:, 0]
        else:
            marginals = (candidates.mean, candidates.variance)
            mean, variance = left_out_marginals(active, draft.kernel, candidates.rows, *marginals)
            targets = candidates.targets
            labelled = targets != 0.0 if draft.likelihoods[task.head].takes_unlabelled else slice(None)
            mean, variance, targets = mean[labelled], variance[labelled], targets[labelled]
        likelihood = draft.likelihoods[task.head]
        total += float(np.mean(log_densities(likelihood, targets, mean, variance, calibrated=True)))
    return total / len(selected)


def _judged(problem: Problem, selection: IVM, draft: Draft, tasks: list[Task], n_active: int) -> float:
    """Select under the draft's parameters, then judge them."""
    return _density(draft, tasks, _select_heads(problem, selection, draft, tasks, n_active))


def _minor_steps(
    problem: Problem,
    draft: Draft,
    tasks: list[Task],
    actives: list[ActiveSet],
    strategy: str,
    own: Rounds,
    save: Save,
) -> tuple[FloatArray, float]:
    """Minimise φ with the active sets fixed.

    Sites are fixed too, one run of L-BFGS-B; or they are set anew, in the order of the active set, before
    every search direction ("hybrid") or at every evaluation ("exact", whose gradient does not know it).
    Source: [IVM2006] section 3.3.
    """
    start = pack(draft.kernel, draft.likelihoods)
    bounds = pack_bounds(draft.kernel, draft.likelihoods)
    sites = [active.sites for active in actives]
    value = np.inf

    def refiltered(vector: FloatArray) -> list[Sites]:
        kernel, likelihoods = unpack(draft.kernel, draft.likelihoods, vector)
        return [_refiltered(kernel, like, a) for like, a in zip(likelihoods, actives, strict=True)]

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        own_sites = refiltered(vector) if strategy == "exact" else sites
        return penalised_criterion(draft, tasks, actives, own_sites, vector, problem.plan.criterion_workers)

    log = logged(objective, own.evaluations, lambda arrays: save(replace(own, evaluations=arrays)))
    turns, steps = (MINOR_STEPS, 1) if strategy == "hybrid" else (1, MINOR_STEPS)
    for _ in range(turns):
        start, value = descend(log, start, bounds, steps, 3 * MINOR_STEPS, problem.is_late)
        if strategy == "hybrid":
            sites = refiltered(start)
    return start, value


def _refiltered(kernel: Kernel, likelihood: Likelihood, active: ActiveSet) -> Sites:
    gram = kernel.gram(active.inputs[: active.count]).astype(np.float64, copy=False)
    return filter_sites(gram, active.targets[: active.count], likelihood)


def penalised_criterion(
    draft: Draft,
    tasks: list[Task],
    actives: list[ActiveSet],
    sites: list[Sites],
    vector: FloatArray,
    workers: int,
) -> tuple[float, FloatArray]:
    """φ of all heads, minus the log hyperpriors, and its gradient."""
    kernel, likelihoods = unpack(draft.kernel, draft.likelihoods, vector)
    found = []
    for task, active, site, likelihood in zip(tasks, actives, sites, likelihoods, strict=True):
        rest = np.setdiff1d(np.arange(len(task.targets)), active.rows[: active.count])
        found.append(
            criterion(
                kernel,
                likelihood,
                active.inputs[: active.count],
                active.targets[: active.count],
                site,
                task.inputs[rest],
                task.targets[rest],
                workers=workers,
            )
        )
    return minus_log_posterior(kernel.log_prior(tasks[0].inputs.shape[1]), likelihoods, found, sign=1.0)


def _tuned(problem: Problem, selection: IVM, draft: Draft) -> Kernel:
    """The kernel whose lengthscales (or offsets), times one factor, give other rows the largest density.

    φ judges the posterior as it is; the model will be calibrated, and then shorter lengthscales predict
    better, the more so the larger the active set. So this is done on more rows than the rounds, with a
    selection and a calibration for every factor: uphill from 1 in steps of √2, while there is time.
    """
    names = draft.kernel.parameter_names
    smoothness = np.array(["lengthscale" in name or "offset" in name for name in names], np.float64)
    if not smoothness.any():
        return draft.kernel
    tasks = _judging_tasks(problem, TUNING_ROWS)

    def scaled(exponent: float) -> Kernel:
        logs = draft.kernel.log_parameters + 0.5 * exponent * np.log(2.0) * smoothness
        return draft.kernel.with_log_parameters(logs)

    @cache
    def density(exponent: int) -> float:
        if exponent and problem.is_late():
            return -np.inf
        return _judged(problem, selection, replace(draft, kernel=scaled(exponent)), tasks, TUNING_ACTIVE)

    best = 0
    for direction in (-1, 1):
        while abs(best + direction) <= MOST_TUNING_STEPS and density(best + direction) > density(best):
            best += direction
    if abs(best) == MOST_TUNING_STEPS:
        return scaled(best)
    below, here, above = (density(best + step) for step in (-1, 0, 1))
    if not np.isfinite(below + above):
        return scaled(best)
    # Both neighbours were tried on the way: the parabola through the three costs nothing.
    return scaled(best + 0.5 * (below - above) / min(below - 2.0 * here + above, -1e-12))
