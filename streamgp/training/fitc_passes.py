"""Learning by the evidence of all rows: an evaluation is sweeps to the fixed point, and a pass for slopes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.linalg import LinAlgError

from streamgp.arrays import FloatArray
from streamgp.errors import NumericsWarning
from streamgp.inference.inducing.basis import FITC
from streamgp.inference.inducing.fit import FOR_EVIDENCE, Damping
from streamgp.inference.inducing.heads import HeadEvidence
from streamgp.inference.inducing.slopes import Evidence, finish_evidence, merge_evidence
from streamgp.likelihoods import Gaussian
from streamgp.passes.sites import SiteSweep
from streamgp.training.context import Context
from streamgp.training.fitc_evidence import (
    NOT_AT_ALL,
    REFUSED,
    Memory,
    Parameters,
    maximise,
    penalised,
    reach,
    refused,
)
from streamgp.training.fitc_state import SweepState
from streamgp.training.fitc_sweeps import converge, inducing_of, run_sites
from streamgp.training.fitc_weights import row_weights
from streamgp.training.heads import with_inducing
from streamgp.training.state import State

STEPS = 10


def refine_all(context: Context, state: State, save: Callable[[State], None]) -> State:
    """A few steps uphill in the evidence of all rows, from where the sample's evidence has led.

    An interruption loses one evaluation at most; its sites begin anew.
    """
    learn_inputs = context.learns_inducing
    inducing, stored = inducing_of(state), context.sample.features
    found, value = maximise(
        partial(evidence_of_all_rows, context, state, learn_inputs),
        state,
        Parameters(state.kernel, state.likelihoods, inducing),
        STEPS,
        save,
        within=reach(context.inputs(np.stack([stored.min(axis=0), stored.max(axis=0)])))
        if learn_inputs
        else None,
    )
    if value >= REFUSED:
        warnings.warn(
            "the evidence of all rows could not be computed (no convergence, or no time left): the "
            "hyperparameters are those of the sample",
            NumericsWarning,
            stacklevel=2,
        )
        return replace(state, evaluations={}, phase="approximate")
    if learn_inputs:
        state = with_inducing(state, found.inducing)
    state = replace(state, kernel=found.kernel, likelihoods=found.likelihoods, evaluations={})
    state = state.told(log_evidence=-value, kernel=repr(found.kernel), rows=context.prepared.rows.n_rows)
    return replace(state, phase="approximate")


def evidence_of_all_rows(
    context: Context, state: State, inputs: bool, parameters: Parameters, memory: Memory
) -> tuple[float, FloatArray, Memory]:
    """−log Z of all heads over the store minus log hyperpriors, its gradient, and the moments reached.

    ``memory`` has the moments of another evaluation, whose posterior is where sweeps begin, else the prior.
    Cost: some ten passes of 2 p m + 3 m² flops a row and head to the fixed point, one of 5 m² flops and three
    kernel blocks.  Hazard: in float64 always; float32 sums do not settle to the 1e-5 that gradients need.
    Source: [FITC2007] section 4.  Oracle: :func:`streamgp.inference.inducing.fit.converged_evidence`.
    """
    kernel, likelihoods, inducing = parameters
    heads, m = len(likelihoods), len(inducing)
    start = SweepState(
        approximation=FITC,
        precision="float64",
        moment_matrices=memory.get("matrices", np.zeros((heads, m, m))),
        moment_vectors=memory.get("vectors", np.zeros((heads, m))),
        damping=(Damping(1.0) if memory else Damping(),) * heads,
        converged=(False,) * heads,
        evidence=(0.0,) * heads,
    )
    state = replace(with_inducing(state, inducing), kernel=kernel, likelihoods=likelihoods)
    try:
        sweeps, residual = converge(context, replace(state, sweeps=start), FOR_EVIDENCE)
        if not all(sweeps.converged) and residual > NOT_AT_ALL:
            return refused(parameters, inputs)
        found = _slopes(context, replace(state, sweeps=sweeps), sweeps, inputs)
    except LinAlgError:
        return refused(parameters, inputs)
    reached = {"matrices": sweeps.moment_matrices, "vectors": sweeps.moment_vectors}
    return *penalised(parameters, found, inputs), reached


def _slopes(context: Context, state: State, sweeps: SweepState, inputs: bool) -> list[Evidence]:
    """Evidence and gradient of every head at the fixed point, in one pass."""
    assert context.scratch is not None
    basis, posteriors = sweeps.basis(state.kernel, inducing_of(state)), sweeps.posteriors()
    step = HeadEvidence(
        basis,
        posteriors,
        state.likelihoods,
        context.prepared.targets,
        sweeps.approximation,
        row_weights(context),
        inputs,
    )
    is_exact = isinstance(state.likelihoods[0], Gaussian)
    sites = None if is_exact else context.scratch.read(sweeps.generation)
    sums = run_sites(context, SiteSweep(step, merge_evidence, sites), sweeps, "slopes")
    return [finish_evidence(basis, *pair) for pair in zip(posteriors, sums, strict=True)]
