"""Sweeps of expectation propagation over all rows, seen through inducing inputs: one sweep is one pass.

Learning by all rows and the final inference share these; each says for itself when to stop.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.data import Span
from streamgp.errors import NotConvergedWarning
from streamgp.inference.damping import Damped
from streamgp.inference.inducing.basis import Approximation, Basis, make_basis
from streamgp.inference.inducing.heads import ExactSums, HeadSweep
from streamgp.inference.inducing.posterior import (
    InducingPosterior,
    head_from_posterior,
    posterior_from_moments,
)
from streamgp.inference.inducing.sweep import SweepSums, exact_evidence, log_evidence, merge_sweeps
from streamgp.kernels import Kernel
from streamgp.likelihoods import Gaussian, Likelihood
from streamgp.passes.sites import SiteSweep
from streamgp.posterior import Snapshot
from streamgp.posterior.calibration import Calibration
from streamgp.training.codec import record
from streamgp.training.heads import inducing_of
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft

record(Approximation)
record(Damped)


@record
@dataclass(frozen=True, eq=False)
class Sweeps:
    """The posterior of inference over all rows between two passes: sums over rows, and how far it has come.

    ``generation`` numbers the sites on disk. 0: the sites are flat, and the moments are those of a sample
    that stands for all rows. Gaussian noise keeps no sites. ``precision`` is the type of the passes. One
    entry for each head in ``progress`` and ``evidence``.
    Shapes: moment_matrices (heads, m, m), moment_vectors (heads, m).
    """

    approximation: Approximation
    precision: str
    moment_matrices: FloatArray
    moment_vectors: FloatArray
    progress: tuple[Damped, ...]
    evidence: tuple[float, ...]
    generation: int = 0

    @property
    def converged(self) -> bool:
        """Whether all heads have."""
        return all(head.converged for head in self.progress)

    @property
    def residual(self) -> float:
        """The largest moment residual that the last sweep of any head has found."""
        return max(head.residual for head in self.progress)

    @property
    def n_sweeps(self) -> int:
        """Sweeps of the head that had most."""
        return max(head.sweeps for head in self.progress)

    def basis(self, kernel: Kernel, inducing: FloatArray) -> Basis:
        """The basis that all sweeps and the model share, in float64."""
        return make_basis(kernel, inducing, self.precision)

    def posterior(self, head: int) -> InducingPosterior:
        """The posterior of one head."""
        return posterior_from_moments(self.moment_matrices[head], self.moment_vectors[head])

    def snapshot(
        self, kernel: Kernel, inducing: FloatArray, calibrations: tuple[Calibration, ...]
    ) -> Snapshot:
        """The posterior as a model of its own, in float64: all heads over the same inducing inputs."""
        basis, columns = self.basis(kernel, inducing), slice(0, len(inducing))
        residual = self.approximation.residual
        heads = tuple(
            replace(
                head_from_posterior(basis, self.posterior(head), columns, residual=residual),
                calibration=calibration,
            )
            for head, calibration in enumerate(calibrations)
        )
        return Snapshot(kernel, inducing, heads)

    def model_snapshot(self, problem: Problem, draft: Draft) -> Snapshot:
        """The model that a fit ends with, in the precision that its passes need."""
        return problem.in_pass_precision(self.snapshot(draft.kernel, inducing_of(draft), draft.calibrations))


def sweep_once(
    problem: Problem,
    kernel: Kernel,
    likelihoods: tuple[Likelihood, ...],
    inducing: FloatArray,
    sweeps: Sweeps,
    tolerance: float,
) -> Sweeps:
    """One sweep of every head that has not converged; Gaussian noise needs one pass and no sites.

    Where the plan has room for the matrices of some heads only, a sweep is several passes, one for each
    group of heads; each of them is a generation of the sites.
    """
    basis = sweeps.basis(kernel, inducing).astype(sweeps.precision)
    if isinstance(likelihoods[0], Gaussian):
        return _exact_pass(problem, basis, likelihoods[0], sweeps)
    saved = sweeps.generation
    for heads in problem.plan.head_groups():
        moving = [head for head in heads if not sweeps.progress[head].converged]
        if moving:
            sweeps = _swept(problem, basis, likelihoods, sweeps, moving, tolerance, saved)
    return sweeps


def _swept(
    problem: Problem,
    basis: Basis,
    likelihoods: tuple[Likelihood, ...],
    sweeps: Sweeps,
    moving: list[int],
    tolerance: float,
    saved: int,
) -> Sweeps:
    """One pass that moves the sites of some heads; ``saved``: the generation that the sweep started from."""
    assert problem.scratch is not None
    posteriors = {head: sweeps.posterior(head) for head in moving}
    step = HeadSweep(
        basis,
        {head: posterior.astype(sweeps.precision) for head, posterior in posteriors.items()},
        likelihoods,
        problem.prepared.targets,
        sweeps.approximation,
        {head: sweeps.progress[head].step for head in moving},
        problem.weights,
    )
    old = problem.scratch.read(sweeps.generation)
    new = problem.scratch.write(sweeps.generation + 1, problem.prepared.rows, problem.n_heads, saved=saved)
    label = f"sweep {sweeps.generation + 1}"
    sums = sum_over_rows(problem, SiteSweep(step, merge_sweeps, old, new), sweeps.precision, label)
    matrices, vectors = sweeps.moment_matrices.copy(), sweeps.moment_vectors.copy()
    progress, evidence = list(sweeps.progress), list(sweeps.evidence)
    for head, part in zip(moving, sums, strict=True):
        matrices[head], vectors[head] = part.moment_matrix, part.moment_vector
        evidence[head] = log_evidence(posteriors[head], part)
        before = progress[head]
        # Moments of a sample are no sites' moments: the residual of the first sweep says nothing.
        following = before.after(part.moment_residual, part.skipped, tolerance)
        progress[head] = before.after_first(part.skipped) if saved == 0 else following
    return replace(
        sweeps,
        moment_matrices=matrices,
        moment_vectors=vectors,
        generation=sweeps.generation + 1,
        progress=tuple(progress),
        evidence=tuple(evidence),
    )


def _exact_pass(problem: Problem, basis: Basis, likelihood: Gaussian, sweeps: Sweeps) -> Sweeps:
    step = ExactSums(basis, likelihood, sweeps.approximation, problem.weights)
    [sums] = sum_over_rows(problem, SiteSweep(step, merge_sweeps), sweeps.precision, "sweep")
    assert isinstance(sums, SweepSums)
    sweeps = replace(
        sweeps,
        generation=1,
        moment_matrices=sums.moment_matrix[None],
        moment_vectors=sums.moment_vector[None],
        progress=(Damped(residual=0.0, sweeps=1, converged=True),),
    )
    return replace(sweeps, evidence=(exact_evidence(sweeps.posterior(0), sums),))


def sum_over_rows(
    problem: Problem, visitor: SiteSweep, precision: str, label: str, spans: Iterable[Span] | None = None
) -> list[Any]:
    """Sums over all rows, or those of some spans: one record for each head of the visitor's step."""
    _, sums = problem.run_pass(visitor, np.dtype(precision), label, spans)
    return list(sums)


def warn_of_no_convergence(sweeps: Sweeps, tolerance: float) -> None:
    """Tell how many latent functions have not converged, and by how much."""
    far = sum(not head.converged for head in sweeps.progress)
    warnings.warn(
        f"the sweeps over all rows did not converge for {far} of {len(sweeps.progress)} latent functions: "
        f"after {sweeps.n_sweeps} sweeps moments are off by {sweeps.residual:.1e} (wanted {tolerance:.0e}). "
        f"Give more time, or a kernel of smaller variance.",
        NotConvergedWarning,
        stacklevel=3,
    )
