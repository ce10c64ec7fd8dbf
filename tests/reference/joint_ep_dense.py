"""Expectation propagation of a joint likelihood of C classes, dense: all rows' latent values at once.

Prior of every class: f ~ N(0, W Wᵀ + s diag(D0)), as inducing inputs see the rows. Sites stand on f. Moments
come from grids (``joint_dense``), one row at a time.
"""

from typing import NamedTuple

import numpy as np

from tests.reference.joint_dense import tilted_by_value


class DenseJoint(NamedTuple):
    """Sites (n, C) each on f, marginals of f (n, C), the log evidence."""

    precision: np.ndarray
    precision_mean: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    log_evidence: float


def marginals(prior, precision, precision_mean):
    """Mean and variance of f of one class under Gaussian sites, and log|1 + K T|."""
    inverse = np.linalg.inv(np.eye(len(prior)) + prior * precision)
    covariance = inverse @ prior
    return covariance @ precision_mean, np.diag(covariance), -np.linalg.slogdet(inverse)[1]


def joint_ep(whitened, residual_variance, codes, noise, classes, *, sweeps=60, damping=0.7, tolerance=1e-10):
    """Parallel damped EP to convergence."""
    prior = whitened @ whitened.T + np.diag(residual_variance)
    shape = (len(codes), classes)
    precision, precision_mean = np.zeros(shape), np.zeros(shape)
    for _ in range(sweeps):
        found = [marginals(prior, precision[:, c], precision_mean[:, c]) for c in range(classes)]
        mean, variance = (np.stack([one[k] for one in found], axis=1) for k in (0, 1))
        cavity_variance = 1.0 / (1.0 / variance - precision)
        cavity_mean = cavity_variance * (mean / variance - precision_mean)
        tilted = [
            tilted_by_value(noise, code, cavity_mean[i], cavity_variance[i]) for i, code in enumerate(codes)
        ]
        log_z, slope, curvature = (np.array([one[k] for one in tilted]) for k in range(3))
        left = 1.0 - cavity_variance * curvature
        new, new_mean = curvature / left, (slope + curvature * cavity_mean) / left
        change = np.abs(new - precision).max() + np.abs(new_mean - precision_mean).max()
        if change < tolerance:
            break
        precision += damping * (new - precision)
        precision_mean += damping * (new_mean - precision_mean)
    # log ∫ N(f; 0, K) Π t(f), with t scaled so that each row's tilted mass is its own.
    fit = 0.5 * np.sum(precision_mean * mean) - 0.5 * sum(one[2] for one in found)
    shares = np.log(cavity_variance / variance) + cavity_mean**2 / cavity_variance - mean**2 / variance
    return DenseJoint(precision, precision_mean, mean, variance, fit + log_z.sum() + 0.5 * shares.sum())
