"""Selection by the informative vector machine as it is printed, with checkpoints on the way."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamgp.arrays import IntArray
from streamgp.errors import ParameterError
from streamgp.kernels import Constant
from streamgp.selection.printed import IVM2003, PrintedIVM
from streamgp.training.codec import record
from streamgp.training.printed import Grown, grow_printed, labelled
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Save, Stage, once

logger = logging.getLogger(__name__)

STEP = 500
"""Inclusions between two checkpoints, at least."""


@record
@dataclass(frozen=True, eq=False)
class SelectionIndex:
    """J: places among the sample's rows."""

    places: IntArray


def add_bias_variance(selection: IVM2003) -> Stage:
    """Add the variance of the bias to the kernel.  Source: [IVM2003] section 4."""

    def work(problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
        kernel = draft.kernel + Constant(selection.bias_variance)
        return replace(draft, kernel=kernel), {"kernel": repr(kernel)}

    return once("select: bias", work)


def select_printed(selection: PrintedIVM) -> Stage:
    """Greedy selection with the papers' J, from all rows where they fit into memory."""

    def init(problem: Problem, draft: Draft) -> SelectionIndex:
        if not problem.holds_all_rows:
            if selection.needs_all_rows:
                raise ParameterError(
                    f"IVM.paper2003() draws from all {problem.n_rows} rows in memory, but memory_budget has "
                    f"room for {len(problem.sample.rows)}: give a larger one, or selection='ivm'"
                )
            logger.info("J begins with %d rows at random: more do not fit", len(problem.sample.rows))
        return SelectionIndex(np.arange(len(problem.sample.rows)))

    def step(
        problem: Problem, draft: Draft, own: SelectionIndex, save: Save
    ) -> tuple[Draft, SelectionIndex | None, dict[str, Any]]:
        [active], [likelihood] = draft.actives, draft.likelihoods
        until = _step_end(problem, selection, active.count)
        grown = grow_printed(
            selection,
            draft.kernel,
            likelihood,
            labelled(problem),
            Grown(active, own.places),
            until,
            problem.generator(draft.step, 0),
        )
        draft = replace(draft, actives=(grown.active.trimmed(),))
        done = grown.is_done or until >= problem.plan.n_active or problem.is_late()
        told = {"n_active": draft.sizes, "candidates": len(grown.places)}
        return draft, None if done else SelectionIndex(grown.places), told

    return Stage("select: ivm as printed", init, step)


def _step_end(problem: Problem, selection: PrintedIVM, n_active: int) -> int:
    """Where a step ends: when J changes next, after at least so many inclusions."""
    until = n_active
    while until < min(n_active + STEP, problem.plan.n_active):
        until = selection.stays_until(until)
    return min(until, problem.plan.n_active)
