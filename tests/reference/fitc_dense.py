"""FITC, power EP and full EP by the book: covariances of all rows, explicit inverses, float64."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import multivariate_normal

from tests.reference import kernels_dense


class DenseEP(NamedTuple):
    """Sites, marginals and cavities of n rows, all (n,), and the log evidence."""

    precision: np.ndarray
    precision_mean: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    cavity_mean: np.ndarray
    cavity_variance: np.ndarray
    evidence: float


def prior(kernel, inducing, rows, jitter):
    """Q = K_nu K_uu⁻¹ K_un, and D0 = diag(K − Q); jitter is on K_uu's diagonal, white noise on K's."""
    gram = kernels_dense.block(kernel, inducing, inducing)
    cross = kernels_dense.block(kernel, rows, inducing)
    explained = cross @ np.linalg.solve(gram + jitter * np.mean(np.diag(gram)) * np.eye(len(gram)), cross.T)
    variance = np.diag(kernels_dense.gram(kernel, rows))
    return explained, np.maximum(variance - np.diag(explained), 0.0)


def gaussian_posterior(covariance, precision, precision_mean):
    """Covariance (K⁻¹ + diag τ)⁻¹ = (1 + K diag τ)⁻¹ K, and mean, of a Gaussian prior and Gaussian sites."""
    posterior = np.linalg.solve(np.eye(len(covariance)) + covariance * precision, covariance)
    return posterior @ precision_mean, posterior


def power_ep(
    explained, residual_variance, likelihood, targets, power=1.0, damping=0.5, tolerance=1e-12, sweeps=2000
):
    """Power EP with sites on s ~ N(0, Q), where f = s + e and e ~ N(0, D) independently for each row.

    cavity 1/vc = 1/v − α τ;  tilted ∫ N(f; mc, vc + D) p(y|f)^α df;  τ = ν/(1 − vc ν)/α and so on, all rows
    at once, damped.  Source: [Bui2017] for the power.
    """
    count = len(targets)
    precision, precision_mean = np.zeros(count), np.zeros(count)
    for _ in range(sweeps):
        mean, covariance = gaussian_posterior(explained, precision, precision_mean)
        variance = np.diag(covariance)
        cavity_variance = 1 / (1 / variance - power * precision)
        cavity_mean = cavity_variance * (mean / variance - power * precision_mean)
        log_z, slope, curvature = likelihood.tilted_moments(
            targets, cavity_mean, cavity_variance + residual_variance, power=power
        )
        shrinkage = power * (1 - cavity_variance * curvature)
        new_precision = curvature / shrinkage
        new_precision_mean = (cavity_mean * curvature + slope) / shrinkage
        change = max(
            np.max(np.abs(new_precision - precision) / (1 + np.abs(precision))),
            np.max(np.abs(new_precision_mean - precision_mean) / (1 + np.abs(precision_mean))),
        )
        if change < tolerance:
            break
        precision = (1 - damping) * precision + damping * new_precision
        precision_mean = (1 - damping) * precision_mean + damping * new_precision_mean
    else:
        raise AssertionError(f"dense power EP has not converged: {change}")
    local = log_z + 0.5 * (
        np.log(cavity_variance / variance) + cavity_mean**2 / cavity_variance - mean**2 / variance
    )
    log_determinant = np.linalg.slogdet(np.eye(count) + explained * precision)[1]
    evidence = -0.5 * log_determinant + 0.5 * precision_mean @ mean + local.sum() / power
    return DenseEP(precision, precision_mean, mean, variance, cavity_mean, cavity_variance, float(evidence))


def full_ep(covariance, likelihood, targets, damping=0.5, tolerance=1e-12, sweeps=2000):
    """EP with sites on f ~ N(0, K) itself, and its evidence, by Rasmussen & Williams (2006), section 3.6.

    With K = Q + s diag(K − Q) this is the paper's algorithm [FITC2007]; with K of all rows it is full EP.
    """
    count = len(targets)
    precision, precision_mean = np.zeros(count), np.zeros(count)
    for _ in range(sweeps):
        mean, posterior = gaussian_posterior(covariance, precision, precision_mean)
        variance = np.diag(posterior)
        cavity_variance = 1 / (1 / variance - precision)
        cavity_mean = cavity_variance * (mean / variance - precision_mean)
        log_z, slope, curvature = likelihood.tilted_moments(targets, cavity_mean, cavity_variance)
        tilted_mean = cavity_mean + cavity_variance * slope
        tilted_variance = cavity_variance - cavity_variance**2 * curvature
        new_precision = 1 / tilted_variance - 1 / cavity_variance
        new_precision_mean = tilted_mean / tilted_variance - cavity_mean / cavity_variance
        change = np.max(np.abs(new_precision - precision) / (1 + precision))
        change = max(change, np.max(np.abs(new_precision_mean - precision_mean)))
        if change < tolerance:
            break
        precision = (1 - damping) * precision + damping * new_precision
        precision_mean = (1 - damping) * precision_mean + damping * new_precision_mean
    else:
        raise AssertionError(f"dense EP has not converged: {change}")
    site_variance, site_mean = 1 / precision, precision_mean / precision
    evidence = (
        multivariate_normal(np.zeros(count), covariance + np.diag(site_variance)).logpdf(site_mean)
        + 0.5 * count * np.log(2 * np.pi)
        + np.sum(log_z + 0.5 * np.log(cavity_variance + site_variance))
        + np.sum((cavity_mean - site_mean) ** 2 / (2 * (cavity_variance + site_variance)))
    )
    return DenseEP(precision, precision_mean, mean, variance, cavity_mean, cavity_variance, float(evidence))


def predict(kernel, inducing, rows, new, precision, precision_mean, jitter, residual=1.0):
    """Mean and variance of f at new rows, given sites on s of the training rows, with residual × D0."""
    both = np.vstack([rows, new])
    explained, residual_variance = prior(kernel, inducing, both, jitter)
    n = len(rows)
    tau = np.concatenate([precision, np.zeros(len(new))])
    mean, covariance = gaussian_posterior(
        explained, tau, np.concatenate([precision_mean, np.zeros(len(new))])
    )
    return mean[n:], np.diag(covariance)[n:] + residual * residual_variance[n:]


def fitc_regression(explained, residual_variance, noise, targets):
    """log N(y; 0, Q + D + σ²): FITC where D = diag(K − Q), DTC where D = 0."""
    covariance = explained + np.diag(residual_variance + noise)
    return multivariate_normal(np.zeros(len(targets)), covariance).logpdf(targets)


def vfe_regression(explained, residual_variance, noise, targets):
    """The collapsed variational bound log N(y; 0, Q + σ²) − Σ D/(2 σ²) (Titsias 2009)."""
    return fitc_regression(explained, 0 * residual_variance, noise, targets) - np.sum(residual_variance) / (
        2 * noise
    )


def power_regression(explained, residual_variance, noise, targets, power):
    """log N(y; 0, Q + α D + σ²) − (1 − α)/(2α) Σ log(1 + α D/σ²)  [Bui2017]."""
    penalty = np.sum(np.log1p(power * residual_variance / noise)) * (1 - power) / (2 * power)
    return fitc_regression(explained, power * residual_variance, noise, targets) - penalty
