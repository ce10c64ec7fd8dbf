"""Learning by the evidence of all rows: an evaluation is sweeps to the fixed point, and a pass for slopes."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from streamgp.arrays import FloatArray
from streamgp.errors import NumericsWarning
from streamgp.inference.damping import FOR_EVIDENCE, Damped
from streamgp.inference.inducing.basis import FITC
from streamgp.inference.inducing.heads import HeadEvidence
from streamgp.inference.inducing.slopes import Evidence, finish_evidence, merge_evidence
from streamgp.likelihoods import Gaussian
from streamgp.passes.sites import SiteSweep
from streamgp.training.heads import inducing_of, with_inducing
from streamgp.training.learn.climb import (
    NOT_AT_ALL,
    REFUSED,
    Memory,
    Parameters,
    climb,
    penalised,
    reach,
    refused,
)
from streamgp.training.optimise import Evaluations
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Save, Stage
from streamgp.training.sweeps import Sweeps, sum_over_rows, sweep_once

STEPS = 10


def refine_by_all_rows(*, learn_inputs: bool, most_sweeps: int) -> Stage:
    """A few steps uphill in the evidence of all rows, from where the sample's evidence has led.

    An interruption loses one evaluation at most; its sites begin anew.
    """

    def step(
        problem: Problem, draft: Draft, own: Evaluations, save: Save
    ) -> tuple[Draft, None, dict[str, Any]]:
        stored = problem.sample.features
        ends = problem.inputs(np.stack([stored.min(axis=0), stored.max(axis=0)]))
        found, value = climb(
            problem,
            partial(evidence_of_all_rows, problem, learn_inputs, most_sweeps),
            Parameters(draft.kernel, draft.likelihoods, inducing_of(draft)),
            STEPS,
            own,
            save,
            within=reach(ends) if learn_inputs else None,
        )
        if value >= REFUSED:
            warnings.warn(
                "the evidence of all rows could not be computed (no convergence, or no time left): the "
                "hyperparameters are those of the sample",
                NumericsWarning,
                stacklevel=2,
            )
            return draft, None, {"log_evidence": None}
        if learn_inputs:
            draft = with_inducing(draft, found.inducing)
        told = {"log_evidence": -value, "kernel": repr(found.kernel), "rows": problem.n_rows}
        return replace(draft, kernel=found.kernel, likelihoods=found.likelihoods), None, told

    return Stage("learn: all rows", lambda problem, draft: {}, step)


def evidence_of_all_rows(
    problem: Problem, inputs: bool, most_sweeps: int, parameters: Parameters, memory: Memory
) -> tuple[float, FloatArray, Memory]:
    """−log Z of all heads over the store minus log hyperpriors, its gradient, and the moments reached.

    ``memory`` has the moments of another evaluation, whose posterior is where sweeps begin, else the prior.
    Cost: some ten passes of 2 p m + 3 m² flops a row and head to the fixed point, one of 5 m² flops and three
    kernel blocks.  Hazard: in float64 always; float32 sums do not settle to the 1e-5 that gradients need.
    Source: [FITC2007] section 4.  Oracle: :func:`streamgp.inference.inducing.fit.converged_evidence`.
    """
    heads, m = len(parameters.likelihoods), len(parameters.inducing)
    sweeps = Sweeps(
        approximation=FITC,
        precision="float64",
        moment_matrices=memory.get("matrices", np.zeros((heads, m, m))),
        moment_vectors=memory.get("vectors", np.zeros((heads, m))),
        progress=(Damped(1.0) if memory else Damped(),) * heads,
        evidence=(0.0,) * heads,
    )
    try:
        while not sweeps.converged and sweeps.n_sweeps < most_sweeps and not problem.is_late():
            sweeps = sweep_once(problem, *parameters, sweeps, FOR_EVIDENCE)
        if not sweeps.converged and sweeps.residual > NOT_AT_ALL:
            return refused(parameters, inputs)
        found = _slopes(problem, parameters, sweeps, inputs)
    except LinAlgError:
        return refused(parameters, inputs)
    reached = {"matrices": sweeps.moment_matrices, "vectors": sweeps.moment_vectors}
    return *penalised(parameters, found, inputs, problem.has_hyperpriors), reached


def _slopes(problem: Problem, parameters: Parameters, sweeps: Sweeps, inputs: bool) -> list[Evidence]:
    """Evidence and gradient of every head at the fixed point, in one pass for each group of heads."""
    assert problem.scratch is not None
    kernel, likelihoods, inducing = parameters
    basis = sweeps.basis(kernel, inducing)
    is_exact = isinstance(likelihoods[0], Gaussian)
    sites = None if is_exact else problem.scratch.read(sweeps.generation)
    found = []
    for heads in problem.plan.head_groups():
        posteriors = {head: sweeps.posterior(head) for head in heads}
        step = HeadEvidence(
            basis,
            posteriors,
            likelihoods,
            problem.prepared.targets,
            sweeps.approximation,
            problem.weights,
            inputs,
        )
        sums = sum_over_rows(problem, SiteSweep(step, merge_evidence, sites), sweeps.precision, "slopes")
        found += [finish_evidence(basis, *pair) for pair in zip(posteriors.values(), sums, strict=True)]
    return found
