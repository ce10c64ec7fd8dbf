"""Joint likelihoods of C classes by brute force: dense grids for any C, or a tensor grid of latent values.

``noise`` is "normal" (multivariate probit) or "gumbel" (softmax). All noise has a scale of one, so that
equidistant grids of a fraction of that, in latent values and in the winner's value, are exact.
"""

import numpy as np
from scipy.special import log_ndtr, logsumexp


def log_distribution(noise, x):
    with np.errstate(over="ignore"):
        return log_ndtr(x) if noise == "normal" else -np.exp(-x)


def log_density(noise, x):
    with np.errstate(over="ignore"):
        return -0.5 * x**2 - 0.5 * np.log(2 * np.pi) if noise == "normal" else -x - np.exp(-x)


def class_given_value(noise, wins, value, mean, variance, step):
    """Log factor of one class, and mean and second moment of t = (f − mean)/√variance, at each value."""
    root = np.sqrt(variance)
    # The tilted t may lie far out: up to the distance of the values, in either direction.
    reach = 12.0 + np.max(np.abs(value - mean)) / np.sqrt(1.0 + variance)
    t = np.arange(-reach, reach, step / max(1.0, root))
    of = log_density if wins else log_distribution
    log_weight = of(noise, value[:, None] - mean - root * t) - 0.5 * t**2
    total = logsumexp(log_weight, axis=1)
    probability = np.exp(log_weight - total[:, None])
    return total + np.log(t[1] - t[0]) - 0.5 * np.log(2 * np.pi), probability @ t, probability @ t**2


def tilted_by_value(noise, code, mean, variance, step=0.25):
    """log Z, slope and curvature of every class, from a grid of the winner's value; variances above zero.

    Exact to rounding with a step of 1/4, to 1e-8 with 1/2.
    """
    spread = 40.0 + 12.0 * np.sqrt(variance)
    value = np.arange(np.min(mean - spread), np.max(mean + spread), 2.0)
    classes = range(len(mean))
    coarse = sum(class_given_value(noise, c == code, value, mean[c], variance[c], step)[0] for c in classes)
    near = value[coarse > coarse.max() - 60.0]
    value = np.arange(near[0] - 2.0, near[-1] + 2.0, step)
    parts = [class_given_value(noise, c == code, value, mean[c], variance[c], step) for c in classes]
    log_weight = sum(part[0] for part in parts)
    log_z = logsumexp(log_weight) + np.log(step)
    probability = np.exp(log_weight - logsumexp(log_weight))
    first = np.array([probability @ part[1] for part in parts])
    second = np.array([probability @ part[2] for part in parts])
    return log_z, first / np.sqrt(variance), (1 - second + first**2) / variance


def log_likelihood(noise, code, latent):
    """log p(code | latent), latent (..., C)."""
    if noise == "gumbel":
        return latent[..., code] - logsumexp(latent, axis=-1)
    others = [c for c in range(latent.shape[-1]) if c != code]
    if len(others) == 1:
        return log_ndtr((latent[..., code] - latent[..., others[0]]) / np.sqrt(2))
    x, weight = np.polynomial.hermite_e.hermegauss(60)
    terms = sum(log_ndtr(latent[..., code, None] + x - latent[..., c, None]) for c in others)
    return logsumexp(terms + np.log(weight / np.sqrt(2 * np.pi)), axis=-1)


def tilted_by_latents(noise, code, mean, variance, step=0.3):
    """The same from a tensor grid of all latent values: for two or three classes and moderate variances."""
    t = np.arange(-7.5, 7.51, step)
    grid = np.stack(np.meshgrid(*[t] * len(mean), indexing="ij"), axis=-1)
    log_prior = -0.5 * np.sum(grid**2, axis=-1) + len(mean) * np.log(step / np.sqrt(2 * np.pi))
    log_weight = log_prior + log_likelihood(noise, code, mean + np.sqrt(variance) * grid)
    log_z = logsumexp(log_weight)
    probability = np.exp(log_weight - log_z)
    first = np.array([np.sum(probability * grid[..., c]) for c in range(len(mean))])
    second = np.array([np.sum(probability * grid[..., c] ** 2) for c in range(len(mean))])
    return log_z, first / np.sqrt(variance), (1 - second + first**2) / variance


def frequencies_by_sampling(noise, mean, variance, n_samples, generator):
    """How often each class has the largest noisy value."""
    shape = (n_samples, len(mean))
    latent = mean + np.sqrt(variance) * generator.standard_normal(shape)
    extra = generator.standard_normal(shape) if noise == "normal" else generator.gumbel(size=shape)
    return np.bincount(np.argmax(latent + extra, axis=1), minlength=len(mean)) / n_samples
