"""Spread of joint classes: expectation propagation over all rows, from the mode.

First Laplace's sites at the mode, one pass; then sweeps until tilted moments and posteriors agree. Variances
and means both move. Held-out rows have not gained from it so far (docs/decisions.md), so that it must be
asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamgp.inference.damping import Damped
from streamgp.inference.inducing.basis import Approximation
from streamgp.inference.inducing.joint import JointSweep, PartialSweep, SitesAtMode, joint_residual
from streamgp.inference.inducing.mode import PointTerms
from streamgp.inference.inducing.sweep import SweepSums, log_evidence, merge_sweeps
from streamgp.likelihoods import JointLikelihood
from streamgp.passes.sites import SiteSweep
from streamgp.settings import FITC
from streamgp.training.codec import record
from streamgp.training.heads import inducing_of
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Save, Stage
from streamgp.training.sweeps import Sweeps, sum_over_rows, warn_of_no_convergence

LEAST_PRECISION = 1e-2
"""Rows whose sites all have less precision matter to no class: most sweeps leave them out."""
MOST_PARTIAL = 2
"""Sweeps in a row that leave rows out."""
MOST_SHARE = 0.7
"""Share of the rows that matter above which sweeps are of all rows."""


@record
@dataclass(frozen=True)
class Turn:
    """How many sweeps in a row, the next included, are of the rows that matter alone; whether that pays."""

    partial: int = 0
    pays: bool = True


def sweep_joint_classes(settings: FITC) -> Stage:
    """One pass a step: sites at the mode, then sweeps until all classes have converged.

    Between sweeps of all rows are some of those that matter alone: converged is what a sweep of all rows
    finds converged.
    """

    def step(
        problem: Problem, draft: Draft, own: Turn, save: Save
    ) -> tuple[Draft, Turn | None, dict[str, Any]]:
        is_first, swept = not isinstance(draft.sweeps, Sweeps), problem.n_rows
        if is_first:
            sweeps = _around_the_mode(problem, draft, settings)
        else:
            sweeps, swept = _swept(problem, draft, settings, partial=own.partial > 0)
        told = {
            "n_active": draft.sizes,
            "sweep": sweeps.n_sweeps,
            "residual": None if is_first else sweeps.residual,
            "skipped": sweeps.progress[0].skipped,
            "rows": swept,
        }
        if not is_first and not own.partial:
            told["log_evidence"] = sum(sweeps.evidence)
        following = _turn(own, sweeps, swept / problem.n_rows, settings)
        if own.partial:
            sweeps = replace(
                sweeps, progress=(sweeps.progress[0]._replace(converged=False),) * problem.n_heads
            )
        ended = not is_first and (sweeps.n_sweeps >= settings.most_sweeps or problem.is_late())
        if ended and not sweeps.converged:
            warn_of_no_convergence(sweeps, settings.tolerance)
        draft = replace(draft, sweeps=sweeps)
        return draft, None if ended or sweeps.converged else following, told

    return Stage("infer: joint sweeps", lambda problem, draft: Turn(), step)


def _turn(own: Turn, sweeps: Sweeps, share: float, settings: FITC) -> Turn:
    """The next sweep after one of such a share of the rows: the last that is allowed is of all of them."""
    pays = own.pays and not (own.partial and share > MOST_SHARE)
    settled = own.partial and sweeps.converged
    goes_on = 1 <= sweeps.n_sweeps < settings.most_sweeps - 1 and own.partial < MOST_PARTIAL
    return Turn(own.partial + 1 if pays and goes_on and not settled else 0, pays)


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


def _swept(problem: Problem, draft: Draft, settings: FITC, *, partial: bool) -> tuple[Sweeps, int]:
    """One sweep of all classes, with one step for all of them, and the rows that it moved."""
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
    sums = _pass(problem, before, PartialSweep(step, LEAST_PRECISION) if partial else step)
    progress = before.progress[0].after(
        joint_residual(sums), sum(one.skipped for one in sums), settings.tolerance
    )
    if partial:
        changes = zip(sums, before.moment_matrices, before.moment_vectors, strict=True)
        sums = [
            one._replace(moment_matrix=matrix + one.moment_matrix, moment_vector=vector + one.moment_vector)
            for one, matrix, vector in changes
        ]
    following = replace(_with_moments(before, sums), progress=(progress,) * problem.n_heads)
    if not partial:
        pairs = zip(posteriors, sums, strict=True)
        following = replace(following, evidence=tuple(log_evidence(*pair) for pair in pairs))
    return following, sums[0].rows


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
