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
from streamgp.passes.locate import Locate
from streamgp.passes.run import run_pass
from streamgp.posterior.model import Model
from streamgp.posterior.predictive import RealPredictive
from streamgp.training.judge import marginals_in_memory
from streamgp.training.problem import Problem

_SHOWN = 5
JUDGING_ROWS = 2000
"""Held-out rows that are enough to tell a model from the targets' distribution."""


def warn_of_outliers(problem: Problem) -> None:
    """Name the extremes of pass 0 that lie far beyond what most rows of the sample show.

    Standardised by such a value a column is zero for every other row: the fit goes on, and learns nothing
    from it. Where there is one, a pass finds its row.
    """
    summary = problem.prepared.summary
    found = outlying(summary.lowest, summary.highest, problem.sample.features)[:_SHOWN]
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


def _told(extreme: Extreme, row: int) -> str:
    return f"column {extreme.column}, row {row}: {extreme.value!r}"


def judged_by_baseline(
    problem: Problem, model: Model, history: tuple[dict[str, Any], ...]
) -> tuple[dict[str, Any], ...]:
    """The history, its last record with the held-out log density of model and baseline; warns if no better.

    The baseline predicts the shares of the classes, or a normal distribution of the targets' mean and
    variance. Where no rows are held out, nothing is said.
    """
    held_out = problem.held_out
    chosen = np.sort(np.argsort(held_out.keys, kind="stable")[:JUDGING_ROWS])
    if not history or not chosen.size:
        return history
    targets = held_out.targets[chosen]
    marginals = marginals_in_memory(model.snapshot, held_out.features[chosen], problem)
    if isinstance(model.predictive, RealPredictive):
        found = float(model.predictive.log_density(targets, marginals).mean())
    else:
        log_probabilities = model.predictive.log_probabilities(marginals)
        found = float(log_probabilities[np.arange(len(targets)), targets.astype(np.intp)].mean())
    baseline = float(_baseline(problem, targets).mean())
    if not found > baseline:
        warnings.warn(
            f"the fit has learned nothing: on {len(targets)} held-out rows its log density is "
            f"{found:.4f}, that of {_baseline_name(problem)} {baseline:.4f}. Try another kernel or "
            f"inference, more n_active, features that say more about the targets, or look for damaged rows",
            NothingLearnedWarning,
            stacklevel=2,
        )
    told = {"final_held_out_log_density": found, "baseline_log_density": baseline}
    return (*history[:-1], {**history[-1], **told})


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
