"""Fitting: plan, prepare, then steps from state to state until there is a model."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from streamgp.budget import peak_memory
from streamgp.data import RealTargets, Rows
from streamgp.data.targets import Task, n_heads
from streamgp.errors import ParameterError
from streamgp.inference.active_set import ActiveSet
from streamgp.kernels import RBF, Linear
from streamgp.likelihoods import Gaussian, Likelihood, Probit
from streamgp.numerics.compilation import is_cold
from streamgp.passes.blas import single_threaded_blas
from streamgp.passes.run import available_threads
from streamgp.passes.scratch import scratch_space
from streamgp.persistence import CheckpointFolder
from streamgp.posterior.calibration import UNCALIBRATED
from streamgp.posterior.model import Model
from streamgp.posterior.precision import check_precision
from streamgp.posterior.predictive import ClassPredictive, RealPredictive
from streamgp.selection.inducing import EvidenceGain
from streamgp.training.calibrate import calibrate_heads
from streamgp.training.context import (
    Context,
    FitSettings,
    class_counts,
    draw_sample,
    make_snapshot,
    pass_settings,
)
from streamgp.training.fitc_approximate import approximate
from streamgp.training.fitc_gain import gain_inducing
from streamgp.training.fitc_inducing import choose_inducing
from streamgp.training.fitc_learn import learn_start, refine
from streamgp.training.fitc_passes import refine_all
from streamgp.training.fitc_sweeps import inducing_snapshot, sweep_all_rows
from streamgp.training.hyperparameters import TUNING_ACTIVE, choose_start, learn_round
from streamgp.training.infer import infer
from streamgp.training.plan import Demand, MemoryPlan, make_plan
from streamgp.training.prepare import Prepared, prepare
from streamgp.training.select import pass_precision, select_stage
from streamgp.training.starts import default_kernel
from streamgp.training.state import State
from streamgp.training.sweep import begin, look, update, visit_block

logger = logging.getLogger(__name__)


def plan_fit(rows: Rows, settings: FitSettings, heads: int = 1) -> MemoryPlan:
    """The memory plan of a fit; nothing is read."""
    if settings.n_active < 1:
        raise ParameterError(f"n_active must be at least 1, not {settings.n_active}")
    itemsize = 4 if settings.precision == "float32" and settings.learning != "passes" else 8
    n_active = min(settings.n_active, rows.n_rows)
    kernel = settings.kernel or RBF() + Linear()
    return make_plan(
        Demand(
            rows,
            kernel,
            n_active,
            heads,
            itemsize,
            settings.shared,
            over_all_rows=settings.inference == "fitc",
            with_slopes=settings.learning == "passes",
        ),
        settings.memory_budget,
        available_threads(),
    )


def fit(rows: Rows, task: Task, settings: FitSettings) -> tuple[Model, tuple[dict[str, Any], ...]]:
    """A model of the rows, and the history of its making."""
    context = _make_context(rows, task, settings)
    if settings.inference != "fitc":
        return _fit(context)
    needed = context.plan.scratch_bytes
    with scratch_space(settings.scratch, settings.checkpoint, needed, settings.client) as scratch:
        return _fit(replace(context, scratch=scratch))


def _fit(context: Context) -> tuple[Model, tuple[dict[str, Any], ...]]:
    settings, folder = context.settings, None
    state = _first_state(context)
    if settings.checkpoint is not None:
        folder = CheckpointFolder(Path(settings.checkpoint), identity=_identity(context))
        saved = folder.latest()
        if saved is not None:
            state = State.from_record(saved.header, saved.arrays)
            logger.info("resumed at step %d", state.step)

    def save(state: State) -> None:
        if folder is not None:
            folder.save(state.step, *state.to_record())

    while state.phase != "done":
        phase, begun = state.phase, context.seconds()
        # Steps mix products of NumPy's BLAS and of SciPy's, whose thread pools get into each other's way;
        # what is large is divided among threads of our own.
        with single_threaded_blas():
            state = _step(context, state, save)
        logger.info("%s: %.1f s, %d active rows", phase, context.seconds() - begun, state.n_active)
        save(state)
    return _finish(context, state), state.history


def _step(context: Context, state: State, save: Callable[[State], None]) -> State:
    """The next state."""
    begun = context.seconds()
    if state.phase == "start":
        following = choose_start(context, state)
    elif state.phase == "begin":
        following = begin(context, state)
    elif state.phase == "sweep":
        following = visit_block(context, state)
    elif state.phase == "look":
        following = look(context, state)
    elif state.phase == "update":
        following = update(context, state, save)
    elif state.phase == "learn":
        following = learn_round(context, state, save)
    elif state.phase == "select":
        following = select_stage(context, state)
    elif state.phase == "infer":
        following = infer(context, state)
    elif state.phase == "evidence":
        following = learn_start(context, state, save)
    elif state.phase == "inducing":
        is_gain = isinstance(context.settings.selection, EvidenceGain)
        following = (gain_inducing if is_gain else choose_inducing)(context, state)
    elif state.phase == "refine":
        following = refine(context, state, save)
    elif state.phase == "refine_all":
        following = refine_all(context, state, save)
    elif state.phase == "approximate":
        following = approximate(context, state)
    elif state.phase == "site_sweep":
        following = sweep_all_rows(context, state)
    else:
        following = calibrate_heads(context, state)
    *before, latest = following.history or ({},)
    latest = {**latest, "seconds": context.seconds() - begun, "peak_memory": peak_memory()}
    return replace(following, step=state.step + 1, history=(*before, latest))


def _make_context(rows: Rows, task: Task, settings: FitSettings) -> Context:
    started = time.monotonic()
    check_precision(settings.precision)
    if settings.kernel is not None:
        settings.kernel.check_features(rows.n_features)
    plan = plan_fit(rows, settings)
    logger.info("memory plan\n%s", plan)
    if is_cold():
        logger.info("compiling numerics: once on this machine, up to half a minute")
    prepared = prepare(rows.cut(plan.span_rows), task, settings.standardize, pass_settings(plan, settings))
    heads = n_heads(prepared.targets)
    if heads > 1:
        plan = plan_fit(rows, settings, heads)
        prepared = replace(prepared, rows=rows.cut(plan.span_rows))
        logger.info("memory plan for %d classes\n%s", heads, plan)
    if settings.n_active > rows.n_rows:
        logger.info(
            "n_active=%d is more than there are rows: all %d are used", settings.n_active, rows.n_rows
        )
    size = plan.candidates_at(min(plan.n_active, TUNING_ACTIVE))
    sample, validation = draw_sample(prepared, plan, settings, size)
    return Context(prepared, plan, settings, sample, validation, started)


def _first_state(context: Context) -> State:
    settings, heads = context.settings, context.n_heads
    kernel = settings.kernel or default_kernel(context)
    return State(
        phase=_first_phase(context),
        kernel=kernel,
        likelihoods=_likelihoods(context.prepared, settings.likelihood),
        actives=tuple(ActiveSet.empty(0, context.prepared.rows.n_features) for _ in range(heads)),
        calibrations=(UNCALIBRATED,) * heads,
        stopped=(False,) * heads,
    )


def _first_phase(context: Context) -> str:
    """Learning, of one kind or the other; else, or where it goes along with the selection, that."""
    if context.settings.learning is None or context.learns_along:
        return context.selection_phase
    return "evidence" if context.learns_by_evidence else "start"


def _likelihoods(prepared: Prepared, likelihood: Likelihood | None) -> tuple[Likelihood, ...]:
    """One likelihood per head: as given, else Gaussian, or probit with a bias from the class's share."""
    heads = n_heads(prepared.targets)
    if likelihood is not None:
        return (likelihood,) * heads
    if isinstance(prepared.targets, RealTargets):
        return (Gaussian(noise=0.1),)
    counts = class_counts(prepared)
    shares = counts[-heads:] / counts.sum()  # of two classes, the second is the positive one
    return tuple(Probit(bias=float(ndtri(share))) for share in shares)


def _finish(context: Context, state: State) -> Model:
    over_all_rows = state.sweeps is not None
    posterior = inducing_snapshot(state) if over_all_rows else make_snapshot(state.kernel, state)
    snapshot = pass_precision(context, posterior)
    prepared = context.prepared
    predictive: ClassPredictive | RealPredictive
    if isinstance(prepared.targets, RealTargets):
        predictive = RealPredictive(state.likelihoods[0], prepared.targets)
    else:
        predictive = ClassPredictive(state.likelihoods)
    sets = state.actives[:1] if context.settings.shared else state.actives
    rows = np.concatenate([active.rows[: active.count] for active in sets])
    # Inducing inputs that are no rows of the store are not named among them.
    return Model(prepared.standardizer, prepared.targets, snapshot, predictive, rows[rows >= 0])


def _identity(context: Context) -> dict[str, Any]:
    """What must be the same for a checkpoint to be continued: data, parameters, plan."""
    settings, prepared, plan = context.settings, context.prepared, context.plan
    summary = prepared.summary
    return {
        "data": {
            "rows": summary.n_rows,
            "features": prepared.rows.n_features,
            "dtype": str(prepared.rows.features.dtype),
            "mean": float(summary.features.mean.sum()),
            "variance": float(summary.features.variance.sum()),
            "labels": {str(label): count for label, count in summary.labels.items()},
        },
        "parameters": {
            "n_active": settings.n_active,
            "selection": repr(settings.selection),
            "inference": settings.inference,
            "shared": settings.shared,
            "kernel": repr(settings.kernel),
            "likelihood": repr(settings.likelihood),
            "learning": settings.learning,
            "calibrate": settings.calibrate,
            "standardize": str(settings.standardize),
            "precision": settings.precision,
            "validation": repr(settings.validation),
            "seed": settings.seed,
            "residual": settings.residual,
            "power": settings.power,
            "learn_inducing": settings.learn_inducing,
            "class_weight": repr(settings.class_weight),
            "sample_weight": None if settings.sample_weight is None else float(settings.sample_weight.sum()),
        },
        "plan": {
            "rows_per_block": plan.rows_per_block,
            "span_rows": prepared.rows.span_rows,
            "candidates": plan.n_candidates,
        },
    }
