"""Spread of joint classes: expectation propagation over all rows, from the mode.

First Laplace's sites at the mode, one pass; then sweeps until tilted moments and posteriors agree. Variances
and means both move. Held-out rows have not gained from it so far (docs/decisions.md), so that it must be
asked for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.inference.damping import Damped
from streamgp.inference.inducing.basis import Approximation
from streamgp.inference.inducing.joint import JointSweep, SitesAtMode, joint_residual
from streamgp.inference.inducing.mode import PointTerms
from streamgp.inference.inducing.sweep import SweepSums, log_evidence, merge_sweeps
from streamgp.likelihoods import JointLikelihood
from streamgp.passes.sites import SiteSweep
from streamgp.settings import FITC
from streamgp.training.heads import inducing_of
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Save, Stage
from streamgp.training.sweeps import Sweeps, sum_over_rows, warn_of_no_convergence


def sweep_joint_classes(settings: FITC) -> Stage:
    """One pass a step: sites at the mode, then sweeps until all classes have converged."""

    def step(
        problem: Problem, draft: Draft, own: dict[str, Any], save: Save
    ) -> tuple[Draft, dict[str, Any] | None, dict[str, Any]]:
        is_first = not isinstance(draft.sweeps, Sweeps)
        sweeps = _around_the_mode(problem, draft, settings) if is_first else _swept(problem, draft, settings)
        told = {
            "n_active": draft.sizes,
            "sweep": sweeps.n_sweeps,
            "residual": None if is_first else sweeps.residual,
            "skipped": sweeps.progress[0].skipped,
            "rows": problem.n_rows,
        }
        if not is_first:
            told["log_evidence"] = sum(sweeps.evidence)
        ended = not is_first and (sweeps.n_sweeps >= settings.most_sweeps or problem.is_late())
        if ended and not sweeps.converged:
            warn_of_no_convergence(sweeps, settings.tolerance)
        draft = replace(draft, sweeps=sweeps)
        return draft, None if ended or sweeps.converged else own, told

    return Stage("infer: joint sweeps", lambda problem, draft: {}, step)


def _around_the_mode(problem: Problem, draft: Draft, settings: FITC) -> Sweeps:
    """Laplace's sites of all rows: they are the first generation."""
    mode, [likelihood] = draft.sweeps, draft.likelihoods
    flat = Sweeps(
        approximation=Approximation(float(settings.residual), 1.0),
        precision=mode.precision,
        moment_matrices=np.zeros((0, 0, 0)),
        moment_vectors=np.zeros((0, 0)),
        progress=(Damped(),) * problem.n_heads,
        evidence=(0.0,) * problem.n_heads,
    )
    basis = flat.basis(draft.kernel, inducing_of(draft)).astype(flat.precision)
    terms = PointTerms(likelihood, problem.prepared.targets)
    step = SitesAtMode(basis, mode.weights.astype(flat.precision), terms, problem.weights)
    return _with_moments(flat, _pass(problem, flat, step))


def _swept(problem: Problem, draft: Draft, settings: FITC) -> Sweeps:
    """One sweep of all classes, with one step for all of them."""
    before, [likelihood] = draft.sweeps, draft.likelihoods
    assert isinstance(before, Sweeps)
    assert isinstance(likelihood, JointLikelihood)
    posteriors = tuple(before.posterior(head) for head in range(problem.n_heads))
    step = JointSweep(
        before.basis(draft.kernel, inducing_of(draft)).astype(before.precision),
        tuple(posterior.astype(before.precision) for posterior in posteriors),
        likelihood,
        before.approximation,
        before.progress[0].step,
        problem.weights,
    )
    sums = _pass(problem, before, step)
    progress = before.progress[0].after(
        joint_residual(sums), sum(one.skipped for one in sums), settings.tolerance
    )
    pairs = zip(posteriors, sums, strict=True)
    return replace(
        _with_moments(before, sums),
        progress=(progress,) * problem.n_heads,
        evidence=tuple(log_evidence(posterior, one) for posterior, one in pairs),
    )


def _pass(problem: Problem, sweeps: Sweeps, step: Any) -> list[SweepSums]:
    """One pass over all rows, that reads one generation of sites and writes the next."""
    assert problem.scratch is not None
    old = problem.scratch.read(sweeps.generation)
    new = problem.scratch.write(sweeps.generation + 1, problem.prepared.rows, problem.n_heads)
    visitor = SiteSweep(step, merge_sweeps, old, new)
    return sum_over_rows(problem, visitor, sweeps.precision, f"sweep {sweeps.generation + 1}")


def _with_moments(sweeps: Sweeps, sums: list[SweepSums]) -> Sweeps:
    return replace(
        sweeps,
        moment_matrices=np.stack([one.moment_matrix for one in sums]),
        moment_vectors=np.stack([one.moment_vector for one in sums]),
        generation=sweeps.generation + 1,
    )
