"""Learning joint classes by their evidence: one kernel for all of them, expectation propagation on a sample.

What suits a mode, without variances, need not suit variances: their own evidence leads on from there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from streamgp.arrays import FloatArray
from streamgp.inference.inducing.basis import make_basis
from streamgp.inference.inducing.in_memory import Rows
from streamgp.inference.inducing.joint_fit import fit_joint, joint_evidence, joint_fit_bytes
from streamgp.training.learn.climb import NOT_AT_ALL, REFUSED, Memory, Parameters, climb, penalised, refused
from streamgp.training.optimise import Evaluations, in_time
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Save, Stage

ROWS = 1000
ROWS_PER_INDUCING = 8
FEWEST_ROWS = 100
STEPS = 15
MOST_SWEEPS = 60
TOLERANCE = 1e-4
FIRST_STEP = 0.3


def climb_joint_evidence(residual: float) -> Stage:
    """Steps uphill in the evidence of all classes, from the kernel that the draft has."""

    def step(
        problem: Problem, draft: Draft, own: Evaluations, save: Save
    ) -> tuple[Draft, None, dict[str, Any]]:
        rows = _rows(problem, draft)
        inducing = rows.features[::ROWS_PER_INDUCING]
        found, value = climb(
            problem,
            partial(_evidence, rows, problem.n_heads, residual, problem.has_hyperpriors),
            Parameters(draft.kernel, draft.likelihoods, inducing),
            STEPS,
            own,
            save,
            first_step=FIRST_STEP,
        )
        told: dict[str, Any] = {
            "log_evidence": None,
            "kernel": repr(draft.kernel),
            "rows": len(rows.features),
        }
        if value >= REFUSED:  # no convergence, or no time: the kernel stays
            return draft, None, told
        told |= {"log_evidence": -value, "kernel": repr(found.kernel)}
        return replace(draft, kernel=found.kernel, likelihoods=found.likelihoods), None, told

    return Stage("learn: joint evidence", lambda problem, draft: {}, step)


def _rows(problem: Problem, draft: Draft) -> Rows:
    """Rows of the sample, as many as fit with what an evaluation takes; in an order that is random."""
    size, p, [likelihood] = min(ROWS, len(problem.sample.rows)), problem.n_features, draft.likelihoods
    room = 2 * problem.plan.candidate_share - 8 * len(problem.sample.rows)
    while size > FEWEST_ROWS:
        shape = (size, 1 + size // ROWS_PER_INDUCING, p, problem.n_heads)
        if joint_fit_bytes(draft.kernel, likelihood, *shape) + 8 * size * (p + 2) <= room:
            break
        size //= 2
    sample, chosen = problem.sample, problem.sample_order(size)
    encoded = sample.targets[chosen]
    weights = problem.sample_weights(encoded) * problem.weights.of_rows(sample.rows[chosen], encoded)
    inputs = problem.inputs(sample.features[chosen])
    return Rows(inputs, encoded, weights, before=in_time(problem.is_late))


def _evidence(
    rows: Rows,
    n_classes: int,
    residual: float,
    hyperpriors: bool,
    parameters: Parameters,
    memory: Memory,
) -> tuple[float, FloatArray, Memory]:
    """−log Z of all classes minus log hyperpriors, its gradient, and the sites that were reached."""
    kernel, likelihoods, inducing = parameters
    likelihood: Any = likelihoods[0]
    try:
        basis = make_basis(kernel, inducing)
        fit = fit_joint(
            basis,
            likelihood,
            rows,
            n_classes,
            residual,
            sites=memory.get("sites"),
            tolerance=TOLERANCE,
            max_sweeps=MOST_SWEEPS,
        )
        if not fit.converged and fit.residual > NOT_AT_ALL:
            return refused(parameters, False)
        found = joint_evidence(basis, likelihood, rows, fit, residual)
    except LinAlgError:
        return refused(parameters, False)
    value, gradient = penalised(parameters, [found], False, hyperpriors)
    return value, gradient, {"sites": np.asarray(fit.sites)}
