"""Local blocks (PIC) by the book: the covariance of all rows, explicit inverses, one left out after another.

The model is a Gaussian process like any other, with a covariance that is exact within a block and Q between
blocks. Everything about its training rows therefore follows from that matrix by the textbook: EP by
``fitc_dense.full_ep``, regression by a multivariate normal density.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import multivariate_normal

from tests.reference import kernels_dense
from tests.reference.fitc_dense import gaussian_posterior


def explained(kernel, inducing, left, right, jitter):
    """Q = K_lu K_uu⁻¹ K_ur; K_uu with jitter on its diagonal."""
    gram = kernels_dense.block(kernel, inducing, inducing)
    gram += jitter * np.mean(np.diag(gram)) * np.eye(len(gram))
    cross = kernels_dense.block(kernel, left, inducing)
    return cross @ np.linalg.solve(gram, kernels_dense.block(kernel, inducing, right))


def covariance(kernel, inducing, left, left_blocks, right, right_blocks, jitter):
    """K where rows are of one block, Q where they are not; blocks are numbers, one a row."""
    together = left_blocks[:, None] == right_blocks[None, :]
    return np.where(
        together, kernels_dense.block(kernel, left, right), explained(kernel, inducing, left, right, jitter)
    )


def prior(kernel, inducing, rows, blocks, jitter):
    """Covariance of all rows, white noise on its diagonal."""
    noise = np.diag(kernels_dense.nugget(kernel, rows))
    return covariance(kernel, inducing, rows, blocks, rows, blocks, jitter) + noise


def regression(gram, noise, targets):
    """log N(y; 0, K + σ²)."""
    return multivariate_normal(np.zeros(len(targets)), gram + noise * np.eye(len(targets))).logpdf(targets)


def left_one_out(gram, noise, targets):
    """log p(y_i | all other y), one regression on all other rows for each row."""
    densities = []
    for i in range(len(targets)):
        others = np.arange(len(targets)) != i
        noisy = gram[np.ix_(others, others)] + noise * np.eye(others.sum())
        mean = gram[i, others] @ np.linalg.solve(noisy, targets[others])
        variance = gram[i, i] + noise - gram[i, others] @ np.linalg.solve(noisy, gram[others, i])
        densities.append(-0.5 * (np.log(2 * np.pi * variance) + (targets[i] - mean) ** 2 / variance))
    return np.array(densities)


def predict(kernel, inducing, rows, blocks, new, new_blocks, precision, precision_mean, jitter):
    """Mean and variance of f at new rows, each of a block, given sites on f of the training rows."""
    both, of_both = np.vstack([rows, new]), np.concatenate([blocks, new_blocks])
    joint = prior(kernel, inducing, both, of_both, jitter)
    silent = np.zeros(len(new))
    mean, posterior = gaussian_posterior(
        joint, np.concatenate([precision, silent]), np.concatenate([precision_mean, silent])
    )
    return mean[len(rows) :], np.diag(posterior)[len(rows) :]


def inducing_posterior(kernel, inducing, rows, blocks, precision, precision_mean, jitter):
    """Mean and covariance of the function at the inducing inputs, given sites on f of the training rows."""
    m = len(inducing)
    gram = kernels_dense.block(kernel, inducing, inducing)
    gram += jitter * np.mean(np.diag(gram)) * np.eye(len(gram))
    cross = kernels_dense.block(kernel, inducing, rows)
    joint = np.block([[gram, cross], [cross.T, prior(kernel, inducing, rows, blocks, jitter)]])
    mean, posterior = gaussian_posterior(
        joint, np.concatenate([np.zeros(m), precision]), np.concatenate([np.zeros(m), precision_mean])
    )
    return mean[:m], posterior[:m, :m]


def predict_beside(kernel, inducing, values, spread, near, new, precision, precision_mean, jitter):
    """Mean and variance at new rows, given N(values, spread) at the inducing inputs and sites of near rows.

    f* and f_near are conditioned on the inducing values first, then f* on the near sites, and last the
    inducing values are integrated out; near rows may be any, not only those of one block.
    """
    gram = kernels_dense.block(kernel, inducing, inducing)
    gram += jitter * np.mean(np.diag(gram)) * np.eye(len(gram))

    def residual(left, right):
        return kernels_dense.block(kernel, left, right) - explained(kernel, inducing, left, right, jitter)

    noisy = residual(near, near) + np.diag(kernels_dense.nugget(kernel, near) + 1 / precision)
    gain = residual(new, near) @ np.linalg.inv(noisy)
    to_new = kernels_dense.block(kernel, new, inducing) @ np.linalg.inv(gram)
    to_near = kernels_dense.block(kernel, near, inducing) @ np.linalg.inv(gram)
    slope = to_new - gain @ to_near
    mean = slope @ values + gain @ (precision_mean / precision)
    variance = np.diag(residual(new, new) - gain @ residual(near, new) + slope @ spread @ slope.T)
    return mean, variance + kernels_dense.nugget(kernel, new)
