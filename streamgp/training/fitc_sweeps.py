"""Sweeps over all rows until tilted moments and posterior agree: one sweep is one pass and one step."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.errors import NumericsWarning
from streamgp.inference.inducing.fit import FOR_PREDICTION
from streamgp.inference.inducing.heads import ExactSums, HeadSweep
from streamgp.inference.inducing.posterior import head_from_posterior
from streamgp.inference.inducing.sweep import SweepSums, exact_evidence, log_evidence, merge_sweeps
from streamgp.likelihoods import Gaussian
from streamgp.passes.run import run_pass
from streamgp.passes.sites import SiteSweep
from streamgp.posterior import Snapshot
from streamgp.training.context import Context
from streamgp.training.fitc_state import SweepState
from streamgp.training.fitc_weights import row_weights
from streamgp.training.state import State

MOST_SWEEPS = 60


def sweep_all_rows(context: Context, state: State) -> State:
    """One sweep of all heads that have not converged; Gaussian noise needs one pass and no sites."""
    sweeps, found = _one_sweep(context, state, FOR_PREDICTION)
    residual = max(part.moment_residual for part in found.values())
    state = replace(state, sweeps=sweeps).told(
        n_active=[active.count for active in state.actives],
        sweep=sweeps.generation,
        residual=residual,
        skipped=list(sweeps.skipped),
        heads=len(found),
        rows=context.prepared.rows.n_rows,
        log_evidence=sum(sweeps.evidence),
    )
    if not all(sweeps.converged):
        if sweeps.generation < MOST_SWEEPS and not context.is_late():
            return state
        _warn_of_no_convergence(sweeps, residual)
    return replace(state, phase="done")


def converge(context: Context, state: State, tolerance: float) -> tuple[SweepState, float]:
    """Sweeps until moments agree so closely, or there have been too many; and the last residual."""
    sweeps, residual = state.sweeps, np.inf
    assert sweeps is not None
    while not all(sweeps.converged) and sweeps.generation < MOST_SWEEPS and not context.is_late():
        sweeps, found = _one_sweep(context, replace(state, sweeps=sweeps), tolerance)
        residual = max(part.moment_residual for part in found.values())
    return sweeps, residual


def _one_sweep(context: Context, state: State, tolerance: float) -> tuple[SweepState, dict[int, SweepSums]]:
    """The sweeps' state after one more, and what it has found of heads that had not converged."""
    before, first = state.sweeps, state.likelihoods[0]
    assert before is not None
    if isinstance(first, Gaussian):
        return _one_exact_pass(context, state, first, before)
    sums = _swept(context, state, before)
    found = {head: part for head, part in enumerate(sums) if part is not None}
    return _absorbed(before, found, tolerance), found


def _swept(context: Context, state: State, sweeps: SweepState) -> list[SweepSums | None]:
    """Sums of one sweep, None for heads that have converged; new sites are in the next generation."""
    scratch = context.scratch
    assert scratch is not None
    damping = zip(sweeps.converged, sweeps.damping, strict=True)
    step = HeadSweep(
        sweeps.basis(state.kernel, inducing_of(state)).astype(sweeps.precision),
        tuple(posterior.astype(sweeps.precision) for posterior in sweeps.posteriors()),
        state.likelihoods,
        context.prepared.targets,
        sweeps.approximation,
        tuple(0.0 if done else each.step for done, each in damping),
        row_weights(context),
    )
    following = sweeps.generation + 1
    visitor = SiteSweep(
        step,
        merge_sweeps,
        scratch.read(sweeps.generation),
        scratch.write(following, context.prepared.rows, context.n_heads),
    )
    return run_sites(context, visitor, sweeps, f"sweep {following}")


def _absorbed(sweeps: SweepState, found: dict[int, SweepSums], tolerance: float) -> SweepState:
    """The state of the sweeps after the sums that one has found."""
    matrices, vectors = sweeps.moment_matrices.copy(), sweeps.moment_vectors.copy()
    damping, converged, evidence = list(sweeps.damping), list(sweeps.converged), list(sweeps.evidence)
    skipped = [0] * len(converged)
    # Moments of a sample are no sites' moments: what the first sweep finds says nothing about convergence.
    is_first = sweeps.generation == 0
    posteriors = sweeps.posteriors()
    for head, part in found.items():
        matrices[head], vectors[head] = part.moment_matrix, part.moment_vector
        evidence[head] = log_evidence(posteriors[head], part)
        residual = part.moment_residual
        # Rows whose weight is below 1 may never have a cavity; their number is told.
        settled = part.skipped == 0 or (bool(sweeps.skipped) and part.skipped == sweeps.skipped[head])
        skipped[head] = part.skipped
        converged[head] = not is_first and residual <= tolerance and settled
        if not is_first:
            damping[head] = damping[head].after(residual)
    return replace(
        sweeps,
        moment_matrices=matrices,
        moment_vectors=vectors,
        generation=sweeps.generation + 1,
        damping=tuple(damping),
        converged=tuple(converged),
        evidence=tuple(evidence),
        skipped=tuple(skipped),
    )


def _warn_of_no_convergence(sweeps: SweepState, residual: float) -> None:
    warnings.warn(
        f"the sweeps over all rows did not converge for {sweeps.converged.count(False)} of "
        f"{len(sweeps.converged)} latent functions: after {sweeps.generation} sweeps moments are off by "
        f"{residual:.1e} (wanted {FOR_PREDICTION:.0e}). Give more time, or a kernel of smaller variance.",
        NumericsWarning,
        stacklevel=3,
    )


def _one_exact_pass(
    context: Context, state: State, likelihood: Gaussian, sweeps: SweepState
) -> tuple[SweepState, dict[int, SweepSums]]:
    basis = sweeps.basis(state.kernel, inducing_of(state)).astype(sweeps.precision)
    step = ExactSums(basis, likelihood, (sweeps.approximation,), row_weights(context))
    [sums] = run_sites(context, SiteSweep(step, merge_sweeps), sweeps, "sweep")
    sweeps = replace(
        sweeps,
        generation=1,
        moment_matrices=sums.moment_matrix[None],
        moment_vectors=sums.moment_vector[None],
        converged=(True,),
        skipped=(0,),
    )
    evidence = exact_evidence(sweeps.posteriors()[0], sums)
    return replace(sweeps, evidence=(evidence,)), {0: sums}


def run_sites(context: Context, visitor: SiteSweep, sweeps: SweepState, label: str) -> list[Any]:
    """Sums over all rows, one record for each head."""
    dtype = np.dtype(sweeps.precision)
    _, sums = run_pass(
        context.prepared.rows,
        visitor,
        context.pass_settings,
        reading=context.prepared.reading(dtype),
        label=label,
    )
    return list(sums)


def inducing_of(state: State) -> FloatArray:
    """The inducing inputs, which all heads share."""
    first = state.actives[0]
    return first.inputs[: first.count]


def inducing_snapshot(state: State) -> Snapshot:
    """The posterior as a model of its own, in float64: all heads over the same inducing inputs."""
    assert state.sweeps is not None
    inducing = inducing_of(state)
    basis = state.sweeps.basis(state.kernel, inducing)
    columns = slice(0, len(inducing))
    residual = state.sweeps.approximation.residual
    heads = tuple(
        replace(head_from_posterior(basis, posterior, columns, residual=residual), calibration=calibration)
        for posterior, calibration in zip(state.sweeps.posteriors(), state.calibrations, strict=True)
    )
    return Snapshot(state.kernel, inducing, heads)
