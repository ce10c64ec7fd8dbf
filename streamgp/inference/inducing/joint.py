"""Expectation propagation of a joint likelihood: all classes of a row together, each with its own site.

Marginals are independent between classes, so everything but the tilted moments is that of one class at a
time: the same updates, the same sums, one moment matrix for each class. Where memory has no room for the
matrices of all classes, groups of them take turns: marginals (mean, variance) wait beside the sites of a row
until those of all classes are there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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


def put_marginals(
    found: FloatArray, posteriors: Mapping[int, InducingPosterior], rows: WhitenedRows
) -> FloatArray:
    """Mean and variance of some classes, put in their place.  Shapes: (c, C, 2).  Cost: m² flops a row."""
    for c, posterior in posteriors.items():
        found[:, c, 0], found[:, c, 1] = numerics.project(
            rows.features, posterior.spread, posterior.projected_targets
        )
    return found


def update_classes(
    likelihood: JointLikelihood,
    posteriors: Mapping[int, InducingPosterior],
    rows: WhitenedRows,
    encoded: FloatArray,
    sites: FloatArray,
    residual: float,
) -> RowUpdate:
    """New sites of all classes, undamped, and what else :func:`update_rows` says; (c, C) each.

    ``sites`` (c, C, 2), or (c, C, 4) with the marginals of all classes but those of ``posteriors``.
    Shapes: rows (c, m), encoded (c,).  Cost: m² flops for each row and class with a posterior.
    Oracle: tests/reference/joint_ep_dense.py
    """
    known = sites[:, :, 2:].copy() if sites.shape[2] > 2 else np.empty((*sites.shape[:2], 2))
    mean, variance = np.moveaxis(put_marginals(known, posteriors, rows), 2, 0)
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
class ClassMarginals:
    """Marginals of some classes, written beside the sites of all, as the step of a pass."""

    basis: Basis
    posteriors: Mapping[int, InducingPosterior]

    def __call__(
        self, start: int, features: Array, encoded: FloatArray, sites: FloatArray | None
    ) -> tuple[FloatArray, list[SweepSums]]:
        """Sites and marginals (c, C, 4); no sums.  Cost: 2 p m + m² flops a row, and m² for each class."""
        assert sites is not None
        new = sites.copy()
        put_marginals(new[:, :, 2:], self.posteriors, whiten(self.basis, features))
        return new, []


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """Moments of some classes, of sites as they are, as the step of a pass."""

    basis: Basis
    classes: Collection[int]
    weights: RowWeights

    def __call__(
        self, start: int, features: Array, encoded: FloatArray, sites: FloatArray | None
    ) -> tuple[None, list[SweepSums]]:
        """The sums of each of them.  Cost: 2 p m + m² flops a row, and m² for each class."""
        assert sites is not None
        rows, weights = whiten(self.basis, features), self.weights(start, encoded)
        sums = class_sums(rows, sites, weights, None, self.classes)
        return None, [sums[c] for c in self.classes]


@dataclass(frozen=True, eq=False)
class JointSweep:
    """One damped sweep of all classes, as the step of a pass. Rows of weight 0 keep flat sites.

    ``posteriors`` of all classes; or of some, where the marginals of the others stand beside the sites: then
    all sites move, and only the sums of these have moments.
    """

    basis: Basis
    posteriors: Mapping[int, InducingPosterior]
    likelihood: JointLikelihood
    approximation: Approximation
    damping: float
    weights: RowWeights

    def __call__(
        self, start: int, features: Array, encoded: FloatArray, sites: FloatArray | None
    ) -> tuple[FloatArray, list[SweepSums]]:
        """New sites, and the sums of each class.  Cost: 2 p m + m² + 2 m² C flops a row."""
        assert sites is not None
        weights, rows = self.weights(start, encoded), whiten(self.basis, features)
        residual = self.approximation.residual
        update = update_classes(self.likelihood, self.posteriors, rows, encoded, sites, residual)
        fresh, old, new = np.stack(update.sites, axis=-1), sites[:, :, :2], sites.copy()
        moved = old + self.damping * (fresh - old)
        new[:, :, :2] = np.where((weights > 0.0)[:, None, None], moved, 0.0)
        return new, class_sums(rows, new, weights, update, self.posteriors)


@dataclass(frozen=True, eq=False)
class SitesAtMode:
    """Laplace's sites, as the step of a pass: where expectation propagation starts from a mode.

    f = Uᵀw;  τ = −∂² log p/∂f²,  ρ = τ f + ∂ log p/∂f, of each class: the mode is their posterior mean
    ``columns``: 2, or 4 where marginals are to stand beside the sites.
    Shapes: mode U (m, C).
    """

    basis: Basis
    mode: Array
    terms: PointTerms
    weights: RowWeights
    classes: Collection[int]
    columns: int = 2

    def __call__(
        self, start: int, features: Array, encoded: FloatArray, sites: FloatArray | None
    ) -> tuple[FloatArray, list[SweepSums]]:
        """Sites (c, C, columns), and the sums of each class, those of ``classes`` with moments."""
        weights, rows = self.weights(start, encoded), whiten(self.basis, features)
        latent = np.asarray(rows.features @ self.mode, np.float64)
        found = self.terms(encoded, latent)
        new = np.zeros((*latent.shape, self.columns))
        new[:, :, 0], new[:, :, 1] = found.curvature, found.curvature * latent + found.gradient
        new[weights <= 0.0] = 0.0
        return new, class_sums(rows, new, weights, None, self.classes)


def class_sums(
    rows: WhitenedRows,
    sites: FloatArray,
    weights: FloatArray,
    update: RowUpdate | None,
    classes: Collection[int],
) -> list[SweepSums]:
    """The sums of each class; those of an update, where there was one. The rows are overwritten.

    Moments of ``classes`` only: those of others are empty.
    """
    sums, last = [], max(classes)
    for c in range(sites.shape[1]):
        matrix, vector = np.zeros((0, 0)), np.zeros(0)
        if c in classes:
            # Moments overwrite their rows: all classes but the last work on a copy.
            own = rows if c == last else rows.copy()
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
    kernel: Kernel,
    rows: int,
    n_inducing: int,
    n_features: int,
    n_classes: int,
    n_at_once: int,
    itemsize: int,
) -> int:
    """Upper bound of the bytes of a block of :class:`JointSweep` and its sums, without the likelihood's.

    ``n_at_once``: so many classes have their matrices in memory.
    """
    shape = (kernel, rows, n_inducing, n_features, n_classes, n_at_once, itemsize)
    return heads_bytes(*shape) + 48 * 8 * rows * n_classes
