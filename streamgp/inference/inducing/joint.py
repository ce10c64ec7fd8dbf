"""Expectation propagation of a joint likelihood: all classes of a row together, each with its own site.

Marginals are independent between classes, so everything but the tilted moments is that of one class at a
time: the same updates, the same sums, one moment matrix for each class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamgp.arrays import Array, FloatArray
from streamgp.inference.inducing.basis import Approximation, Basis, WhitenedRows, whiten
from streamgp.inference.inducing.heads import RowWeights, heads_bytes
from streamgp.inference.inducing.mode import PointTerms
from streamgp.inference.inducing.posterior import InducingPosterior
from streamgp.inference.inducing.sweep import SweepSums, moments_of_sites
from streamgp.inference.inducing.updates import CAVITY_FLOOR, RowUpdate, update_rows
from streamgp.inference.sites import Sites
from streamgp.kernels import Kernel
from streamgp.likelihoods import JointLikelihood
from streamgp.likelihoods.base import TiltedSites
from streamgp.numerics import projection as numerics


@dataclass(frozen=True)
class SharedByClasses:
    """A joint likelihood whose log Z, one number a row, is shared equally among the row's classes."""

    likelihood: JointLikelihood

    def tilted_sites(
        self, targets: FloatArray, latent_mean: FloatArray, latent_variance: FloatArray, *, power: float
    ) -> TiltedSites:
        """Shares of log Z, and sites, (c, C) each; joint likelihoods have no other power than 1."""
        assert power == 1.0
        log_z, precision, precision_mean = self.likelihood.tilted_sites(targets, latent_mean, latent_variance)
        return TiltedSites(
            np.repeat(log_z[:, None] / precision.shape[1], precision.shape[1], axis=1),
            precision,
            precision_mean,
        )


def update_classes(
    likelihood: JointLikelihood,
    posteriors: Sequence[InducingPosterior],
    rows: WhitenedRows,
    encoded: FloatArray,
    sites: FloatArray,
    residual: float,
) -> RowUpdate:
    """New sites of all classes, undamped, and what else :func:`update_rows` says; (c, C) each.

    Shapes: rows (c, m), encoded (c,), sites (c, C, 2).  Cost: m² flops for each row and class.
    Oracle: tests/reference/joint_ep_dense.py
    """
    mean, variance = np.empty((2, *sites.shape[:2]))
    for c, posterior in enumerate(posteriors):
        mean[:, c], variance[:, c] = numerics.project(
            rows.features, posterior.spread, posterior.projected_targets
        )
    return update_rows(
        SharedByClasses(likelihood),
        encoded,
        Sites(sites[:, :, 0], sites[:, :, 1]),
        mean,
        variance,
        np.repeat(residual * rows.residual_variance[:, None], sites.shape[1], axis=1),
        1.0,
        CAVITY_FLOOR[rows.features.dtype],
    )


@dataclass(frozen=True, eq=False)
class JointSweep:
    """One damped sweep of all classes, as the step of a pass. Rows of weight 0 keep flat sites."""

    basis: Basis
    posteriors: tuple[InducingPosterior, ...]
    likelihood: JointLikelihood
    approximation: Approximation
    damping: float
    weights: RowWeights

    def __call__(
        self, start: int, features: Array, encoded: FloatArray, sites: FloatArray | None
    ) -> tuple[FloatArray, list[SweepSums]]:
        """New sites (c, C, 2), and the sums of each class.  Cost: 2 p m + m² + 2 m² C flops a row."""
        assert sites is not None
        weights, rows = self.weights(start, encoded), whiten(self.basis, features)
        residual = self.approximation.residual
        update = update_classes(self.likelihood, self.posteriors, rows, encoded, sites, residual)
        fresh = np.stack(update.sites, axis=-1)
        new = np.where((weights > 0.0)[:, None, None], sites + self.damping * (fresh - sites), 0.0)
        return new, class_sums(rows, new, weights, update)


@dataclass(frozen=True, eq=False)
class SitesAtMode:
    """Laplace's sites, as the step of a pass: where expectation propagation starts from a mode.

    f = Uᵀw;  τ = −∂² log p/∂f²,  ρ = τ f + ∂ log p/∂f, of each class: the mode is their posterior mean
    Shapes: mode U (m, C).
    """

    basis: Basis
    mode: Array
    terms: PointTerms
    weights: RowWeights

    def __call__(
        self, start: int, features: Array, encoded: FloatArray, sites: FloatArray | None
    ) -> tuple[FloatArray, list[SweepSums]]:
        """Sites (c, C, 2), and the sums of each class."""
        weights, rows = self.weights(start, encoded), whiten(self.basis, features)
        latent = np.asarray(rows.features @ self.mode, np.float64)
        found = self.terms(encoded, latent)
        new = np.stack([found.curvature, found.curvature * latent + found.gradient], axis=-1)
        new[weights <= 0.0] = 0.0
        return new, class_sums(rows, new, weights, None)


def class_sums(
    rows: WhitenedRows, sites: FloatArray, weights: FloatArray, update: RowUpdate | None
) -> list[SweepSums]:
    """The sums of each class; those of an update, where there was one. The rows are overwritten."""
    sums, n_classes = [], sites.shape[1]
    for c in range(n_classes):
        # Moments overwrite their rows: all classes but the last work on a copy.
        own = rows if c == n_classes - 1 else rows.copy()
        matrix, vector = moments_of_sites(own, Sites(sites[:, c, 0], sites[:, c, 1]), weights)
        if update is None:
            sums.append(SweepSums(matrix, vector, 0.0, 0.0, 0.0, float(weights.sum()), len(weights), 0))
            continue
        has_cavity = update.has_cavity[:, c]
        sums.append(
            SweepSums(
                matrix,
                vector,
                float(weights @ update.evidence[:, c]),
                float(weights @ update.mean_change[:, c] ** 2),
                float(weights @ np.abs(update.log_variance_change[:, c])),
                float(weights @ has_cavity),
                len(weights),
                int(np.count_nonzero(~has_cavity & (weights > 0.0))),
            )
        )
    return sums


def joint_residual(sums: Sequence[SweepSums]) -> float:
    """How far tilted moments of all classes are from the posteriors': as of one class, over all of them."""
    weight = sum(one.weight for one in sums)
    if weight <= 0.0:
        return 0.0
    squared = sum(one.squared_mean_change for one in sums)
    return float(np.sqrt(squared / weight)) + sum(one.log_variance_change for one in sums) / weight


def joint_bytes(
    kernel: Kernel, rows: int, n_inducing: int, n_features: int, n_classes: int, itemsize: int
) -> int:
    """Upper bound of the bytes of a block of :class:`JointSweep` and its sums, without the likelihood's."""
    shape = (kernel, rows, n_inducing, n_features, n_classes, n_classes, itemsize)
    return heads_bytes(*shape) + 40 * 8 * rows * n_classes
