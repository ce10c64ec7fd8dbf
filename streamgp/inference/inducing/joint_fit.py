"""Joint classes of rows in memory: expectation propagation to convergence, the evidence and its gradient."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference.damping import FOR_EVIDENCE, Damped, iterate
from streamgp.inference.inducing.basis import Approximation, Basis, whiten
from streamgp.inference.inducing.heads import RowWeights
from streamgp.inference.inducing.in_memory import ROWS_PER_BLOCK, Rows
from streamgp.inference.inducing.joint import (
    JointSweep,
    class_sums,
    joint_bytes,
    joint_residual,
    update_classes,
)
from streamgp.inference.inducing.posterior import InducingPosterior, prior_posterior
from streamgp.inference.inducing.slopes import (
    Evidence,
    EvidenceSums,
    evidence_bytes,
    finish_together,
    merge_evidence,
    row_slopes,
)
from streamgp.inference.inducing.sweep import SweepSums, log_evidence, merge_sweeps
from streamgp.kernels import Kernel
from streamgp.likelihoods import JointLikelihood
from streamgp.numerics import projection as numerics
from streamgp.passes.blas import single_threaded_blas

NOBODY = np.zeros(0, np.int64)


class JointFit(NamedTuple):
    """Sites (n, C, 2) of all rows and classes, and a posterior for each class; the rest as of one head."""

    sites: FloatArray
    posteriors: tuple[InducingPosterior, ...]
    evidence: float
    residual: float
    sweeps: int
    converged: bool


def fit_joint(
    basis: Basis,
    likelihood: JointLikelihood,
    rows: Rows,
    n_classes: int,
    residual: float,
    *,
    sites: FloatArray | None = None,
    tolerance: float = FOR_EVIDENCE,
    max_sweeps: int = 200,
) -> JointFit:
    """Sweeps over rows in memory until tilted moments and the posteriors of all classes agree.

    From ``sites`` (n, C, 2), else from the prior; ``residual`` is how much of D0 counts. Targets are codes.
    Cost: 2 p m + m² + 2 m² C flops for each row and sweep.  Oracle: tests/reference/joint_ep_dense.py
    """
    weights = RowWeights(NOBODY, by_row=rows.weights)

    def sweep(
        state: tuple[FloatArray, tuple[InducingPosterior, ...]], progress: Damped
    ) -> tuple[tuple[FloatArray, tuple[InducingPosterior, ...]], JointFit, float, int]:
        old, posteriors = state
        approximation = Approximation(residual, 1.0)
        step = JointSweep(
            basis, dict(enumerate(posteriors)), likelihood, approximation, progress.step, weights
        )

        def one(start: int) -> tuple[list[FloatArray], list[SweepSums]]:
            place, features, codes, _ = rows.block(start)
            new, sums = step(start, features, codes, old[place])
            return [new], sums

        pieces, sums = rows.fold(one, _merged)
        new, following = np.concatenate(pieces), tuple(part.posterior() for part in sums)
        found, skipped = joint_residual(sums), sum(part.skipped for part in sums)
        value = sum(log_evidence(*pair) for pair in zip(posteriors, sums, strict=True))
        fit = JointFit(new, following, value, found, progress.sweeps + 1, False)
        return (new, following), fit, found, skipped

    with single_threaded_blas():
        if sites is None:
            sites = np.zeros((len(rows.features), n_classes, 2))
            start = (prior_posterior(basis.size),) * n_classes
        else:
            start = _posteriors_of(basis, rows, sites)
        best, progress = iterate(sweep, (sites, start), Damped(), tolerance=tolerance, most_sweeps=max_sweeps)
    return best._replace(sweeps=progress.sweeps, converged=progress.converged)


def _merged(
    earlier: tuple[list[FloatArray], list[SweepSums]], later: tuple[list[FloatArray], list[SweepSums]]
) -> tuple[list[FloatArray], list[SweepSums]]:
    return earlier[0] + later[0], [merge_sweeps(*pair) for pair in zip(earlier[1], later[1], strict=True)]


def _posteriors_of(basis: Basis, rows: Rows, sites: FloatArray) -> tuple[InducingPosterior, ...]:
    """The posteriors of given sites."""

    def one(start: int) -> tuple[list[FloatArray], list[SweepSums]]:
        place, features, codes, weights = rows.block(start)
        weight = np.ones(len(codes)) if weights is None else weights
        return [], class_sums(whiten(basis, features), sites[place], weight, None, range(sites.shape[1]))

    return tuple(part.posterior() for part in rows.fold(one, _merged)[1])


def joint_evidence(
    basis: Basis,
    likelihood: JointLikelihood,
    rows: Rows,
    fit: JointFit,
    residual: float,
) -> Evidence:
    """The evidence of all classes under one kernel at the fixed point, and its gradient.

    log Z_EP = −½ Σ_c log|A_c| + Σ log Z shares and cavities;  at the fixed point sites are held: the gradient
    is the sum of those of the classes, log Z by its means and variances row by row.
    Cost: 4 m² C flops a row, kernel blocks as of one class.  Hazard: exact only at the fixed point.
    Oracle: tests/reference/joint_ep_dense.py, finite differences
    """

    def one(start: int) -> EvidenceSums:
        place, features, codes, weights = rows.block(start)
        weight = np.ones(len(codes)) if weights is None else weights
        return _evidence_block(
            basis, likelihood, fit.posteriors, features, codes, fit.sites[place], residual, weight
        )

    with single_threaded_blas():
        return finish_together(basis, fit.posteriors, rows.fold(one, merge_evidence))


def _evidence_block(
    basis: Basis,
    likelihood: JointLikelihood,
    posteriors: tuple[InducingPosterior, ...],
    features: FloatArray,
    codes: FloatArray,
    sites: FloatArray,
    residual: float,
    weight: FloatArray,
) -> EvidenceSums:
    """What a block adds: G of all classes is summed before it meets the kernel's derivatives."""
    rows = whiten(basis, features)
    update = update_classes(likelihood, dict(enumerate(posteriors)), rows, codes, sites, residual)
    total, slopes = np.zeros_like(rows.features), np.zeros(len(codes))
    for c, posterior in enumerate(posteriors):
        projected = rows.features.copy()
        numerics.multiply_triangle(projected, posterior.spread, transposed=False)
        slope = 0.5 * weight * residual * (update.slope[:, c] ** 2 - update.curvature[:, c])
        own = weight * sites[:, c, 0], weight * update.precision_gap[:, c], slope
        row_slopes(posterior, rows.features, projected, *own)
        total += projected
        slopes += slope
    numerics.multiply_triangle(total, basis.whitening, transposed=True)
    left = update.cavity_variance + residual * rows.residual_variance[:, None]
    by_likelihood = likelihood.parameter_gradient(codes, update.cavity_mean, left)
    kernel, inducing, has_cavity = basis.kernel, basis.inducing, update.has_cavity.all(axis=1)
    return EvidenceSums(
        float(weight @ update.evidence.sum(axis=1)),
        kernel.parameter_gradient(features, inducing, total) + kernel.diagonal_gradient(features, slopes),
        by_likelihood @ (weight * has_cavity),
        None,
        numerics.weighted_moments(rows.features, slopes),
        int(np.count_nonzero(~has_cavity & (weight > 0.0))),
    )


def joint_fit_bytes(
    kernel: Kernel, likelihood: JointLikelihood, rows: int, n_inducing: int, n_features: int, n_classes: int
) -> int:
    """Upper bound of the bytes of a fit and its evidence, in float64, on one thread, beside the rows."""
    tile = min(rows, ROWS_PER_BLOCK)
    sweep = joint_bytes(kernel, tile, n_inducing, n_features, n_classes, n_classes, 8)
    slopes = evidence_bytes(kernel, tile, n_inducing, n_features, 8) + 320 * tile * n_classes
    # Posteriors of this sweep, the next and the best, and sums under way.
    matrices = 8 * n_inducing * n_inducing * (6 * n_classes + 8)
    return max(sweep, slopes) + likelihood.workspace_bytes(tile, n_classes) + matrices + 48 * rows * n_classes
