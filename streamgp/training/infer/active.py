"""Inference on the final active sets by expectation propagation, and their evidence."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.inference.damping import FOR_EVIDENCE
from streamgp.passes.inactive_density import InactiveDensity
from streamgp.training.heads import converged, make_snapshot
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Stage, once


def propagate_actives(*, with_all_rows: bool) -> Stage:
    """Converge the sites of every head and tell their evidence; that of all rows takes one pass more."""

    def work(problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
        draft, found = converged(problem, draft, FOR_EVIDENCE)
        told: dict[str, Any] = {
            "n_active": draft.sizes,
            "sweeps": [result.sweeps for result in found],
            "residual": max(result.residual for result in found),
            "log_evidence_active": [result.log_evidence for result in found],
        }
        if with_all_rows and not problem.is_late():
            inactive = _inactive_density(problem, draft)
            told["log_evidence_all"] = np.add(told["log_evidence_active"], inactive).tolist()
        return draft, told

    return once("infer: ep", work)


def _inactive_density(problem: Problem, draft: Draft) -> list[float]:
    """Sum of log p(y | active set) over all other rows, for each head: one pass."""
    snapshot = problem.in_pass_precision(make_snapshot(draft))
    visitor = InactiveDensity(
        problem.prepared.targets,
        draft.likelihoods,
        tuple(np.sort(active.rows[: active.count]) for active in draft.actives),
        None if problem.weights.are_even else problem.weights.of_rows,
    )
    return [float(value) for value in problem.run_snapshot_pass(visitor, snapshot, "evidence")]
