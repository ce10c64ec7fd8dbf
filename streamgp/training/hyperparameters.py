"""Learning kernel and likelihood parameters on the sample: major steps reselect, minor steps descend.

Rounds of [IVM2006] section 3.3: a major step selects active rows from the sample under the present
parameters; minor steps then minimise the criterion φ (plus hyperpriors) by L-BFGS-B, the active set fixed.
A last round tunes the smoothness by what φ only approximates: the density of rows not learned from.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.errors import NumericsWarning
from streamgp.inference import Sites, filter_sites
from streamgp.inference.active_set import ActiveSet, Candidates, catch_up, left_out_marginals
from streamgp.inference.criterion import criterion
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.passes.run import available_threads
from streamgp.posterior.calibration import calibrate
from streamgp.selection import IVM
from streamgp.training.context import Context
from streamgp.training.descent import descend, logged, minus_log_posterior, pack, pack_bounds, unpack
from streamgp.training.greedy import Learner, grow
from streamgp.training.starts import start_kernels
from streamgp.training.state import Best, State

ROUNDS = 15
MINOR_STEPS = 8
SAMPLE_ROWS = 2500
SAMPLE_ACTIVE = 250
SETTLED = 0.02
"""Largest change of a log parameter in a round after which no further round is needed."""
JUDGED_HEADS = 3
HELD_OUT = 0.25
"""Share of a sample that judges the model of the rest."""
TUNING_ROWS = 8000
TUNING_ACTIVE = 500
MOST_STEPS = 6


class Task(NamedTuple):
    """One head's learning problem: inputs (n, p) shared by all heads, targets (n,); rows to be judged by."""

    head: int
    inputs: FloatArray
    targets: FloatArray
    held_inputs: FloatArray
    held_targets: FloatArray


def choose_start(context: Context, state: State) -> State:
    """The start of learning: the best of several kernels; one that was given is kept."""
    tasks = _judging_tasks(context, SAMPLE_ROWS)
    starts = start_kernels(context) if context.settings.kernel is None else [state.kernel]
    densities = [_judged(context, replace(state, kernel=start), tasks) for start in starts]
    kernel = starts[int(np.argmax(densities))]
    return replace(state.told(kernel=repr(kernel), log_density=max(densities)), kernel=kernel, phase="learn")


def learn_round(context: Context, state: State, save: Callable[[State], None]) -> State:
    """One major step and its minor steps.

    The criterion can run away where labels are noisy, so every round is judged by what it is for: the density
    of the sample's rows, each as if left out. The first round that is worse ends the learning, and is undone.
    """
    tasks = _learning_tasks(context)
    selected = _select_heads(context, state, tasks)
    density = _density(state, tasks, selected)
    if state.best is not None and density < state.best.density:
        return _settle(context, replace(state, kernel=state.best.kernel, likelihoods=state.best.likelihoods))
    state = replace(state, best=Best(density, state.kernel, state.likelihoods))
    if state.round >= ROUNDS:
        return _settle(context, state)
    before = pack(state.kernel, state.likelihoods)
    after, value = minor_steps(context, state, tasks, [active for active, _ in selected], save)
    moved = float(np.max(np.abs(after - before)))
    _warn_if_stuck(state, moved)
    kernel, likelihoods = unpack(state.kernel, state.likelihoods, after)
    state = state.told(criterion=value, log_density=density, moved=moved, kernel=repr(kernel))
    state = replace(state, kernel=kernel, likelihoods=likelihoods, evaluations={})
    return replace(state, round=ROUNDS if moved < SETTLED else state.round + 1)


def _settle(context: Context, state: State) -> State:
    """The end of learning: tune the kernel by rows left out, hand over to selection."""
    kernel = tune(context, state)
    state = replace(state, kernel=kernel, round=0, best=None)
    return replace(state.told(kernel=repr(kernel)), phase=context.selection_phase)


def _warn_if_stuck(state: State, moved: float) -> None:
    if state.round == 0 and moved < 1e-6:
        warnings.warn(
            "learning did not move the hyperparameters: they are where they started. Standardise the "
            "features, or start from another kernel.",
            NumericsWarning,
            stacklevel=2,
        )


def _learning_tasks(context: Context) -> list[Task]:
    """Every head has parameters to learn: on fewer rows where there are many heads."""
    return _tasks(context, range(context.n_heads), max(500, SAMPLE_ROWS // min(context.n_heads, 5)), 0.0)


def _judging_tasks(context: Context, rows: int) -> list[Task]:
    """A kernel is judged by a few heads, on many rows: small samples prefer kernels that are too smooth."""
    heads = range(0, context.n_heads, -(-context.n_heads // JUDGED_HEADS))
    held_out = HELD_OUT if context.is_classification else 0.0
    return _tasks(context, heads, round(rows / (1.0 - held_out)), held_out)


def _tasks(context: Context, heads: Iterable[int], rows: int, held_out: float) -> list[Task]:
    """The sample's rows of smallest key, a share of them held out."""
    order = np.argsort(context.sample.keys, kind="stable")[:rows]
    parts = [np.sort(part) for part in np.split(order, [len(order) - int(held_out * len(order))])]
    inputs, held_inputs = (context.inputs(context.sample.features[part]) for part in parts)
    encoded, held_encoded = (context.sample.targets[part] for part in parts)
    return [
        Task(
            head,
            inputs,
            context.head_targets(encoded, head),
            held_inputs,
            context.head_targets(held_encoded, head),
        )
        for head in heads
    ]


def _select_heads(
    context: Context, state: State, tasks: list[Task], n_active: int = SAMPLE_ACTIVE
) -> list[tuple[ActiveSet, Candidates]]:
    """Active rows of the sample under the state's parameters, for each task."""
    size = min(n_active, context.plan.n_active, max(1, len(tasks[0].targets) // 4))
    wanted = context.settings.selection
    selection = wanted if isinstance(wanted, IVM) else IVM()
    selected = []
    for task in tasks:
        n_rows, n_features = task.inputs.shape
        candidates = Candidates.new(np.arange(n_rows), task.inputs, task.targets, state.kernel, size)
        active = ActiveSet.empty(size, n_features)
        # The same stream for every kernel: comparisons are not to be decided by the first pick.
        generator = context.generator(n_rows)
        learner = Learner(active, candidates, state.likelihoods[task.head])
        selected.append((grow([learner], state.kernel, selection, size, generator)[0], candidates))
    return selected


def _density(state: State, tasks: list[Task], selected: list[tuple[ActiveSet, Candidates]]) -> float:
    """Mean log density of rows, calibrated as the model will be: those held out, else all as if left out.

    Selection leaves the easy rows of classes outside, and they prefer kernels that are too smooth: to choose
    the smoothness, rows must be held out.
    """
    total = 0.0
    for task, (active, candidates) in zip(tasks, selected, strict=True):
        if len(task.held_targets):
            places = np.arange(len(task.held_targets))
            held = Candidates.new(places, task.held_inputs, task.held_targets, state.kernel, active.count)
            catch_up(active, held, state.kernel, since=0)
            targets, mean, variance = held.targets, held.mean, held.variance
        else:
            targets, (mean, variance) = (
                candidates.targets,
                left_out_marginals(active, candidates.rows, candidates.mean, candidates.variance),
            )
        total += calibrate(state.likelihoods[task.head], targets, mean, variance).log_density
    return total / len(selected)


def _judged(context: Context, state: State, tasks: list[Task], n_active: int = SAMPLE_ACTIVE) -> float:
    """Select under the state's parameters, then judge them."""
    return _density(state, tasks, _select_heads(context, state, tasks, n_active))


def minor_steps(
    context: Context,
    state: State,
    tasks: list[Task],
    actives: list[ActiveSet],
    save: Callable[[State], None],
) -> tuple[FloatArray, float]:
    """Minimise φ with the active sets fixed.

    ``constant``: sites fixed too, one run of L-BFGS-B. ``hybrid``: sites are set anew, in the order of the
    active set, before every search direction.  Source: [IVM2006] section 3.3.
    """
    start = pack(state.kernel, state.likelihoods)
    bounds = pack_bounds(state.kernel, state.likelihoods)
    hybrid = context.settings.learning == "hybrid"
    sites = [active.sites for active in actives]
    value = np.inf

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        return penalised_criterion(state, tasks, actives, sites, vector)

    log = logged(objective, state, save)
    for _ in range(MINOR_STEPS if hybrid else 1):
        start, value = descend(log, start, bounds, 1 if hybrid else MINOR_STEPS, 3 * MINOR_STEPS)
        if hybrid:
            kernel, likelihoods = unpack(state.kernel, state.likelihoods, start)
            sites = [_refiltered(kernel, like, a) for like, a in zip(likelihoods, actives, strict=True)]
    return start, value


def _refiltered(kernel: Kernel, likelihood: Likelihood, active: ActiveSet) -> Sites:
    gram = kernel.gram(active.inputs[: active.count]).astype(np.float64, copy=False)
    return filter_sites(gram, active.targets[: active.count], likelihood)


def penalised_criterion(
    state: State, tasks: list[Task], actives: list[ActiveSet], sites: list[Sites], vector: FloatArray
) -> tuple[float, FloatArray]:
    """φ of all heads, minus the log hyperpriors, and its gradient."""
    kernel, likelihoods = unpack(state.kernel, state.likelihoods, vector)
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
                workers=available_threads(),
            )
        )
    return minus_log_posterior(kernel.log_prior(tasks[0].inputs.shape[1]), likelihoods, found, sign=1.0)


def tune(context: Context, state: State) -> Kernel:
    """The kernel whose lengthscales (or offsets), times one factor, give other rows the largest density.

    φ judges the posterior as it is; the model will be calibrated, and then shorter lengthscales predict
    better, the more so the larger the active set. So this is done on more rows than the rounds, with a
    selection and a calibration for every factor: uphill from 1 in steps of √2.
    """
    names = state.kernel.parameter_names
    smoothness = np.array(["lengthscale" in name or "offset" in name for name in names], np.float64)
    if not smoothness.any() or not context.settings.calibrate:
        return state.kernel
    tasks = _judging_tasks(context, TUNING_ROWS)

    def scaled(exponent: float) -> Kernel:
        logs = state.kernel.log_parameters + 0.5 * exponent * np.log(2.0) * smoothness
        return state.kernel.with_log_parameters(logs)

    @cache
    def density(exponent: int) -> float:
        return _judged(context, replace(state, kernel=scaled(exponent)), tasks, TUNING_ACTIVE)

    best = 0
    for direction in (-1, 1):
        while abs(best + direction) <= MOST_STEPS and density(best + direction) > density(best):
            best += direction
    if abs(best) == MOST_STEPS:
        return scaled(best)
    # Both neighbours were tried on the way: the parabola through the three costs nothing.
    below, here, above = (density(best + step) for step in (-1, 0, 1))
    return scaled(best + 0.5 * (below - above) / min(below - 2.0 * here + above, -1e-12))
