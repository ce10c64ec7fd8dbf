"""Spread of joint classes: expectation propagation over all rows, from the mode.

First Laplace's sites at the mode, one pass; then sweeps until tilted moments and posteriors agree. Variances
and means both move. Held-out rows have not gained from it so far (docs/decisions.md), so that it must be
asked for. Where the plan has room for the matrices of some classes only, groups of them take turns: a sweep
of k groups is 2 k − 1 passes, of which the first k − 1 write marginals and the last ones add up moments.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference.damping import Damped
from streamgp.inference.inducing.basis import Approximation, Basis
from streamgp.inference.inducing.joint import (
    ClassMarginals,
    ClassMoments,
    JointSweep,
    SitesAtMode,
    joint_residual,
)
from streamgp.inference.inducing.mode import PointTerms
from streamgp.inference.inducing.posterior import InducingPosterior
from streamgp.inference.inducing.sweep import SweepSums, merge_sweeps
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
            "converged": sweeps.converged,
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
    *others, last = problem.plan.head_groups()
    weights, columns = mode.weights.astype(flat.precision), problem.plan.site_columns
    step = SitesAtMode(basis, weights, terms, problem.weights, last, columns)
    sums, sweeps = _pass(problem, flat, step, saved=0)
    return _with_moments(problem, sweeps, basis, sums, others)


def _swept(problem: Problem, draft: Draft, settings: FITC) -> Sweeps:
    """One sweep of all classes, with one step for all of them."""
    before, [likelihood] = draft.sweeps, draft.likelihoods
    assert isinstance(before, Sweeps)
    assert isinstance(likelihood, JointLikelihood)
    basis = before.basis(draft.kernel, inducing_of(draft)).astype(before.precision)
    *others, last = problem.plan.head_groups()
    saved, sweeps, determinants = before.generation, before, np.empty(problem.n_heads)
    for classes in others:
        marginals = ClassMarginals(basis, _posteriors(before, classes, determinants))
        _, sweeps = _pass(problem, sweeps, marginals, saved)
    step = JointSweep(
        basis,
        _posteriors(before, last, determinants),
        likelihood,
        before.approximation,
        before.progress[0].step,
        problem.weights,
    )
    sums, sweeps = _pass(problem, sweeps, step, saved)
    progress = before.progress[0].after(
        joint_residual(sums), sum(one.skipped for one in sums), settings.tolerance
    )
    return replace(
        _with_moments(problem, sweeps, basis, sums, others),
        progress=(progress,) * problem.n_heads,
        evidence=tuple(one.evidence - 0.5 * found for one, found in zip(sums, determinants, strict=True)),
    )


def _posteriors(sweeps: Sweeps, classes: range, determinants: FloatArray) -> dict[int, InducingPosterior]:
    """The posteriors of some classes in the type of the pass; their log determinants are put in place."""
    found = {}
    for c in classes:
        posterior = sweeps.posterior(c)
        determinants[c] = posterior.log_determinant
        found[c] = posterior.astype(sweeps.precision)
    return found


def _pass(problem: Problem, sweeps: Sweeps, step: Any, saved: int) -> tuple[list[SweepSums], Sweeps]:
    """One pass over all rows, that reads one generation of sites and writes the next.

    ``saved``: the generation that the step of the fit started from.
    """
    assert problem.scratch is not None
    old, following = problem.scratch.read(sweeps.generation), sweeps.generation + 1
    shape = (problem.n_heads, problem.plan.site_columns)
    new = problem.scratch.write(following, problem.prepared.rows, *shape, saved)
    visitor = SiteSweep(step, merge_sweeps, old, new)
    sums = sum_over_rows(problem, visitor, sweeps.precision, f"sweep {following}")
    return sums, replace(sweeps, generation=following)


def _with_moments(
    problem: Problem, sweeps: Sweeps, basis: Basis, sums: list[SweepSums], others: list[range]
) -> Sweeps:
    """The sums of all classes, those of the other groups by a pass for each."""
    assert problem.scratch is not None
    found = {c: one for c, one in enumerate(sums) if len(one.moment_vector)}
    for classes in others:
        step = ClassMoments(basis, classes, problem.weights)
        visitor = SiteSweep(step, merge_sweeps, problem.scratch.read(sweeps.generation))
        parts = sum_over_rows(problem, visitor, sweeps.precision, f"moments {sweeps.generation}")
        found |= zip(classes, parts, strict=True)
    return replace(
        sweeps,
        moment_matrices=np.stack([found[c].moment_matrix for c in range(problem.n_heads)]),
        moment_vectors=np.stack([found[c].moment_vector for c in range(problem.n_heads)]),
    )
