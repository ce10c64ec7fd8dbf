"""A trial: every candidate learns from the same small sample, and rows that none of them saw decide."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from streamgp.budget import parse_size
from streamgp.data.standardize import Bend
from streamgp.errors import BudgetError
from streamgp.settings import FitSettings
from streamgp.training.auto import (
    BLOCKS,
    EXACT,
    INDUCING,
    Candidate,
    candidates,
    with_size,
    worth_trying,
)
from streamgp.training.bend import choose_bend
from streamgp.training.contest import (
    FAILURES,
    FOLDS,
    FOR_EVER,
    Fit,
    Part,
    divided,
    folds,
    hold_contest,
    shape_of,
)
from streamgp.training.cost import Clock, affordable, measured_rate, multiply_adds
from streamgp.training.plan import MemoryPlan
from streamgp.training.prepare import Prepared
from streamgp.training.problem import draw_sample
from streamgp.training.rare import FEWEST_RARE, by_share, rarer
from streamgp.training.verdict import Trial, trial_folder
from streamgp.training.weights import row_weights

logger = logging.getLogger(__name__)

SAMPLE_ROWS = 8000
"""Rows that a trial learns from, at most; a quarter as many others decide."""


class Larger(NamedTuple):
    """A further trial: so many times the rows of the first, in a store of so many times those."""

    rows: int
    store: int


LARGER = (Larger(4, 1), Larger(16, 4))
"""Trials that follow while it is open which method is the best one."""
MUCH_LARGER = 8
"""Times the rows of a trial: in a store of so many a tie goes to the lower loss, not to the simpler one."""
SAMPLE_SHARE = 0.125
"""Part of the memory budget that the rows of a larger trial may have."""
JUDGES_SHARE = 0.25
LEAST_JUDGING = 0.25
"""Of an equal part of the judges: so many a rare class has at least, but no larger part of its own rows."""
FEWEST_ROWS = 700
"""With fewer rows every row is a judge once."""
FEWEST_FOLDED = 24
"""With fewer rows a trial is chance: an exact model is taken, if any."""
FEWEST_ACTIVE = 16
"""Fewer active rows are not tried where the budget is too small."""
MOST_INDUCING = 500
"""Inducing inputs of a candidate in the trial, where their number was left open."""

Planned = Callable[[FitSettings], MemoryPlan]
"""The memory plan of settings; raises a BudgetError where there is none."""


def settle(
    prepared: Prepared,
    plan: MemoryPlan,
    settings: FitSettings,
    identity: Mapping[str, Any],
    fit: Fit,
    planned: Planned,
    seconds: float = math.inf,
) -> tuple[list[FitSettings], Trial | None]:
    """Settings in which nothing is open: by rules where only one method suits, else by a trial.

    They are several where the fit is an average of several candidates, the one of most weight first.

    A verdict is kept beside the checkpoints, so that a resumed fit does not try again. ``planned`` raises
    :class:`~streamgp.errors.BudgetError` for settings that do not fit the budget; sizes that were left open
    shrink until they do. ``seconds`` are left for trial and fit: what would take longer is not tried.
    """
    options = _options(prepared, settings, planned)
    if len(options) == 1:
        return [options[0].settings], None
    cheaper, folder = _cheaper(prepared, settings, planned), None
    if settings.checkpoint is not None:
        folder = trial_folder(settings.checkpoint, identity)
    saved = None if folder is None else folder.latest()
    if saved is not None:
        trial = Trial(**saved.header)
    else:
        trial = _held_in_time(options, cheaper, prepared, plan, settings, fit, seconds)
    logger.info("auto: %s", trial.sentence())
    if folder is not None and saved is None:
        folder.save(0, trial.record(), {})
    named = {option.name: option for option in (*cheaper, *options)}
    return [trial.settled(named[name]) for name in trial.members], trial


def _held_in_time(
    options: Sequence[Candidate],
    cheaper: Sequence[Candidate],
    prepared: Prepared,
    plan: MemoryPlan,
    settings: FitSettings,
    fit: Fit,
    seconds: float,
) -> Trial:
    """A trial of the candidates that there is time for; without one where there is no time for that.

    Where blocks are too dear, ``cheaper`` ones are tried, among them what blocks contain.
    """
    if math.isinf(seconds):
        return _held(prepared, plan, settings, [option.name for option in options], fit)
    until, shape = time.monotonic() + seconds, shape_of(prepared, prepared.rows.n_rows)
    rate = measured_rate()
    kept, rows = affordable(options, shape, SAMPLE_ROWS, seconds, rate)
    if BLOCKS not in [option.name for option in kept]:
        kept, rows = affordable(cheaper or options, shape, SAMPLE_ROWS, seconds, rate)
    names = [option.name for option in kept]
    known = list(dict.fromkeys(option.name for option in (*cheaper, *options)))
    left_out = [name for name in known if name not in names]
    if not rows:
        [only] = kept
        # Simpler ones would take less time, but nothing could say that they are better.
        left_out = left_out[known.index(only.name) :]
        return Trial(only.name, {}, {}, None, 0, 0.0, only.settings.n_active, left_out)
    clock = Clock(until, rate, {option.name: multiply_adds(option, shape) / rate for option in kept})
    if prepared.rows.n_rows < FEWEST_ROWS and np.ndim(settings.validation) == 0:
        trial = _held_in_folds(prepared, plan, settings, names, fit, clock)
    else:
        trial = _held_on(rows, prepared, plan, settings, names, fit, clock)
    # There is time for the dearest of them, not for an average of all.
    return trial._replace(left_out=[*left_out, *trial.left_out], weights=None, average=None)


def possible(prepared: Prepared, settings: FitSettings, planned: Planned) -> dict[str, FitSettings]:
    """What :func:`settle` may choose, by name."""
    return {option.name: option.settings for option in _options(prepared, settings, planned)}


def _options(
    prepared: Prepared, settings: FitSettings, planned: Planned, without: str = ""
) -> list[Candidate]:
    """The candidates, simplest first; one where the settings leave no choice, or rows are too few for it."""
    shape = shape_of(prepared, prepared.rows.n_rows)
    if not settings.method_is_open:
        sized = with_size(settings, shape)
        return [Candidate("as asked", _fitting(sized, planned) if settings.size_is_open else sized, 0)]
    suiting = [option for option in candidates(settings, shape) if option.name != without]
    options = worth_trying(_that_fit(settings, suiting, planned), shape)
    if shape.n_rows >= FEWEST_FOLDED and np.max(prepared.class_counts) > 1:
        return options
    return [option for option in options if option.name == EXACT] or options[-1:]


def _cheaper(prepared: Prepared, settings: FitSettings, planned: Planned) -> list[Candidate]:
    """The candidates without blocks, with what blocks contain; none where only blocks fit the budget."""
    try:
        return _options(prepared, settings, planned, without=BLOCKS)
    except BudgetError:
        return []


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
    fitting, refusals = [], {}
    for option in options:
        try:
            if settings.size_is_open:
                option = option._replace(settings=_fitting(option.settings, planned))
            else:
                planned(option.settings)
        except BudgetError as error:
            refusals[option.name] = error
        else:
            fitting.append(option)
    if not fitting:
        raise refusals[INDUCING]  # what others need is not what a fit needs at least
    return fitting


def _held(
    prepared: Prepared, plan: MemoryPlan, settings: FitSettings, names: Sequence[str], fit: Fit
) -> Trial:
    """Hold a trial; while it does not tell the simple from the flexible, larger ones if there are the rows.

    Flexible methods gain from more rows, a line does not: a tie of few rows says little about many. Nor does
    a trial tell much in which the rarer of two classes has a few rows.
    """
    n_rows = prepared.rows.n_rows
    few = n_rows < FEWEST_ROWS or rarer(prepared.class_counts, n_rows * JUDGES_SHARE) < FEWEST_RARE
    if few and n_rows <= SAMPLE_ROWS and np.ndim(settings.validation) == 0:
        return _held_in_folds(prepared, plan, settings, names, fit)
    size = SAMPLE_ROWS
    trial = _held_on(size, prepared, plan, settings, names, fit)
    room = SAMPLE_SHARE * parse_size(settings.memory_budget)
    for larger in LARGER:
        is_decided = trial.is_decided and rarer(prepared.class_counts, size) >= FEWEST_RARE
        size = larger.rows * SAMPLE_ROWS
        needed = size * (1 + JUDGES_SHARE)
        fits = needed * 8 * prepared.rows.n_features <= room
        if is_decided or larger.store * needed > n_rows or not fits:
            break
        logger.info("undecided: %s; tried again with %d rows", trial.sentence(), size)
        earlier = trial.seconds
        trial = _held_on(size, prepared, plan, settings, names, fit)
        trial = trial._replace(seconds=earlier + trial.seconds)
    return trial


def _held_on(
    size: int,
    prepared: Prepared,
    plan: MemoryPlan,
    settings: FitSettings,
    names: Sequence[str],
    fit: Fit,
    clock: Clock = FOR_EVER,
) -> Trial:
    """Draw the rows of a trial, in one pass, and hold it; its seconds are those of all that."""
    begun = time.monotonic()
    weightless = row_weights(prepared, settings).excluded
    named = np.ndim(settings.validation) > 0
    names_rows = named and not np.all(np.isin(np.asarray(settings.validation), weightless))
    share = settings.validation if names_rows else JUDGES_SHARE
    sample, judges, _ = draw_sample(prepared, plan, settings, size, share, weightless, LEAST_JUDGING)
    learners = by_share(sample, prepared.class_counts)
    small = settings
    if settings.size_is_open:
        n_active = max(1, min(MOST_INDUCING, len(learners.rows) // 3))
        small = replace(settings, n_active=n_active, size_is_open=False)
    whole, n_classes = Part(learners, judges), shape_of(prepared, 0).n_classes
    parts = [whole] if names_rows else divided(whole, FEWEST_ROWS, n_classes)
    if n_classes and not names_rows:
        parts = [part._replace(class_rows=prepared.class_counts) for part in parts]
    small = _bent(small, parts, prepared)
    shape = shape_of(prepared, len(parts[0].learners.rows))
    options = [option for option in candidates(small, shape) if option.name in names]
    if shape.n_classes > 2 and any(option.name == BLOCKS for option in options):
        two = [option for option in candidates(small, replace(shape, n_classes=2)) if option.name in names]
        if not _blocks_promise(two, prepared, parts, fit, clock):
            options = [option for option in options if option.name != BLOCKS]
    many_more = MUCH_LARGER * len(parts[0].learners.rows) <= prepared.rows.n_rows
    in_folds = len(parts) > 1
    errors = 0.0 if many_more or in_folds else 1.0
    before = time.monotonic() - begun
    trial = hold_contest(
        options, prepared, parts, fit, errors, many_more, in_folds and _averages(settings), clock
    )
    return _with_bend(trial, small)._replace(seconds=before + trial.seconds)


def _bent(settings: FitSettings, parts: Sequence[Part], prepared: Prepared) -> FitSettings:
    """The settings with columns of long tails bent, where that is left open and judges prefer it."""
    free = getattr(prepared.targets, "no_label", None) is not None
    if settings.standardize != "auto" or prepared.standardizer.is_common or free:
        return settings
    bend = choose_bend(parts, prepared)
    return settings if bend is None else replace(settings, standardize=bend)


def _with_bend(trial: Trial, settings: FitSettings) -> Trial:
    bend = settings.standardize
    return trial._replace(bend=bend.record()) if isinstance(bend, Bend) else trial


def _held_in_folds(
    prepared: Prepared,
    plan: MemoryPlan,
    settings: FitSettings,
    names: Sequence[str],
    fit: Fit,
    clock: Clock = FOR_EVER,
) -> Trial:
    """Every row judges once, and the best mean wins: where rows are few no model is too large."""
    weightless = row_weights(prepared, settings).excluded
    pool, _, _ = draw_sample(prepared, plan, settings, prepared.rows.n_rows, False, weightless)
    shape = shape_of(prepared, len(pool.rows) * (FOLDS - 1) // FOLDS)
    parts = folds(pool, shape.n_classes)
    settings = _bent(settings, parts, prepared)
    options = [option for option in candidates(settings, shape) if option.name in names]
    averages = prepared.rows.n_rows < FEWEST_ROWS and _averages(settings)
    trial = hold_contest(options, prepared, parts, fit, 0.0, averages=averages, clock=clock)
    return _with_bend(trial, settings)


def _averages(settings: FitSettings) -> bool:
    """Whether candidates may be averaged: where a user names a part of the model, the model has that part."""
    return settings.kernel is None and settings.likelihood is None and settings.size_is_open


def _blocks_promise(
    options: Sequence[Candidate], prepared: Prepared, parts: Sequence[Part], fit: Fit, clock: Clock
) -> bool:
    """Whether blocks help to tell the largest class from all others: they cost as much for each class."""
    largest = int(np.argmax(prepared.class_counts))
    tried = [option for option in options if option.name in (INDUCING, BLOCKS)]
    parts = [part._replace(one=largest) for part in parts]
    try:
        found = hold_contest(tried, prepared, parts, fit, clock=clock)
    except FAILURES as error:
        logger.info("blocks are not tried: %s", error)
        return False
    return found.chosen == BLOCKS
