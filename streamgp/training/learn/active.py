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


def penalised_evidence(problem: Problem, draft: Draft, vector: FloatArray) -> tuple[float, FloatArray]:
    """−log Z_EP of all heads, minus the log hyperpriors, and its gradient."""
    kernel, likelihoods = unpack(draft.kernel, draft.likelihoods, vector)

    def one(head: int) -> Evidence:
        active = draft.actives[head]
        # From the draft's sites, not those of the last evaluation: replay does not know these.
        return evidence(kernel, likelihoods[head], active.inputs, active.targets, active.sites)

    found = side_by_side(problem, one, problem.n_heads)
    return minus_log_posterior(kernel.log_prior(draft.actives[0].inputs.shape[1]), likelihoods, found)


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
