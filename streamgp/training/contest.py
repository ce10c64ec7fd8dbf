"""A contest of candidates: all learn from the same rows, and rows that none of them saw decide."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

import numpy as np

from streamgp.arrays import FloatArray, IntArray
from streamgp.data import ClassTargets, Rows, open_rows
from streamgp.data.targets import Task
from streamgp.errors import BudgetError
from streamgp.inference.inducing.heads import RowWeights
from streamgp.passes.candidates import Pool
from streamgp.posterior.model import Model
from streamgp.posterior.predictive import ClassPredictive
from streamgp.settings import FitSettings
from streamgp.training.auto import BLOCKS, INDUCING, Candidate, Shape
from streamgp.training.average import averaged_log_loss, averaging_weights
from streamgp.training.copies import MOST_COPIES, copies, have_copies
from streamgp.training.cost import Clock
from streamgp.training.judge import is_better, is_better_but_for_outliers, marginals_in_memory
from streamgp.training.prepare import Prepared
from streamgp.training.verdict import Trial
from streamgp.training.weights import row_weights

logger = logging.getLogger(__name__)

FOLDS = 3
SURE = 2.0
"""Standard errors by which all others must be worse, so that no larger trial is held."""
FOR_EVER = Clock()
TOLD_SECONDS = 0.2
"""Seconds from which on those that a trial takes tell the machine's pace: less is what any fit takes."""
FAILURES = (ArithmeticError, ValueError, MemoryError)
"""What numerics of a candidate may end with: singular matrices, overflow, values that cannot be."""

Fit = Callable[[Rows, Task, FitSettings], Any]
"""How a candidate is fitted; gives a value with a ``model``."""


class Part(NamedTuple):
    """Rows to learn from, and rows to judge by; ``one`` class is told from all others, or each from each.

    ``class_rows``: rows of each class that the judges stand for, where rare classes were drawn more often.
    """

    learners: Pool
    judges: Pool
    one: int | None = None
    class_rows: IntArray | None = None

    def counts(self, judges: Pool) -> FloatArray:
        """For how many rows each of these judges stands, relative to the others."""
        if self.class_rows is None:
            return np.ones(len(judges.rows))
        codes = judges.targets.astype(np.intp)
        drawn = np.bincount(codes, minlength=len(self.class_rows))
        return self.class_rows[codes] / drawn[codes]

    def targets(self, pool: Pool) -> FloatArray:
        """What is to be learned of some of these rows."""
        return pool.targets if self.one is None else (pool.targets == self.one).astype(np.float64)


def folds(pool: Pool, n_classes: int) -> list[Part]:
    """Parts in which every row judges once; each class is spread over all of them.

    The only row of a class learns in every part: it could not be foretold, and others would lack its class.
    Where most rows are copies that agree, all copies of a row are in one fold, and one of them judges.
    """
    group = copies(pool)
    if group is None or not have_copies(group):
        group = np.arange(len(pool.rows))
    _, first = np.unique(group, return_index=True)
    targets, keys = pool.targets[first], pool.keys[first]
    codes = targets.astype(np.intp) if n_classes else np.zeros(len(first), np.intp)
    fold = np.empty(len(codes), np.intp)
    for code in np.unique(codes):
        members = np.flatnonzero(codes == code)
        # From another fold on for each class: else the first one would have all the odd rows.
        fold[members[np.argsort(keys[members])]] = (np.arange(len(members)) + code) % FOLDS
        if n_classes and len(members) == 1:
            fold[members] = FOLDS
    return [
        Part(pool.take(np.flatnonzero(fold[group] != judged)), pool.take(np.sort(first[fold == judged])))
        for judged in range(FOLDS)
        if np.any(fold == judged)
    ]


def divided(part: Part, few: int, n_classes: int) -> list[Part]:
    """The same rows, copies of one row on one side, where most judges are copies and all copies agree.

    Such judges praise whoever learns by heart, and new rows are no copies; of copies one judges, for they
    say the same. With fewer different rows than ``few`` every one of them judges once, in folds. Where
    copies differ in their targets (a few categories, and chance) new rows are copies too, and all stays as
    it is.
    """
    pool = Pool._make(map(np.concatenate, zip(part.learners, part.judges, strict=True)))
    group = copies(pool)
    if group is None:
        return [part]
    taught = np.unique(group[: len(part.learners.rows)])
    if np.mean(np.isin(group[len(part.learners.rows) :], taught)) < MOST_COPIES:
        return [part]
    _, first = np.unique(group, return_index=True)
    if len(first) < few:
        return folds(pool, n_classes)
    n_judges = max(1, len(first) * len(part.judges.rows) // len(pool.rows))
    key = np.full(len(first), np.inf)
    np.minimum.at(key, group, pool.keys)
    judging = np.argsort(key, kind="stable")[:n_judges]
    learners = np.flatnonzero(~np.isin(group, judging))
    return [Part(pool.take(learners), pool.take(np.sort(first[judging])))]


def hold_contest(
    options: Sequence[Candidate],
    prepared: Prepared,
    parts: Sequence[Part],
    fit: Fit,
    errors: float = 1.0,
    many_more: bool = False,
    averages: bool = False,
    clock: Clock = FOR_EVER,
) -> Trial:
    """Fit every candidate to the learners; the simplest that no other beats by so many standard errors wins.

    ``options`` are ordered from the simplest to the largest. One that does not fit the memory is left out, as
    is one that fails or cannot say how probable a judge is; the trial says why. If all fail, the first error
    is raised.
    What is learned in several parts is not kept: none of them has all rows. ``many_more``: the fit will have
    many times these rows, see :func:`_with_many_more`. ``averages``: the trial says how far each candidate
    is to be believed in an average of all. ``clock``: a candidate for whose trial and fit no time is left, by
    the pace of those before, is not tried; one for whose fit there is none in the end does not win.
    """
    begun = time.monotonic()
    densities: dict[str, FloatArray] = {}
    counts = np.empty(0)
    models: dict[str, Model] = {}
    failed: dict[str, Exception] = {}
    late: list[str] = []
    pace = 1.0
    for option in options:
        expected = clock.trial_seconds(option, shape_of(prepared, len(parts[0].learners.rows)), len(parts))
        if densities and pace * (expected + clock.fit_seconds(option.name)) > clock.left:
            late.append(option.name)
            continue
        started = clock.now()
        try:
            model, told, counted = _judged(option, prepared, parts, fit, clock)
        except FAILURES as error:
            logger.info("%s cannot be tried: %s", option.name, error)
            failed[option.name] = error
            continue
        if expected >= TOLD_SECONDS:
            pace = max(pace, (clock.now() - started) / expected)
        models[option.name], densities[option.name], counts = model, told, counted
        loss = -float(np.average(densities[option.name], weights=counts))
        logger.info("%s: held-out log loss %.4g", option.name, loss)
    if not densities:
        _refuse_all(failed)
    plain = densities
    densities = {name: counts * rows for name, rows in plain.items()}
    losses = {name: -float(rows.mean()) for name, rows in densities.items()}
    best = densities[min(losses, key=lambda name: losses[name])]
    chosen = next(
        name for name, rows in densities.items() if not is_better_but_for_outliers(best, rows, errors)
    )
    if many_more:
        chosen = _with_many_more(chosen, densities)
    late += [name for name in densities if pace * clock.fit_seconds(name) > clock.left]
    if chosen in late:
        in_time = [name for name in densities if name not in late] or list(densities)[:1]
        chosen = min(in_time, key=lambda name: losses[name])
    kernel, likelihoods = models[chosen].snapshot.kernel, models[chosen].predictive.likelihoods
    likelihood = likelihoods[0].to_json() if len(likelihoods) == 1 else None
    rows = len(parts[0].learners.rows) if len(parts) == 1 else 0
    trial = Trial(chosen, losses, kernel.to_json(), likelihood, rows, time.monotonic() - begun)
    late = [name for name in late if name != chosen]
    reasons = {name: _reason(error) for name, error in failed.items()}
    trial = trial._replace(is_decided=_is_decided(chosen, densities), failed=reasons, left_out=late)
    if not averages or len(plain) < 2:
        return trial
    shares = averaging_weights(plain, counts)
    return trial._replace(weights=shares, average=averaged_log_loss(plain, counts, shares))


def _judged(
    option: Candidate, prepared: Prepared, parts: Sequence[Part], fit: Fit, clock: Clock
) -> tuple[Model, FloatArray, FloatArray]:
    """The candidate's model of the last part, log densities of all judges, and how much each counts."""
    weights, found = row_weights(prepared, option.settings), []
    for part in parts:
        limited = option.settings
        if limited.max_seconds is not None:
            limited = replace(limited, max_seconds=min(limited.max_seconds, clock.left))
        model = _fitted(limited, prepared, part, weights, fit)
        found.append(_log_densities(model, part, weights))
    told, counted = map(np.concatenate, zip(*found, strict=True))
    _refuse_unknown(told)
    return model, told, counted


def shape_of(prepared: Prepared, n_rows: int) -> Shape:
    """What rules look at, of so many rows."""
    classes = len(prepared.targets.classes) if isinstance(prepared.targets, ClassTargets) else 0
    return Shape(n_rows, prepared.rows.n_features, classes, prepared.standardizer.is_common)


def _refuse_unknown(densities: FloatArray) -> None:
    """A candidate that has no number for a judge, or calls one impossible, cannot be compared."""
    unknown = int(np.count_nonzero(~np.isfinite(densities)))
    if unknown:
        raise FloatingPointError(f"no finite log density for {unknown} of {len(densities)} held-out rows")


def _refuse_all(failed: Mapping[str, Exception]) -> NoReturn:
    if all(isinstance(error, BudgetError) for error in failed.values()):
        raise BudgetError(
            "none of the methods that suit these data fits the memory budget: give a larger one"
        )
    raise next(error for error in failed.values() if not isinstance(error, BudgetError))


def _reason(error: Exception) -> str:
    """The kind of an error, and the first line of what it says."""
    return ": ".join([type(error).__name__, *str(error).splitlines()[:1]])


def _with_many_more(chosen: str, densities: Mapping[str, FloatArray]) -> str:
    """What to choose where the fit has many times the rows: blocks, if inducing inputs hardly beat them.

    With more rows the neighbours of every row are nearer, but inducing inputs are as many as before.
    """
    if chosen != INDUCING or BLOCKS not in densities:
        return chosen
    return chosen if is_better(densities[chosen], densities[BLOCKS], SURE) else BLOCKS


def _is_decided(chosen: str, densities: Mapping[str, FloatArray]) -> bool:
    """Whether the chosen candidate is clearly better than every other."""
    others = (rows for name, rows in densities.items() if name != chosen)
    return all(is_better(densities[chosen], rows, SURE) for rows in others)


def _fitted(settings: FitSettings, prepared: Prepared, part: Part, weights: RowWeights, fit: Fit) -> Model:
    is_classes, learners = isinstance(prepared.targets, ClassTargets), part.learners
    targets: Any = part.targets(learners).astype(np.int64 if is_classes else np.float64)
    small = replace(
        settings,
        validation=None,
        sample_weight=None if weights.are_even else weights.of_rows(learners.rows, learners.targets),
        class_weight=None,
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


def _log_densities(model: Model, part: Part, weights: RowWeights) -> tuple[FloatArray, FloatArray]:
    """Log density of every judge's target, and how often it counts relative to the others.

    A class of which the sample has no row is passed over.
    """
    judges = part.judges
    if isinstance(model.targets, ClassTargets):
        judges = judges.take(np.flatnonzero(np.isin(part.targets(judges), model.targets.classes)))
    counts = part.counts(judges) * weights.of_rows(judges.rows, judges.targets)
    counts = counts / max(counts.mean(), 1e-300)
    encoded = model.targets.encode(part.targets(judges))
    marginals = marginals_in_memory(model.snapshot, model.standardizer.apply(judges.features, np.float64))
    if isinstance(model.predictive, ClassPredictive):
        codes: IntArray = encoded.astype(np.intp)
        densities: FloatArray = model.predictive.log_probabilities(marginals)[np.arange(len(codes)), codes]
    else:
        densities = model.predictive.log_density(encoded, marginals)
    return densities, counts
