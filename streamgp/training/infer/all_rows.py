"""Inference over all rows through the inducing inputs: sweeps until tilted moments and posterior agree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.settings import FITC
from streamgp.training.heads import inducing_of
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Save, Stage
from streamgp.training.sweeps import sweep_once, warn_of_no_convergence


def sweep_all_rows(settings: FITC) -> Stage:
    """One sweep a step, from the posterior that the draft has, until all heads have converged."""

    def step(
        problem: Problem, draft: Draft, own: dict[str, Any], save: Save
    ) -> tuple[Draft, dict[str, Any] | None, dict[str, Any]]:
        before = draft.sweeps
        assert before is not None
        sweeps = sweep_once(
            problem, draft.kernel, draft.likelihoods, inducing_of(draft), before, settings.tolerance
        )
        told = {
            "n_active": draft.sizes,
            "sweep": sweeps.n_sweeps,
            "residual": sweeps.residual if np.isfinite(sweeps.residual) else None,
            "converged": sweeps.converged,
            "skipped": [head.skipped for head in sweeps.progress],
            "heads": sum(not head.converged for head in before.progress),
            "rows": problem.n_rows,
            "log_evidence": sum(sweeps.evidence),
        }
        ended = sweeps.n_sweeps >= settings.most_sweeps or problem.is_late()
        if ended and not sweeps.converged:
            warn_of_no_convergence(sweeps, settings.tolerance)
        draft = replace(draft, sweeps=sweeps)
        return draft, None if ended or sweeps.converged else own, told

    return Stage("infer: all rows", lambda problem, draft: {}, step)
