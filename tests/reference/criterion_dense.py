"""The IVM criterion as it is printed: all rows in one Gram matrix, explicit inverse, one row at a time."""

from __future__ import annotations

import numpy as np

from tests.reference import kernels_dense


def posterior(gram, precision, precision_mean):
    """Mean and covariance of all rows, given sites N(f; b/π, 1/π) on the first ones.

    A = K − K_·I (K_II + Π⁻¹)⁻¹ K_I·,  h = K_·I (K_II + Π⁻¹)⁻¹ Π⁻¹ b; flat sites are left out.
    """
    sharp = np.flatnonzero(precision > 0)
    cross = gram[:, sharp]
    solved = np.linalg.inv(gram[np.ix_(sharp, sharp)] + np.diag(1 / precision[sharp]))
    mean = cross @ solved @ (precision_mean[sharp] / precision[sharp])
    return mean, gram - cross @ solved @ cross.T


def criterion(kernel, likelihood, active, active_targets, sites, candidates, candidate_targets, weight=1.0):
    """φ by [IVM2006] eq. 11, with log Z̃ as the difference of log partition functions."""
    precision, precision_mean = sites
    rows, targets = np.vstack([active, candidates]), np.concatenate([active_targets, candidate_targets])
    gram = kernels_dense.gram(kernel, rows)
    mean, covariance = posterior(gram, precision, precision_mean)
    d = len(active)
    root = np.sqrt(precision)
    scaled_gram = np.eye(d) + np.outer(root, root) * gram[:d, :d]
    value = 0.5 * (np.linalg.slogdet(scaled_gram)[1] - mean[:d] @ precision_mean)
    for i, target in enumerate(targets):
        h, a = mean[i], covariance[i, i]
        if i >= d:
            value -= weight * likelihood.tilted_moments(target, h, a).log_z[0]
            continue
        cavity_variance = 1 / (1 / a - precision[i])
        cavity_mean = cavity_variance * (h / a - precision_mean[i])
        log_z = likelihood.tilted_moments(target, cavity_mean, cavity_variance).log_z[0]
        log_site = 0.5 * (np.log(a / cavity_variance) + h**2 / a - cavity_mean**2 / cavity_variance)
        value += log_site - log_z
    return float(value)


def gradients(kernel, likelihood, *data, weight=1.0, step=1e-3):
    """By kernel.log_parameters and likelihood.parameters: sixth-order differences with sites held fixed."""

    def along(direction, t):
        moved = start + t * direction
        return criterion(
            kernel.with_log_parameters(moved[:n]), likelihood.with_parameters(moved[n:]), *data, weight
        )

    n = len(kernel.log_parameters)
    start = np.concatenate([kernel.log_parameters, likelihood.parameters])
    found = np.array([kernels_dense.derivative(lambda t, e=e: along(e, t), step) for e in np.eye(len(start))])
    return found[:n], found[n:]


def regression(gram, noise, targets, gram_derivatives):
    """Exact −log N(y; 0, K + noise) and its derivatives ½ tr(C⁻¹ dK) − ½ yᵀ C⁻¹ dK C⁻¹ y."""
    noisy = gram + noise * np.eye(len(gram))
    inverse = np.linalg.inv(noisy)
    solved = inverse @ targets
    value = 0.5 * (targets @ solved + np.linalg.slogdet(2 * np.pi * noisy)[1])
    return value, np.array(
        [0.5 * np.sum(inverse * each) - 0.5 * solved @ each @ solved for each in gram_derivatives]
    )
