"""Selection by the multi-way IVM, from rows in memory."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.likelihoods import JointLikelihood
from streamgp.selection import IVM
from streamgp.training.multiway import grow_multiway
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Stage, once

logger = logging.getLogger(__name__)


def select_multiway(selection: IVM, likelihood: JointLikelihood) -> Stage:
    """Active sets of all classes together, ``n_active`` rows each on average; then one joint likelihood."""

    def work(problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
        total, sample = problem.plan.n_active * problem.n_heads, problem.sample
        most = problem.plan.candidates_at(total)  # all classes have stubs at the same time
        most = most if selection.candidates is None else min(most, selection.candidates)
        if most < len(sample.rows) or not problem.holds_all_rows:
            logger.info("J holds %d of %d rows, at random", min(most, len(sample.rows)), problem.n_rows)
        pool = sample.take(np.sort(problem.sample_order(most)))
        actives = grow_multiway(
            selection,
            draft.kernels or draft.kernel,
            likelihood,
            pool.rows,
            problem.inputs(pool.features),
            pool.targets.astype(np.int64),
            problem.n_heads,
            total,
            problem.generator(draft.step, 0),
            problem.weights.of_rows(pool.rows, pool.targets),
        )
        actives = tuple(active.trimmed() for active in actives)
        draft = replace(draft, actives=actives, likelihoods=(likelihood,))
        return draft, {"n_active": draft.sizes, "candidates": len(pool.rows)}

    return once("select: multi-way ivm", work)
