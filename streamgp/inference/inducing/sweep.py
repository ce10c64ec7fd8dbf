"""A sweep of power EP over a block of rows: new sites, and sums that are merged over all blocks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamgp.arrays import Array, FloatArray
from streamgp.inference.inducing.basis import Approximation, Basis, WhitenedRows, whiten, whiten_bytes
from streamgp.inference.inducing.posterior import InducingPosterior, posterior_from_moments
from streamgp.inference.inducing.updates import CAVITY_FLOOR, exact_rows, update_rows
from streamgp.inference.sites import Sites
from streamgp.kernels import Kernel
from streamgp.likelihoods import Gaussian, Likelihood
from streamgp.numerics import projection as numerics


class SweepSums(NamedTuple):
    """Sums over rows, in float64; a row of weight ω counts ω times.

    moment_matrix Σ τ w wᵀ (m, m) and moment_vector Σ ρ w (m,) of the *new* sites; evidence,
    squared_mean_change and log_variance_change (its absolute value) of the posterior and sites that the sweep
    *started* from.
    ``weight`` Σ ω over rows with a cavity, ``rows`` all of them, ``skipped`` those without a cavity.
    """

    moment_matrix: FloatArray
    moment_vector: FloatArray
    evidence: float
    squared_mean_change: float
    log_variance_change: float
    weight: float
    rows: int
    skipped: int

    @property
    def moment_residual(self) -> float:
        """How far tilted moments are from the posterior's: RMS of means in deviations + mean |log ratio|."""
        if self.weight <= 0.0:
            return 0.0
        root: float = np.sqrt(self.squared_mean_change / self.weight)
        return float(root) + self.log_variance_change / self.weight

    def posterior(self) -> InducingPosterior:
        """The posterior of the new sites, once the sums are over all rows."""
        return posterior_from_moments(self.moment_matrix, self.moment_vector)


class Swept(NamedTuple):
    """New sites of a block, (c,) each, and the block's sums."""

    sites: Sites
    sums: SweepSums


def flat_sites(rows: int) -> Sites:
    """Sites before the first sweep: they say nothing."""
    return Sites(np.zeros(rows), np.zeros(rows))


def sweep_block(
    basis: Basis,
    posterior: InducingPosterior,
    features: Array,
    targets: FloatArray,
    likelihood: Likelihood,
    sites: Sites,
    approximation: Approximation,
    damping: float,
    weights: FloatArray | None = None,
) -> Swept:
    """One damped update of all sites of a block, in parallel, from a frozen posterior.

    ms = (Rᵀw)·(Rᵀr),  vs = |Rᵀw|²;  site ← (1 − δ) site + δ update;  then Σ τ w wᵀ, Σ ρ w of the new sites
    δ damping; a row of weight ω in ``weights`` stands for ω equal rows: its site counts ω times.
    The posterior is that of the sites, or any other one with flat sites, whose rows then see no own share.
    Shapes: features (c, p) in the basis's type, others (c,).
    Cost: 2 p m + 3 m² flops a row: two triangular products, one product with its own transpose.
    Memory: :func:`sweep_bytes`.  Hazard: rows without a positive cavity keep their site and are counted.
    Source: [FITC2007] section 4.  Oracle: tests/reference/fitc_dense.py
    """
    weight = np.ones(len(targets)) if weights is None else weights
    rows = whiten(basis, features)
    swept, _ = sweep_whitened(posterior, rows, targets, likelihood, sites, approximation, damping, weight)
    return swept


def sweep_whitened(
    posterior: InducingPosterior,
    rows: WhitenedRows,
    targets: FloatArray,
    likelihood: Likelihood,
    sites: Sites,
    approximation: Approximation,
    damping: float,
    weights: FloatArray,
) -> tuple[Swept, FloatArray]:
    """The same for whitened rows, which are overwritten; the variances vs are returned beside it."""
    mean, variance = numerics.project(rows.features, posterior.spread, posterior.projected_targets)
    update = update_rows(
        likelihood,
        targets,
        sites,
        mean,
        variance,
        approximation.residual * rows.residual_variance,
        approximation.power,
        CAVITY_FLOOR[rows.features.dtype],
    )
    new = Sites(*(old + damping * (fresh - old) for old, fresh in zip(sites, update.sites, strict=True)))
    matrix, vector = moments_of_sites(rows, new, weights)
    sums = SweepSums(
        matrix,
        vector,
        float(weights @ update.evidence),
        float(weights @ update.mean_change**2),
        float(weights @ np.abs(update.log_variance_change)),
        float(weights @ update.has_cavity),
        len(targets),
        int(np.count_nonzero(~update.has_cavity & (weights > 0.0))),
    )
    return Swept(new, sums), variance


def exact_block(
    basis: Basis,
    features: Array,
    targets: FloatArray,
    likelihood: Gaussian,
    approximation: Approximation,
    weights: FloatArray | None = None,
) -> Swept:
    """The sites of a block under Gaussian noise, final after one pass: see :func:`exact_rows`.

    The sums' evidence lacks −½ log|A| + ½ rᵀm, see :func:`exact_evidence`.
    Shapes: as :func:`sweep_block`.  Cost: 2 p m + 2 m² flops a row.
    """
    weight = np.ones(len(targets)) if weights is None else weights
    return exact_whitened(whiten(basis, features), targets, likelihood, approximation, weight)


def exact_whitened(
    rows: WhitenedRows,
    targets: FloatArray,
    likelihood: Gaussian,
    approximation: Approximation,
    weights: FloatArray,
) -> Swept:
    """The same for whitened rows, which are overwritten."""
    exact = exact_rows(likelihood, targets, rows.residual_variance, approximation)
    matrix, vector = moments_of_sites(rows, exact.sites, weights)
    sums = SweepSums(
        matrix, vector, float(weights @ exact.evidence), 0.0, 0.0, float(weights.sum()), len(targets), 0
    )
    return Swept(exact.sites, sums)


def moments_block(
    basis: Basis, features: Array, sites: Sites, weights: FloatArray | None = None
) -> SweepSums:
    """The moments of given sites alone: how sites of other hyperparameters start a fit.

    Shapes: as :func:`sweep_block`.  Cost: 2 p m + 2 m² flops a row.
    """
    weight = np.ones(len(features)) if weights is None else weights
    matrix, vector = moments_of_sites(whiten(basis, features), sites, weight)
    return SweepSums(matrix, vector, 0.0, 0.0, 0.0, float(weight.sum()), len(features), 0)


def merge_sweeps(earlier: SweepSums, later: SweepSums) -> SweepSums:
    """Sums over the rows of both; the arrays of ``earlier`` are added to in place."""
    matrix, vector = earlier.moment_matrix, earlier.moment_vector
    matrix += later.moment_matrix
    vector += later.moment_vector
    return SweepSums(
        matrix,
        vector,
        earlier.evidence + later.evidence,
        earlier.squared_mean_change + later.squared_mean_change,
        earlier.log_variance_change + later.log_variance_change,
        earlier.weight + later.weight,
        earlier.rows + later.rows,
        earlier.skipped + later.skipped,
    )


def log_evidence(posterior: InducingPosterior, sums: SweepSums) -> float:
    """Log Z_EP = −½ log|A| + Σ evidence, of the posterior and sites that the sweep started from."""
    return sums.evidence - 0.5 * posterior.log_determinant


def exact_evidence(posterior: InducingPosterior, sums: SweepSums) -> float:
    """Log Z = −½ log|A| + ½ rᵀm + Σ evidence under Gaussian noise; posterior and sums of the same pass."""
    fit = 0.5 * float(posterior.projected_targets @ posterior.projected_targets)
    return sums.evidence + fit - 0.5 * posterior.log_determinant


def moments_of_sites(rows: WhitenedRows, sites: Sites, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Σ ω τ w wᵀ and Σ ω ρ w; the whitened rows are overwritten.

    Rows of flat sites are left out of the product. Shapes: (m, m), (m,).  Cost: c m² flops.
    """
    vector = np.zeros(rows.features.shape[1])
    root = np.sqrt(np.maximum(weights * sites.precision, 0.0))
    kept = numerics.gather_rows(rows.features, root, weights * sites.precision_mean, vector)
    scaled = rows.features[:kept]
    return (scaled.T @ scaled).astype(np.float64), vector


def sweep_bytes(kernel: Kernel, rows: int, n_inducing: int, n_features: int, itemsize: int) -> int:
    """Upper bound of the bytes that :func:`sweep_block` takes with its result, without the likelihood's."""
    moments = n_inducing * n_inducing * (8 + itemsize) + 8 * n_inducing
    local = 40 * 8 * rows
    tile = numerics.workspace_bytes(rows, itemsize)
    return whiten_bytes(kernel, rows, n_inducing, n_features, itemsize) + tile + local + moments
