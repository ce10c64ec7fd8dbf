"""Gaussian posteriors by the textbook: dense matrices, explicit inverses."""

from __future__ import annotations

import numpy as np


def rbf(left: np.ndarray, right: np.ndarray, variance: float, lengthscale: np.ndarray | float) -> np.ndarray:
    """k(x, z) = v exp(−½ Σ ((x − z)/ℓ)²), pair by pair."""
    difference = (left[:, None, :] - right[None, :, :]) / lengthscale
    return variance * np.exp(-0.5 * (difference**2).sum(axis=2))


def posterior_marginals(
    prior_active: np.ndarray,
    cross: np.ndarray,
    prior_variance: np.ndarray,
    precision: np.ndarray,
    precision_mean: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance at new points, given sites N(f; b/π, 1/π) on the active ones.

    A = (K⁻¹ + Π)⁻¹,  mean = k K⁻¹ A b,  variance = k(x, x) − k (K + Π⁻¹)⁻¹ kᵀ
    """
    noisy = prior_active + np.diag(1.0 / precision)
    solved = np.linalg.inv(noisy)
    mean = cross @ solved @ (precision_mean / precision)
    variance = prior_variance - np.einsum("ij,jk,ik->i", cross, solved, cross)
    return mean, variance


def filter_sites(gram: np.ndarray, targets: np.ndarray, moments: object) -> tuple[np.ndarray, np.ndarray]:
    """ADF by the book: before each site, the posterior covariance from scratch.

    A = (K⁻¹ + Π)⁻¹,  h = A b;  then π = ν/(1 − a ν), b = (α + ν h)/(1 − a ν)
    ``moments(target, mean, variance)`` gives α = d log Z/dh and ν = −d² log Z/dh².
    """
    count = len(gram)
    precision, precision_mean = np.zeros(count), np.zeros(count)
    for i in range(count):
        covariance = gram - gram @ np.linalg.solve(
            np.eye(count) + precision[:, None] * gram, precision[:, None] * gram
        )
        mean, variance = covariance[i] @ precision_mean, covariance[i, i]
        slope, curvature = moments(targets[i], mean, variance)
        precision[i] = curvature / (1 - variance * curvature)
        precision_mean[i] = (slope + curvature * mean) / (1 - variance * curvature)
    return precision, precision_mean
