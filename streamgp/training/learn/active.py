"""Learning by the evidence of the active sets, while a predictive selection goes on [PASS2012]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference import Sites
from streamgp.inference.active_evidence import Evidence, evidence
from streamgp.inference.damping import FOR_PREDICTION
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.passes.candidates import Pool
from streamgp.training.heads import active_set, propagate, side_by_side
from streamgp.training.optimise import (
    Evaluations,
    descend,
    logged,
    minus_log_posterior,
    pack,
    pack_bounds,
    unpack,
)
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft
from streamgp.training.starts import Starts


def climb_active_evidence(
    problem: Problem,
    draft: Draft,
    steps: int,
    evaluations: Evaluations,
    save: Callable[[Evaluations], None],
) -> Draft:
    """Steps uphill in log Z_EP of all heads together, hyperpriors included; the active sets stay."""
    log = logged(lambda vector: penalised_evidence(problem, draft, vector), evaluations, save)
    start, bounds = pack(draft.kernel, draft.likelihoods), pack_bounds(draft.kernel, draft.likelihoods)
    found, _ = descend(log, start, bounds, steps, 2 * steps, problem.is_late)
    kernel, likelihoods = unpack(draft.kernel, draft.likelihoods, found)
    return replace(draft, kernel=kernel, likelihoods=likelihoods)


def climb_evidence_alone(
    problem: Problem,
    draft: Draft,
    steps: int,
    evaluations: Evaluations,
    save: Callable[[Evaluations], None],
) -> Draft:
    """The same for the kernel alone, without hyperpriors: θ = argmax log Z_EP.  Source: [PASS2012]."""

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        found = _evidences(problem, draft, draft.kernel.with_log_parameters(vector), draft.likelihoods)
        value = sum(one.value for one in found)
        return -value, -np.sum([one.kernel_gradient for one in found], axis=0)

    start, bounds = draft.kernel.log_parameters, draft.kernel.log_bounds
    found, _ = descend(logged(objective, evaluations, save), start, bounds, steps, 2 * steps, problem.is_late)
    return replace(draft, kernel=draft.kernel.with_log_parameters(found))


def penalised_evidence(problem: Problem, draft: Draft, vector: FloatArray) -> tuple[float, FloatArray]:
    """−log Z_EP of all heads, minus the log hyperpriors, and its gradient."""
    kernel, likelihoods = unpack(draft.kernel, draft.likelihoods, vector)
    found = _evidences(problem, draft, kernel, likelihoods)
    return minus_log_posterior(kernel.log_prior(draft.actives[0].inputs.shape[1]), likelihoods, found)


def _evidences(
    problem: Problem, draft: Draft, kernel: Kernel, likelihoods: tuple[Likelihood, ...]
) -> list[Evidence]:
    """Log Z_EP of every head's active set under other parameters, with gradients."""

    def one(head: int) -> Evidence:
        active = draft.actives[head]
        # From the draft's sites, not those of the last evaluation: replay does not know these.
        return evidence(kernel, likelihoods[head], active.inputs, active.targets, active.sites)

    return side_by_side(problem, one, problem.n_heads)


def best_start(starts: Starts, problem: Problem, draft: Draft, first: Pool) -> Kernel:
    """The kernel under which the first active rows have the largest evidence."""
    kernels, inputs = starts.kernels(problem), problem.inputs(first.features)

    def total(number: int) -> float:
        values = 0.0
        for head, likelihood in enumerate(draft.likelihoods):
            targets = problem.head_targets(first.targets, head)
            flat = Sites(np.zeros(len(targets)), np.zeros(len(targets)))
            active = active_set(first.rows, inputs, targets, flat)
            values += propagate(kernels[number], likelihood, active, FOR_PREDICTION).log_evidence
        return values

    return kernels[int(np.argmax(side_by_side(problem, total, len(kernels))))]
