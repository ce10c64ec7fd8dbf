"""Expectation propagation by the textbook: one site after the other, the posterior from scratch each time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class DenseEP(NamedTuple):
    """Sites, marginals and log Z_EP."""

    precision: np.ndarray
    precision_mean: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    log_evidence: float


def posterior(gram: np.ndarray, precision: np.ndarray, precision_mean: np.ndarray) -> tuple:
    """Σ = (K⁻¹ + Π)⁻¹ = K − K (K + Π⁻¹)⁻¹ K,  h = Σ b; written so that neither inverse is needed."""
    covariance = gram - gram @ np.linalg.solve(
        np.eye(len(gram)) + precision[:, None] * gram, precision[:, None] * gram
    )
    return covariance, covariance @ precision_mean


def propagate(gram, targets, likelihood, order=None, tolerance=1e-12, most_sweeps=1000) -> DenseEP:
    """Algorithm 3.5 of Rasmussen and Williams (2006) for any likelihood, sites visited in the given order.

    Cavity: 1/v = 1/Σ_ii − π,  m = v (h/Σ_ii − b).  Tilted: mean m + v α, variance v − v² ν.
    Site: what turns the cavity into a Gaussian of these moments.
    """
    count = len(gram)
    precision, precision_mean = np.zeros(count), np.zeros(count)
    for _ in range(most_sweeps):
        before = precision.copy(), precision_mean.copy()
        for i in range(count) if order is None else order:
            covariance, mean = posterior(gram, precision, precision_mean)
            cavity_variance = 1 / (1 / covariance[i, i] - precision[i])
            cavity_mean = cavity_variance * (mean[i] / covariance[i, i] - precision_mean[i])
            _, slope, curvature = likelihood.tilted_moments(targets[i], cavity_mean, cavity_variance)
            tilted_mean = cavity_mean + cavity_variance * slope[0]
            tilted_variance = cavity_variance - cavity_variance**2 * curvature[0]
            precision[i] = 1 / tilted_variance - 1 / cavity_variance
            precision_mean[i] = tilted_mean / tilted_variance - cavity_mean / cavity_variance
        moved = np.abs(np.subtract(before, (precision, precision_mean))).max()
        if moved < tolerance * (1 + np.abs(precision_mean).max()):
            break
    covariance, mean = posterior(gram, precision, precision_mean)
    return DenseEP(
        precision,
        precision_mean,
        mean,
        np.diag(covariance).copy(),
        log_evidence(gram, targets, likelihood, precision, precision_mean),
    )


def log_evidence(gram, targets, likelihood, precision, precision_mean) -> float:
    """Equation 3.65 of Rasmussen and Williams (2006), all terms as printed; needs positive precisions.

    −½ log|K + Σ̃| − ½ μ̃ᵀ (K + Σ̃)⁻¹ μ̃ + Σ log Z_i + ½ Σ log(v + σ̃²) + ½ Σ (m − μ̃)²/(v + σ̃²)
    """
    covariance, mean = posterior(gram, precision, precision_mean)
    variance = np.diag(covariance)
    cavity_variance = 1 / (1 / variance - precision)
    cavity_mean = cavity_variance * (mean / variance - precision_mean)
    site_variance, site_mean = 1 / precision, precision_mean / precision
    noisy = gram + np.diag(site_variance)
    log_z = likelihood.tilted_moments(targets, cavity_mean, cavity_variance).log_z
    return float(
        -0.5 * np.linalg.slogdet(noisy)[1]
        - 0.5 * site_mean @ np.linalg.solve(noisy, site_mean)
        + log_z.sum()
        + 0.5 * np.log(cavity_variance + site_variance).sum()
        + 0.5 * ((cavity_mean - site_mean) ** 2 / (cavity_variance + site_variance)).sum()
    )
