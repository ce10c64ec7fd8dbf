"""A trial: every candidate learns from the same small sample, and rows that none of them saw decide."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.arrays import FloatArray, IntArray
from streamgp.budget import parse_size
from streamgp.data import ClassTargets, Rows, open_rows
from streamgp.data.targets import Task
from streamgp.errors import BudgetError
from streamgp.passes.candidates import Pool, smallest
from streamgp.posterior.model import Model
from streamgp.posterior.predictive import ClassPredictive
from streamgp.selection import stratified_quotas
from streamgp.settings import FitSettings
from streamgp.training.auto import Candidate, Shape, candidates, with_size, worth_trying
from streamgp.training.judge import is_better, marginals_in_memory
from streamgp.training.plan import MemoryPlan
from streamgp.training.prepare import Prepared
from streamgp.training.problem import draw_sample
from streamgp.training.verdict import Trial, trial_folder
from streamgp.training.weights import row_weights

logger = logging.getLogger(__name__)

SAMPLE_ROWS = 8000
"""Rows that a trial learns from, at most; a quarter as many others decide."""
MORE_ROWS = 4
"""Times as many rows for a second trial, where the first left it open whether the simplest is the best."""
SAMPLE_SHARE = 0.125
"""Part of the memory budget that the rows of a second trial may have."""
JUDGES_SHARE = 0.25
FEWEST_ROWS = 400
"""With fewer rows a trial is chance: the last candidate, the most flexible one, is taken."""

FEWEST_ACTIVE = 16
"""Fewer active rows are not tried where the budget is too small."""
MOST_INDUCING = 500
"""Inducing inputs of a candidate in the trial, where their number was left open."""

Fit = Callable[[Rows, Task, FitSettings], Any]
"""How a candidate is fitted; gives a value with a ``model``."""
Planned = Callable[[FitSettings], MemoryPlan]
"""The memory plan of settings; raises a BudgetError where there is none."""


def settle(
    prepared: Prepared,
    plan: MemoryPlan,
    settings: FitSettings,
    identity: Mapping[str, Any],
    fit: Fit,
    planned: Planned,
) -> tuple[FitSettings, Trial | None]:
    """Settings in which nothing is open: by rules where only one method suits, else by a trial.

    A verdict is kept beside the checkpoints, so that a resumed fit does not try again. ``planned`` raises
    :class:`~streamgp.errors.BudgetError` for settings that do not fit the budget; sizes that were left open
    shrink until they do.
    """
    options = _options(prepared, settings, planned)
    if len(options) == 1:
        return options[0].settings, None
    folder = None
    if settings.checkpoint is not None:
        folder = trial_folder(settings.checkpoint, identity)
    saved = None if folder is None else folder.latest()
    names = [option.name for option in options]
    trial = _held(prepared, plan, settings, names, fit) if saved is None else Trial(**saved.header)
    logger.info("auto: %s", trial.sentence())
    if folder is not None and saved is None:
        folder.save(0, trial._asdict(), {})
    return trial.settled(next(option for option in options if option.name == trial.chosen)), trial


def possible(prepared: Prepared, settings: FitSettings, planned: Planned) -> dict[str, FitSettings]:
    """What :func:`settle` may choose, by name."""
    return {option.name: option.settings for option in _options(prepared, settings, planned)}


def _options(prepared: Prepared, settings: FitSettings, planned: Planned) -> list[Candidate]:
    """The candidates, simplest first; one where the settings leave no choice, or rows are too few for it."""
    shape = _shape(prepared, prepared.rows.n_rows)
    if not settings.method_is_open:
        sized = with_size(settings, shape)
        return [Candidate("as asked", _fitting(sized, planned) if settings.size_is_open else sized, 0)]
    options = worth_trying(_that_fit(settings, candidates(settings, shape), planned), shape)
    return options if shape.n_rows >= FEWEST_ROWS else options[-1:]


def _fitting(settings: FitSettings, planned: Planned) -> FitSettings:
    """The settings with as many active rows, halved and halved again, as the budget allows."""
    while True:
        try:
            planned(settings)
        except BudgetError:
            if settings.n_active <= FEWEST_ACTIVE:
                raise
            settings = replace(settings, n_active=settings.n_active // 2)
        else:
            return settings


def _that_fit(settings: FitSettings, options: Sequence[Candidate], planned: Planned) -> list[Candidate]:
    """The candidates that the budget allows, smaller where sizes were left open; at least one."""
    fitting = []
    for option in options:
        try:
            if settings.size_is_open:
                option = option._replace(settings=_fitting(option.settings, planned))
            else:
                planned(option.settings)
        except BudgetError as error:
            refusal = error
        else:
            fitting.append(option)
    if not fitting:
        raise refusal
    return fitting


def _held(
    prepared: Prepared, plan: MemoryPlan, settings: FitSettings, names: Sequence[str], fit: Fit
) -> Trial:
    """Hold a trial; where it does not tell the simplest from the best, a larger one if there are the rows.

    Flexible methods gain from more rows, a line does not: a tie of few rows says little about many.
    """
    trial = _held_on(SAMPLE_ROWS, prepared, plan, settings, names, fit)
    larger, rows = MORE_ROWS * SAMPLE_ROWS, prepared.rows
    needed = larger * (1 + JUDGES_SHARE)
    fits = needed * 8 * rows.n_features <= SAMPLE_SHARE * parse_size(settings.memory_budget)
    if trial.is_decided or needed > rows.n_rows or not fits:
        return trial
    logger.info("undecided: %s; tried again with %d rows", trial.sentence(), larger)
    second = _held_on(larger, prepared, plan, settings, names, fit)
    return second._replace(seconds=trial.seconds + second.seconds)


def _held_on(
    size: int, prepared: Prepared, plan: MemoryPlan, settings: FitSettings, names: Sequence[str], fit: Fit
) -> Trial:
    """Draw the rows of a trial, in one pass, and hold it."""
    names_rows = np.ndim(settings.validation) > 0
    share = settings.validation if names_rows else JUDGES_SHARE
    weightless = row_weights(prepared, settings).excluded
    sample, judges, _ = draw_sample(prepared, plan, settings, size, share, weightless)
    learners = _by_share(sample, prepared)
    small = settings
    if settings.size_is_open:
        small = replace(settings, n_active=min(MOST_INDUCING, len(learners.rows) // 3), size_is_open=False)
    options = candidates(small, _shape(prepared, len(learners.rows)))
    return run_trial([option for option in options if option.name in names], prepared, learners, judges, fit)


def _shape(prepared: Prepared, n_rows: int) -> Shape:
    targets = prepared.targets
    classes = len(targets.classes) if isinstance(targets, ClassTargets) else 0
    return Shape(n_rows, prepared.rows.n_features, classes)


def run_trial(
    options: Sequence[Candidate], prepared: Prepared, learners: Pool, judges: Pool, fit: Fit
) -> Trial:
    """Fit every candidate to the learners; the simplest that no other beats by a standard error is chosen.

    ``options`` are ordered from the simplest to the largest. One that does not fit the memory is left out.
    """
    begun = time.monotonic()
    densities: dict[str, FloatArray] = {}
    models: dict[str, Model] = {}
    for option in options:
        try:
            model = _fitted(option.settings, prepared, learners, fit)
        except BudgetError as error:
            logger.info("%s cannot be tried: %s", option.name, error)
            continue
        densities[option.name], models[option.name] = _log_densities(model, judges), model
        logger.info("%s: held-out log loss %.4g", option.name, -densities[option.name].mean())
    if not densities:
        raise BudgetError(
            "none of the methods that suit these data fits the memory budget: give a larger one"
        )
    losses = {name: -float(rows.mean()) for name, rows in densities.items()}
    best = densities[min(losses, key=lambda name: losses[name])]
    chosen = next(name for name, rows in densities.items() if not is_better(best, rows))
    kernel, likelihoods = models[chosen].snapshot.kernel, models[chosen].predictive.likelihoods
    likelihood = likelihoods[0].to_json() if len(likelihoods) == 1 else None
    return Trial(chosen, losses, kernel.to_json(), likelihood, len(learners.rows), time.monotonic() - begun)


def _by_share(sample: Pool, prepared: Prepared) -> Pool:
    """Rows of the sample in which every class has its share again: rare ones were drawn more often."""
    counts = prepared.class_counts
    if len(counts) == 1:
        return sample
    codes = sample.targets.astype(np.intp)
    drawn = np.bincount(codes, minlength=len(counts))
    size = int(min(drawn[counts > 0] / counts[counts > 0]) * counts.sum())
    quotas = np.minimum(drawn, stratified_quotas(counts, max(size, len(counts))))
    kept = [
        members[smallest(sample.keys[members], int(quota))]
        for members, quota in ((np.flatnonzero(codes == code), quota) for code, quota in enumerate(quotas))
    ]
    return sample.take(np.sort(np.concatenate(kept)))


def _fitted(settings: FitSettings, prepared: Prepared, learners: Pool, fit: Fit) -> Model:
    is_classes = isinstance(prepared.targets, ClassTargets)
    targets: Any = learners.targets.astype(np.int64) if is_classes else learners.targets
    weights = settings.sample_weight
    small = replace(
        settings,
        validation=None,
        sample_weight=None if weights is None else weights[learners.rows],
        class_weight=_by_code(settings.class_weight, prepared),
        checkpoint=None,
        progress=False,
    )
    rows = open_rows((learners.features, targets))
    # The fit of all rows tells and warns, not the trials of what may not be chosen.
    with warnings.catch_warnings(), _fewer_messages():
        warnings.simplefilter("ignore")
        model: Model = fit(rows, "classification" if is_classes else "regression", small).model
    return model


@contextmanager
def _fewer_messages() -> Iterator[None]:
    told = logging.getLogger("streamgp")
    level = told.level
    told.setLevel(max(logging.WARNING, level))
    try:
        yield
    finally:
        told.setLevel(level)


def _by_code(class_weight: Any, prepared: Prepared) -> Any:
    """Weights of classes by their codes, which are the labels of a trial."""
    if not isinstance(class_weight, dict):
        return class_weight
    assert isinstance(prepared.targets, ClassTargets)
    codes = {label: code for code, label in enumerate(prepared.targets.classes.tolist())}
    return {codes.get(label, label): weight for label, weight in class_weight.items()}


def _log_densities(model: Model, judges: Pool) -> FloatArray:
    """Log density of every judge's target; a class of which the sample has no row is passed over."""
    if isinstance(model.targets, ClassTargets):
        judges = judges.take(np.flatnonzero(np.isin(judges.targets, model.targets.classes)))
    encoded = model.targets.encode(judges.targets)
    marginals = marginals_in_memory(model.snapshot, model.standardizer.apply(judges.features, np.float64))
    if isinstance(model.predictive, ClassPredictive):
        codes: IntArray = encoded.astype(np.intp)
        return model.predictive.log_probabilities(marginals)[np.arange(len(codes)), codes]
    return model.predictive.log_density(encoded, marginals)
