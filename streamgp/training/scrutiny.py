"""What a user should be told about the data that a fit was given, and about what came of it."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.data import ClassTargets
from streamgp.data.extremes import BEYOND, Extreme, outlying
from streamgp.errors import DataWarning, NothingLearnedWarning
from streamgp.passes.locate import TARGET, Locate
from streamgp.passes.run import run_pass
from streamgp.posterior.model import Model
from streamgp.posterior.predictive import RealPredictive
from streamgp.training.auto import CONSTANT, LINE
from streamgp.training.judge import is_better, marginals_in_memory
from streamgp.training.line import line_log_densities
from streamgp.training.problem import Problem
from streamgp.training.verdict import Trial

_SHOWN = 5
FEWEST_TO_TELL = 20
"""Rows that show whether targets have two values only."""
SURE = 2.0
"""Standard errors by which a linear model must be better than the fit, so that a warning says so."""
JUDGING_ROWS = 2000
"""Held-out rows that are enough to tell a model from the targets' distribution."""


def warn_of_outliers(problem: Problem) -> None:
    """Name the extremes of pass 0 that lie far beyond what most rows of the sample show.

    Standardised by such a value a column is zero for every other row: the fit goes on, and learns nothing
    from it. Where there is one, a pass finds its row.
    """
    summary = problem.prepared.summary
    found = [*_outlying_targets(problem), *outlying(summary.lowest, summary.highest, problem.sample.features)]
    found = found[:_SHOWN]
    if not found:
        return
    columns = np.array([extreme.column for extreme in found])
    values = np.array([extreme.value for extreme in found])
    rows = run_pass(
        problem.prepared.rows, Locate(columns, values), problem.pass_settings, label="locate"
    ).tolist()
    told = "; ".join(_told(extreme, row) for extreme, row in zip(found, rows, strict=True))
    warnings.warn(
        f"values more than {BEYOND:.0e} times beyond the 1-99 % range of their column: {told}. The column's "
        f"scale is theirs now, and hides all other rows: mend or leave out these rows, or transform the "
        f"column",
        DataWarning,
        stacklevel=2,
    )


def _outlying_targets(problem: Problem) -> list[Extreme]:
    """Extremes of real targets; the sample has them scaled, where beside 10³⁰ all others are one number."""
    found = problem.prepared.summary.target_range
    if problem.is_classification or found is None:
        return []
    reach = BEYOND * (found.high - found.low) or math.inf
    distances = ((found.lowest, found.low - found.lowest), (found.highest, found.highest - found.high))
    return [Extreme(TARGET, value) for value, distance in distances if distance > reach]


def _told(extreme: Extreme, row: int) -> str:
    if extreme.column == TARGET:
        return f"the target of row {row}: {extreme.value!r}"
    return f"column {extreme.column}, row {row}: {extreme.value!r}"


def judged_by_baseline(
    problem: Problem, model: Model, history: tuple[dict[str, Any], ...]
) -> tuple[dict[str, Any], ...]:
    """The history, its last record with held-out log densities of model, baseline, line; warns if no better.

    The baseline predicts the shares of the classes, or a normal distribution of the targets' mean and
    variance; a linear model of some rows must not be better by two standard errors. Where no rows are held
    out, those that calibration left out decide; where there are none either, nothing is said.
    """
    held_out = problem.held_out
    chosen = np.sort(np.argsort(held_out.keys, kind="stable")[:JUDGING_ROWS])
    if not history:
        return history
    if not chosen.size:
        _judge_left_out(problem, history)
        return history
    targets = held_out.targets[chosen]
    marginals = marginals_in_memory(model.snapshot, held_out.features[chosen], problem)
    likelihood = None
    if isinstance(model.predictive, RealPredictive):
        densities, likelihood = model.predictive.log_density(targets, marginals), model.predictive.likelihood
    else:
        log_probabilities = model.predictive.log_probabilities(marginals)
        densities = log_probabilities[np.arange(len(targets)), targets.astype(np.intp)]
    found, baseline = float(densities.mean()), float(_baseline(problem, targets).mean())
    line = line_log_densities(problem, held_out.take(chosen), likelihood)
    where = f"{len(targets)} held-out rows"
    if not found > baseline:
        _warn(_baseline_name(problem), where, found, baseline)
    elif line is not None and is_better(line, densities, SURE):
        _warn("a linear model", where, found, float(line.mean()), "less than a linear model")
    told = {"final_held_out_log_density": found, "baseline_log_density": baseline}
    if line is not None:
        told["linear_log_density"] = float(line.mean())
    return (*history[:-1], {**history[-1], **told})


def _judge_left_out(problem: Problem, history: tuple[dict[str, Any], ...]) -> None:
    """Warn where calibration could not make rows that were left out more probable than their shares do.

    It was fitted to these rows: each of its numbers gains about half a nat on all of them from nothing.
    """
    last = next((record for record in reversed(history) if "left_out_baseline" in record), None)
    if last is None:
        return
    found, baseline = last["left_out_log_density"], last["left_out_baseline"]
    if not found > baseline + (2 + problem.n_heads) / last["rows"]:
        _warn(_baseline_name(problem), f"{last['rows']} rows, each left out,", found, baseline)


def judged_average(trial: Trial, n_rows: int) -> None:
    """Warn where an average could not make rows that its members had not seen more probable than a constant.

    Its weights were fitted to these rows: one number gains about half a nat on all of them from nothing.
    """
    baseline = trial.log_losses.get(CONSTANT)
    assert trial.average is not None
    where = f"{n_rows} rows, each left out,"
    if baseline is not None and not trial.average < baseline - 0.5 / n_rows:
        _warn("a constant", where, -trial.average, -baseline)
        return
    line = trial.log_losses.get(LINE)
    if line is not None and trial.average > line:
        _warn("a linear model", where, -trial.average, -line, "less than a linear model")


def _warn(name: str, where: str, found: float, baseline: float, learned: str = "nothing") -> None:
    warnings.warn(
        f"the fit has learned {learned}: on {where} its log density is {found:.4f}, that of "
        f"{name} {baseline:.4f}. Try another kernel or inference, more n_active, "
        f"features that say more about the targets, or look for damaged rows",
        NothingLearnedWarning,
        stacklevel=3,
    )


def warn_of_two_values(problem: Problem) -> None:
    """Say that real targets of two values may be meant as classes."""
    targets = problem.prepared.targets
    if isinstance(targets, ClassTargets) or len(problem.sample.targets) < FEWEST_TO_TELL:
        return
    found = np.unique(problem.sample.targets)
    if len(found) == 2:
        low, high = (found * targets.scale + targets.shift).tolist()
        warnings.warn(
            f"the targets are floating-point numbers and are learned as such, but they show two values "
            f"only, {low:g} and {high:g}: if they are classes, give task='classification'",
            DataWarning,
            stacklevel=2,
        )


def _baseline(problem: Problem, targets: FloatArray) -> FloatArray:
    """Log density of encoded targets by their distribution in all rows, in the targets' own units."""
    prepared = problem.prepared
    if isinstance(prepared.targets, ClassTargets):
        counts = prepared.class_counts
        log_shares: FloatArray = np.log(counts / counts.sum())[targets.astype(np.intp)]
        return log_shares
    assert prepared.summary.targets is not None
    variance = float(prepared.summary.targets.variance[0])
    shift, scale = prepared.targets.shift, prepared.targets.scale
    residual = shift + scale * targets - float(prepared.summary.targets.mean[0])
    return -0.5 * (math.log(2 * math.pi * variance) + residual**2 / variance)


def _baseline_name(problem: Problem) -> str:
    return "the shares of the classes" if problem.is_classification else "the targets' mean and variance"
