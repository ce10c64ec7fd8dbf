"""Sweeps over all rows until tilted moments and posterior agree: one sweep is one pass and one step."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from streamgp.errors import NumericsWarning
from streamgp.inference.fitc import FOR_PREDICTION
from streamgp.inference.fitc_heads import ExactSums, HeadSweep
from streamgp.inference.fitc_posterior import head_from_posterior
from streamgp.inference.fitc_sweep import SweepSums, exact_evidence, log_evidence, merge_sweeps
from streamgp.likelihoods import Gaussian
from streamgp.passes.run import run_pass
from streamgp.passes.site_sweep import SiteSweep
from streamgp.posterior import Snapshot
from streamgp.training.context import Context
from streamgp.training.fitc_state import SweepState
from streamgp.training.fitc_weights import row_weights
from streamgp.training.state import State

FloatArray = NDArray[np.float64]

MOST_SWEEPS = 60


def sweep_all_rows(context: Context, state: State) -> State:
    """One sweep of all heads that have not converged; Gaussian noise needs one pass and no sites."""
    before = state.sweeps
    assert before is not None
    if isinstance(state.likelihoods[0], Gaussian):
        return _one_exact_pass(context, state, state.likelihoods[0], before)
    sums = _swept(context, state, before)
    found = {head: part for head, part in enumerate(sums) if part is not None}
    sweeps = _absorbed(before, found, _last_skipped(context, state))
    residual = max(part.moment_residual for part in found.values())
    state = replace(state, sweeps=sweeps).told(
        n_active=[active.count for active in state.actives],
        sweep=sweeps.generation,
        residual=residual,
        skipped=[0 if part is None else part.skipped for part in sums],
        heads=len(found),
        rows=context.prepared.rows.n_rows,
        log_evidence=sum(sweeps.evidence),
    )
    if not all(sweeps.converged):
        if sweeps.generation < MOST_SWEEPS and not context.is_late():
            return state
        _warn_of_no_convergence(sweeps, residual)
    return replace(state, phase="done")


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
    _, sums = _run(context, visitor, sweeps, f"sweep {following}")
    return list(sums)


def _absorbed(sweeps: SweepState, found: dict[int, SweepSums], skipped_before: list[int]) -> SweepState:
    """The state of the sweeps after the sums that one has found."""
    matrices, vectors = sweeps.moment_matrices.copy(), sweeps.moment_vectors.copy()
    damping, converged, evidence = list(sweeps.damping), list(sweeps.converged), list(sweeps.evidence)
    # Moments of a sample are no sites' moments: what the first sweep finds says nothing about convergence.
    is_first = sweeps.generation == 0
    posteriors = sweeps.posteriors()
    for head, part in found.items():
        matrices[head], vectors[head] = part.moment_matrix, part.moment_vector
        evidence[head] = log_evidence(posteriors[head], part)
        residual = part.moment_residual
        # Rows whose weight is below 1 may never have a cavity; their number is told.
        settled = part.skipped == 0 or part.skipped == skipped_before[head]
        converged[head] = not is_first and residual <= FOR_PREDICTION and settled
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
    )


def _warn_of_no_convergence(sweeps: SweepState, residual: float) -> None:
    warnings.warn(
        f"the sweeps over all rows did not converge for {sweeps.converged.count(False)} of "
        f"{len(sweeps.converged)} latent functions: after {sweeps.generation} sweeps moments are off by "
        f"{residual:.1e} (wanted {FOR_PREDICTION:.0e}). Give more time, or a kernel of smaller variance.",
        NumericsWarning,
        stacklevel=3,
    )


def _last_skipped(context: Context, state: State) -> list[int]:
    """Rows without a cavity in the sweep before, of each head; −1 where there was none."""
    latest = state.history[-1] if state.history else {}
    skipped: list[int] = latest.get("skipped", [-1] * context.n_heads)
    return skipped


def _one_exact_pass(context: Context, state: State, likelihood: Gaussian, sweeps: SweepState) -> State:
    basis = sweeps.basis(state.kernel, inducing_of(state)).astype(sweeps.precision)
    step = ExactSums(basis, likelihood, (sweeps.approximation,), row_weights(context))
    _, [sums] = _run(context, SiteSweep(step, merge_sweeps), sweeps, "sweep")
    sweeps = replace(
        sweeps,
        generation=1,
        moment_matrices=sums.moment_matrix[None],
        moment_vectors=sums.moment_vector[None],
        converged=(True,),
    )
    evidence = exact_evidence(sweeps.posteriors()[0], sums)
    state = replace(state, sweeps=replace(sweeps, evidence=(evidence,))).told(
        n_active=[state.n_active], sweep=1, rows=context.prepared.rows.n_rows, log_evidence=evidence
    )
    return replace(state, phase="done")


def _run(
    context: Context, visitor: SiteSweep, sweeps: SweepState, label: str
) -> tuple[object, list[SweepSums]]:
    dtype = np.dtype(sweeps.precision)
    return run_pass(
        context.prepared.rows,
        visitor,
        context.pass_settings,
        reading=context.prepared.reading(dtype),
        label=label,
    )


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
