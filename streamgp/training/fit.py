"""Fitting: plan, prepare, select, infer."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from scipy.special import ndtri

from streamgp.data import ClassTargets, RealTargets, Rows
from streamgp.data.standardize import Standardize
from streamgp.data.targets import Task
from streamgp.errors import ParameterError
from streamgp.inference import filter_sites, head_from_sites
from streamgp.kernels import RBF, Kernel
from streamgp.likelihoods import Gaussian, Likelihood, Probit
from streamgp.numerics.compilation import is_cold
from streamgp.passes import GatherRows, PassSettings, run_pass
from streamgp.passes.run import available_threads
from streamgp.posterior import Precision, Snapshot, choose_dtype
from streamgp.posterior.model import Model
from streamgp.posterior.precision import check_precision
from streamgp.posterior.predictive import ClassPredictive, RealPredictive
from streamgp.selection import random_rows
from streamgp.training.plan import Demand, MemoryPlan, make_plan
from streamgp.training.prepare import Prepared, prepare

FloatArray = NDArray[np.float64]
logger = logging.getLogger(__name__)

PROBE_ROWS = 256


@dataclass(frozen=True)
class FitSettings:
    """What a fit was asked for; names and meanings are those of the estimators' parameters."""

    n_active: int
    kernel: Kernel | None
    likelihood: Likelihood | None
    standardize: Standardize
    precision: Precision
    memory_budget: int
    seed: np.random.SeedSequence
    client: Any
    progress: bool | None


def plan_fit(rows: Rows, settings: FitSettings, n_heads: int = 1) -> MemoryPlan:
    """The memory plan of a fit; nothing is read."""
    if settings.n_active < 1:
        raise ParameterError(f"n_active must be at least 1, not {settings.n_active}")
    itemsize = 4 if settings.precision == "float32" else 8
    n_active = min(settings.n_active, rows.n_rows)
    demand = Demand(rows, settings.kernel or RBF(), n_active, n_heads, itemsize)
    return make_plan(demand, settings.memory_budget, available_threads())


def fit(rows: Rows, task: Task, settings: FitSettings) -> Model:
    """A model of random active rows, each site visited once (ADF)."""
    check_precision(settings.precision)
    if settings.kernel is not None:
        settings.kernel.check_features(rows.n_features)
    plan = plan_fit(rows, settings)
    logger.info("memory plan\n%s", plan)
    if is_cold():
        logger.info("compiling numerics: once on this machine, up to half a minute")
    prepared = prepare(rows.cut(plan.span_rows), task, settings.standardize, _pass_settings(plan, settings))
    n_heads = _n_heads(prepared)
    if n_heads > 1:
        plan = plan_fit(rows, settings, n_heads)
        prepared = replace(prepared, rows=rows.cut(plan.span_rows))
        logger.info("memory plan for %d classes\n%s", n_heads, plan)
    return _fit_random(prepared, plan, settings)


def _pass_settings(plan: MemoryPlan, settings: FitSettings) -> PassSettings:
    return PassSettings(plan.rows_per_block, plan.tasks_in_flight, settings.client, settings.progress)


def _n_heads(prepared: Prepared) -> int:
    """One latent function for two classes or a real target, one per class for more."""
    classes = len(prepared.targets.classes) if isinstance(prepared.targets, ClassTargets) else 2
    return 1 if classes == 2 else classes


def _fit_random(prepared: Prepared, plan: MemoryPlan, settings: FitSettings) -> Model:
    generator = np.random.default_rng(settings.seed)
    chosen = random_rows(prepared.rows.n_rows, plan.n_active, generator)
    gathered = run_pass(
        prepared.rows,
        GatherRows(chosen),
        _pass_settings(plan, settings),
        reading=prepared.reading(np.float64),
        spans=[
            s
            for s in prepared.rows.spans()
            if np.searchsorted(chosen, s.stop) > np.searchsorted(chosen, s.start)
        ],
        label="active rows",
    )
    assert gathered.targets is not None
    # Sites depend on the order of their visits: stores are often sorted, so a random one is taken.
    order = generator.permutation(len(chosen))
    inputs, encoded = gathered.features[order], gathered.targets[order]
    kernel = settings.kernel or default_kernel(inputs, isinstance(prepared.targets, ClassTargets))
    gram = kernel.gram(inputs).astype(np.float64, copy=False)
    likelihoods = _likelihoods(prepared, settings.likelihood)
    heads = tuple(
        head_from_sites(gram, filter_sites(gram, targets, likelihood))
        for targets, likelihood in zip(_head_targets(prepared, encoded), likelihoods, strict=True)
    )
    snapshot = Snapshot(kernel, inputs, heads)
    probe = _probe(prepared, plan, settings, generator)
    snapshot = snapshot.astype(choose_dtype(settings.precision, snapshot, probe, prepared.rows.n_rows))
    predictive: ClassPredictive | RealPredictive = (
        RealPredictive(likelihoods[0], prepared.targets)
        if isinstance(prepared.targets, RealTargets)
        else ClassPredictive(likelihoods)
    )
    return Model(prepared.standardizer, prepared.targets, snapshot, predictive, gathered.rows[order])


def _probe(
    prepared: Prepared, plan: MemoryPlan, settings: FitSettings, generator: np.random.Generator
) -> FloatArray:
    """Rows to try the precision on: a few spans are enough, and all of them are in the active set's data."""
    rows = prepared.rows
    spans = sorted({int(number) for number in generator.integers(rows.n_spans, size=2)})
    wanted = np.concatenate(
        [
            span.start + random_rows(span.rows, PROBE_ROWS // len(spans), generator)
            for span in rows.spans()
            if span.number in spans
        ]
    )
    gathered = run_pass(
        rows,
        GatherRows(wanted),
        _pass_settings(plan, settings),
        reading=prepared.reading(np.float64),
        spans=[span for span in rows.spans() if span.number in spans],
        label="probe",
    )
    return gathered.features


def default_kernel(inputs: FloatArray, classification: bool) -> RBF:
    """RBF whose lengthscale is the median distance of (at most 1000) rows; a wide prior for classes."""
    sample = inputs[:1000]
    distances = pdist(sample) if len(sample) > 1 else np.ones(1)
    median = float(np.median(distances))
    lengthscale = median if np.isfinite(median) and median > 0 else float(np.sqrt(inputs.shape[1]))
    return RBF(variance=10.0 if classification else 1.0, lengthscale=lengthscale)


def _likelihoods(prepared: Prepared, likelihood: Likelihood | None) -> tuple[Likelihood, ...]:
    """One likelihood per head: as given, else Gaussian, or probit with a bias from the class's share."""
    if likelihood is not None:
        return (likelihood,) * _n_heads(prepared)
    if isinstance(prepared.targets, RealTargets):
        return (Gaussian(noise=0.1),)
    counts = np.array([prepared.summary.labels[label] for label in prepared.targets.classes.tolist()])
    shares = counts / counts.sum()
    if len(shares) == 2:
        return (Probit(bias=float(ndtri(shares[1]))),)
    return tuple(Probit(bias=float(ndtri(share))) for share in shares)


def _head_targets(prepared: Prepared, encoded: FloatArray) -> list[FloatArray]:
    """Targets of each head: the real target itself, or ±1 for one class against the rest."""
    if isinstance(prepared.targets, RealTargets):
        return [encoded]
    if len(prepared.targets.classes) == 2:
        return [2.0 * encoded - 1.0]
    return [np.where(encoded == code, 1.0, -1.0) for code in range(len(prepared.targets.classes))]
