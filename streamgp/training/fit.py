"""Fitting: plan, read once, compose a recipe, run it, and make a model of what it leaves."""

from __future__ import annotations

import logging
import math
import platform
import time
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from streamgp.budget import refuse_impossible
from streamgp.data import RealTargets, Rows
from streamgp.data.standardize import Bend
from streamgp.data.targets import Task, is_labelled, n_heads
from streamgp.errors import NothingLearnedWarning
from streamgp.inference.active_set import ActiveSet
from streamgp.kernels import ClassKernels
from streamgp.likelihoods import Gaussian, Likelihood, Probit
from streamgp.numerics.compilation import is_cold
from streamgp.passes.progress import Progress
from streamgp.passes.scratch import scratch_space
from streamgp.persistence import CheckpointFolder
from streamgp.posterior.calibration import UNCALIBRATED
from streamgp.posterior.model import Model, mixed
from streamgp.posterior.predictive import ClassPredictive, RealPredictive, class_predictive
from streamgp.settings import FitSettings, refuse_for_real_targets, task_of
from streamgp.training.choices import Choices, Traits, resolve
from streamgp.training.copies import Merged, merged
from streamgp.training.fit_memory import plan_fit, with_rows_named
from streamgp.training.heads import make_classes_snapshot, make_snapshot
from streamgp.training.identity import identity_of, planned_identity
from streamgp.training.learn.criterion import TUNING_ACTIVE
from streamgp.training.plan import MemoryPlan
from streamgp.training.prepare import Prepared, no_label_of, prepare
from streamgp.training.problem import Problem, draw_sample, pass_settings
from streamgp.training.recipe import compose
from streamgp.training.scrutiny import (
    judged_average,
    judged_by_baseline,
    warn_of_outliers,
    warn_of_two_values,
)
from streamgp.training.stage import Draft, History, Recipe, describe, run
from streamgp.training.trial import settle
from streamgp.training.verdict import Trial
from streamgp.training.virtual import named
from streamgp.training.weights import check_classes, row_weights

logger = logging.getLogger(__name__)


class Fitted(NamedTuple):
    """A model, one record for each step of its making, the recipe in words, and facts about the fit."""

    model: Model
    history: History
    recipe: str
    about: dict[str, Any]


def fit(rows: Rows, task: Task, settings: FitSettings) -> Fitted:
    """A model of the rows."""
    settings = replace(with_rows_named(settings, rows.n_rows), progress=Progress.of(settings.progress))
    refuse_impossible(settings.memory_budget)
    started = time.monotonic()
    with ExitStack() as stack:
        if settings.checkpoint is not None:
            stack.enter_context(CheckpointFolder(Path(settings.checkpoint)).held())
        plan, prepared, members, trial, different = _settled(rows, task, settings, started)
        if different is not None:
            fitted = _fitted(plan, prepared, members, trial, different.rows, different.task, started)
            return _numbered(fitted, rows, different)
        return _fitted(plan, prepared, members, trial, rows, task, started)


def _numbered(fitted: Fitted, rows: Rows, different: Merged) -> Fitted:
    """Rows by their numbers and counts in the store, not among the different ones."""
    active = different.first[fitted.model.active_rows]
    about = fitted.about | {"rows": rows.n_rows, "different_rows": len(different.first)}
    return fitted._replace(model=replace(fitted.model, active_rows=active), about=about)


def _fitted(
    plan: MemoryPlan,
    prepared: Prepared,
    members: Sequence[FitSettings],
    trial: Trial | None,
    rows: Rows,
    task: Task,
    started: float,
) -> Fitted:
    """A model by settings in which nothing is open, or an average of several."""
    if len(members) > 1 and trial is not None:
        return _averaged(rows, task, members, trial)
    [settings] = members
    with ExitStack() as stack:
        problem, recipe, draft = _composed(plan, prepared, settings, started)
        if task_of(task, settings.likelihood) == "auto":
            warn_of_two_values(problem)
        folder = None
        if settings.checkpoint is not None:
            folder = CheckpointFolder(Path(settings.checkpoint), identity=planned_identity(problem))
        needed = problem.plan.scratch_bytes
        if needed:
            space = scratch_space(settings.scratch, settings.checkpoint, needed, settings.client)
            problem = replace(problem, scratch=stack.enter_context(space))
        draft, history = run(recipe, problem, draft, folder)
        model = _model(problem, draft)
        history, words = judged_by_baseline(problem, model, history), describe(recipe)
        if trial is not None:
            history, words = (trial.entry(), *history), f"{words} ({trial.sentence()})"
        return Fitted(model, history, words, _about(problem))


def settled_by_trial(rows: Rows, task: Task, settings: FitSettings) -> tuple[FitSettings, Trial | None]:
    """The settings that a fit of the rows would settle on, and the trial that it holds for that."""
    settings = replace(with_rows_named(settings, rows.n_rows), progress=Progress.of(settings.progress))
    _, _, members, trial, _ = _settled(rows, task, settings, time.monotonic())
    return replace(members[0], sample_weight=settings.sample_weight), trial


def _averaged(rows: Rows, task: Task, members: Sequence[FitSettings], trial: Trial) -> Fitted:
    """Fit every member of an average to all rows; the history of the one of most weight comes last."""
    started, fits = time.monotonic(), list[Fitted]()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for number, settings in enumerate(members):
            if settings.checkpoint is not None:
                settings = replace(settings, checkpoint=Path(settings.checkpoint) / f"member-{number}")
            fits.append(fit(rows, task, settings))
    for text, category in {(str(one.message), one.category): None for one in told}:
        if category is not NothingLearnedWarning:  # a constant learns nothing, and is a member
            warnings.warn(text, category, stacklevel=3)
    judged_average(trial, rows.n_rows)
    history = tuple(record for fitted in reversed(fits) for record in fitted.history)
    words = " | ".join(fitted.recipe for fitted in fits)
    about = fits[-1].about | {"seconds": trial.seconds + time.monotonic() - started}
    model = mixed([fitted.model for fitted in fits], list(trial.members.values()))
    return Fitted(model, (trial.entry(), *history), f"{words} ({trial.sentence()})", about)


def _settled(
    rows: Rows, task: Task, settings: FitSettings, started: float
) -> tuple[MemoryPlan, Prepared, list[FitSettings], Trial | None, Merged | None]:
    """Plan, read all rows once, and settle what the settings leave open: one, or members of an average.

    Where the method is open and nearly all rows are copies, all that is about the different ones.
    """
    plan, prepared = _prepared(rows, task, settings)
    if not (settings.method_is_open or settings.size_is_open):
        return plan, prepared, [settings], None, None
    different = merged(prepared, plan, settings) if settings.method_is_open else None
    if different is not None:
        rows, settings = different.rows, different.settings(settings)
        plan, prepared = _prepared(rows, different.task, settings)
    identity = identity_of(prepared, settings)
    planned = partial(plan_fit, rows, heads=n_heads(prepared.targets))
    left = math.inf
    if settings.max_seconds is not None:
        left = max(0.0, settings.max_seconds - (time.monotonic() - started))
    members, trial = settle(prepared, plan, settings, identity, fit, planned, left)
    settings = members[0]
    plan, bend = planned(settings), settings.standardize
    if isinstance(bend, Bend):
        prepared = replace(prepared, standardizer=prepared.standardizer.bent(bend))
    logger.info("memory plan\n%s", plan)
    return plan, replace(prepared, rows=rows.cut(plan.span_rows)), members, trial, different


def begin(rows: Rows, task: Task, settings: FitSettings) -> tuple[Problem, Recipe, Draft]:
    """Plan, read all rows once, and compose; nothing is open in these settings."""
    started, settings = time.monotonic(), with_rows_named(settings, rows.n_rows)
    return _composed(*_prepared(rows, task, settings), settings, started)


def _composed(
    plan: MemoryPlan, prepared: Prepared, settings: FitSettings, started: float
) -> tuple[Problem, Recipe, Draft]:
    """Draw the sample and compose: the problem, the stages, and the draft that they start from."""
    rows, heads = prepared.rows, n_heads(prepared.targets)
    traits = Traits.of(prepared, plan)
    choices, recipe = resolve(settings, traits), compose(settings, traits)
    logger.info("recipe: %s", describe(recipe))
    problem = _make_problem(prepared, plan, settings, choices, started)
    warn_of_outliers(problem)
    given = settings.kernel
    first = given[0] if isinstance(given, ClassKernels) else given
    draft = Draft(
        choices.default_kernel.default(problem) if first is None else first,
        choices.likelihoods or _likelihoods(problem, choices.likelihood),
        (ActiveSet.empty(0, rows.n_features),) * heads,
        (UNCALIBRATED,) * heads,
        kernels=given if isinstance(given, ClassKernels) else None,
    )
    return problem, recipe, draft


def _prepared(rows: Rows, task: Task, settings: FitSettings) -> tuple[MemoryPlan, Prepared]:
    """The plan and the rows that it reads; with many classes the plan is made again once they are known."""
    if settings.kernel is not None:
        settings.kernel.check_features(rows.n_features)
    is_open = settings.method_is_open or settings.size_is_open
    plan = plan_fit(rows, replace(settings, n_active=1, learning=False) if is_open else settings)
    if not is_open:
        logger.info("memory plan\n%s", plan)
    if is_cold():
        logger.info("compiling numerics: once on this machine, up to half a minute")
    task = task_of(task, settings.likelihood)
    prepared = prepare(
        rows.cut(plan.span_rows),
        task,
        settings.standardize,
        pass_settings(plan, settings),
        no_label=no_label_of(settings.likelihood),
    )
    if isinstance(prepared.targets, RealTargets):
        refuse_for_real_targets(settings)
        prepared = replace(prepared, targets=_encoding(prepared.targets, settings.likelihood))
    heads = n_heads(prepared.targets)
    if heads > 1 and not is_open:
        plan = plan_fit(rows, settings, heads)
        prepared = replace(prepared, rows=rows.cut(plan.span_rows))
        logger.info("memory plan for %d classes\n%s", heads, plan)
    if settings.n_active > rows.n_rows:
        logger.info(
            "n_active=%d is more than there are rows: all %d are used", settings.n_active, rows.n_rows
        )
    return plan, prepared


def _encoding(targets: RealTargets, likelihood: Likelihood | None) -> RealTargets:
    """How real targets are passed to a likelihood: scaled, or as they are."""
    if likelihood is None:
        return targets
    shift, scale = (targets.shift, targets.scale) if likelihood.scales_targets else (0.0, 1.0)
    return RealTargets(shift, scale, *likelihood.domain)


def _make_problem(
    prepared: Prepared, plan: MemoryPlan, settings: FitSettings, choices: Choices, started: float
) -> Problem:
    size = plan.candidates_at(min(plan.n_active, TUNING_ACTIVE))
    weights = row_weights(prepared, settings)
    sample, held_out, excluded = draw_sample(
        prepared, plan, settings, size, choices.validation, weights.excluded
    )
    if not isinstance(prepared.targets, RealTargets):
        check_classes(sample.targets[is_labelled(prepared.targets, sample.targets)], weights)
    heads = tuple(range(n_heads(prepared.targets)))
    return Problem(
        prepared,
        plan,
        settings,
        sample,
        held_out,
        excluded,
        groups=(heads,) if settings.shared else tuple((head,) for head in heads),
        weights=replace(weights, excluded=excluded),
        started=started,
    )


def _likelihoods(problem: Problem, likelihood: Likelihood | None) -> tuple[Likelihood, ...]:
    """One likelihood per head: as given, else Gaussian, or probit with a bias from the class's share.

    What a given likelihood leaves open is chosen by the targets of the sample.
    """
    prepared = problem.prepared
    heads = n_heads(prepared.targets)
    if likelihood is not None:
        targets = problem.sample.targets[problem.sample_order()]
        return tuple(likelihood.started(problem.head_targets(targets, head)) for head in range(heads))
    if isinstance(prepared.targets, RealTargets):
        return (Gaussian(noise=0.1),)
    counts = prepared.class_counts
    shares = counts[-heads:] / counts.sum()  # of two classes, the second is the positive one
    return tuple(Probit(bias=float(ndtri(share))) for share in shares)


def _model(problem: Problem, draft: Draft) -> Model:
    """The posterior in the precision of its passes, with what is needed to read rows and to predict."""
    snapshot: Any
    if draft.kernels is not None:
        snapshot = problem.in_pass_precision(make_classes_snapshot(draft, draft.kernels))
    elif draft.sweeps is None:
        snapshot = problem.in_pass_precision(make_snapshot(draft))
    else:
        snapshot = draft.sweeps.model_snapshot(problem, draft)
    prepared = problem.prepared
    predictive: ClassPredictive | RealPredictive
    if isinstance(prepared.targets, RealTargets):
        predictive = RealPredictive(draft.likelihoods[0], prepared.targets)
    else:
        predictive = class_predictive(draft.likelihoods, problem.n_heads, draft.combination)
    sets = [draft.actives[heads[0]] for heads in problem.groups]
    rows = np.concatenate([active.rows[: active.count] for active in sets])
    # Inducing inputs that are no rows of the store are not named among them.
    rows = named(rows[rows >= 0], problem.n_rows)
    return Model(prepared.standardizer, prepared.targets, snapshot, predictive, rows)


def _about(problem: Problem) -> dict[str, Any]:
    """Facts about a fit that its model cannot tell: data, memory, time, versions."""
    progress = Progress.of(problem.settings.progress)
    return {
        "rows": problem.n_rows,
        "held_out_rows": len(problem.excluded),
        "class_rows": problem.prepared.class_counts.tolist() if problem.is_classification else None,
        "unlabelled_rows": problem.prepared.summary.unlabelled,
        "memory_budget": problem.plan.budget,
        "planned_memory": problem.plan.total_bytes,
        "plan": str(problem.plan),
        "seconds": problem.seconds(),
        "pass_seconds": progress.pass_seconds,
        "rows_read": progress.rows_read,
        "versions": {name: version(name) for name in ("streamgp", "numpy", "scipy", "numba", "zarr")}
        | {"python": platform.python_version()},
    }
