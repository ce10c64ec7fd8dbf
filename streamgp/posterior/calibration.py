"""How far a sparse posterior is to be trusted, from rows that it has not learned.

A posterior of informative rows ignores what all others say. They would have shrunk its variances, and they
would have outvoted the surprising labels that it preferred to learn: its probabilities are too modest. Two
numbers for its means and one for its variances, chosen by the log density of rows left out, put that right.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from streamgp.arrays import FloatArray
from streamgp.likelihoods import JointLikelihood, Likelihood

_BOUNDS = [(np.log(0.1), np.log(30.0)), (-20.0, 20.0), (np.log(1e-3), np.log(10.0))]
_PRIOR_PRECISION = 1.0
"""One row's worth of doubt about each parameter, so that separable samples do not run to the bounds."""


class Calibration(NamedTuple):
    """h ↦ mean_scale h + mean_offset,  a ↦ variance_scale a; the mean log density that rows then have."""

    mean_scale: float = 1.0
    mean_offset: float = 0.0
    variance_scale: float = 1.0
    log_density: float = 0.0


UNCALIBRATED = Calibration()


def calibrate(
    likelihood: Likelihood,
    targets: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    weights: FloatArray | None = None,
) -> Calibration:
    """The calibration that gives rows left out the largest (weighted) density.

    L = Σ w log Z(y; s h + o, r a),  dL/dlog s = Σ w α s h,  dL/do = Σ w α,  dL/dlog r = Σ w ½ (α² − ν) r a
    h mean, a variance; α, ν slope and curvature of log Z. Real targets keep their means: s = 1, o = 0.
    Shapes: (c,) each.  Cost: some tens of O(c).
    """
    weights = np.ones(len(targets)) if weights is None else weights
    free = np.array([likelihood.is_classification, likelihood.is_classification, True])

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        log_scale, offset, log_ratio = vector * free
        scaled, shrunk = np.exp(log_scale) * mean, np.exp(log_ratio) * variance
        log_z, slope, curvature = likelihood.tilted_moments(targets, scaled + offset, shrunk)
        by_variance = 0.5 * (slope * slope - curvature) * shrunk
        gradient = np.array([weights @ (slope * scaled), weights @ slope, weights @ by_variance])
        doubt = 0.5 * _PRIOR_PRECISION * float(vector @ vector)
        return doubt - float(weights @ log_z), (_PRIOR_PRECISION * vector - gradient) * free

    found = minimize(objective, np.zeros(3), jac=True, method="L-BFGS-B", bounds=_BOUNDS)
    log_scale, offset, log_ratio = found.x * free
    density = -(found.fun - 0.5 * _PRIOR_PRECISION * float(found.x @ found.x)) / weights.sum()
    return Calibration(float(np.exp(log_scale)), float(offset), float(np.exp(log_ratio)), float(density))


def calibrate_noise(
    targets: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    noise: float,
    weights: FloatArray | None = None,
) -> tuple[Calibration, float]:
    """Scale r of latent variances and noise σ² that give real targets left out the largest density.

    L = Σ w log N(y; h, r a + σ²):  a scale alone cannot tell doubt about the function from noise.
    h mean, a variance; ``noise``: where the search starts.
    Shapes: (c,) each.  Cost: some tens of O(c).
    """
    weights = np.ones(len(targets)) if weights is None else weights
    squares = (targets - mean) ** 2

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        by_latent, by_noise = np.exp(vector[0]) * variance, noise * np.exp(vector[1])
        total = by_latent + by_noise
        slope = weights * 0.5 * (1.0 / total - squares / total**2)
        value = float(weights @ (0.5 * (np.log(2.0 * np.pi * total) + squares / total)))
        doubt = 0.5 * _PRIOR_PRECISION * float(vector @ vector)
        gradient = np.array([slope @ by_latent, by_noise * slope.sum()])
        return value + doubt, gradient + _PRIOR_PRECISION * vector

    bounds = [_BOUNDS[2], (np.log(1e-4), np.log(1e4))]
    found = minimize(objective, np.zeros(2), jac=True, method="L-BFGS-B", bounds=bounds)
    density = -(found.fun - 0.5 * _PRIOR_PRECISION * float(found.x @ found.x)) / weights.sum()
    ratio, factor = np.exp(found.x)
    return Calibration(1.0, 0.0, float(ratio), float(density)), noise * float(factor)


def calibrate_points(
    likelihood: JointLikelihood | Likelihood,
    targets: FloatArray,
    latent: FloatArray,
    weights: FloatArray,
    *,
    with_offsets: bool,
) -> tuple[Calibration, ...]:
    """One scale for all latent functions and, if asked for, an offset for each: of points without variance.

    L = Σ w log p(y | s f + o),  dL/dlog s = Σ_c w g_c s f_c,  dL/do_c = Σ w g_c,  g the gradient of log p
    Shapes: targets and weights w (n,), latent f (n, k) → k calibrations.  Cost: some tens of O(n k).
    """
    n_functions = latent.shape[1]
    free = np.append(1.0, np.full(n_functions, float(with_offsets)))

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        stretched = np.exp(vector[0]) * latent
        terms = likelihood.mode_terms(targets, stretched + vector[1:])
        slopes = weights[:, None] * terms.gradient
        gradient = np.append(np.sum(slopes * stretched), slopes.sum(axis=0))
        doubt = 0.5 * _PRIOR_PRECISION * float(vector @ vector)
        return doubt - float(weights @ terms.log_density), (_PRIOR_PRECISION * vector - gradient) * free

    bounds = [_BOUNDS[0], *([_BOUNDS[1]] * n_functions)]
    found = minimize(objective, np.zeros(1 + n_functions), jac=True, method="L-BFGS-B", bounds=bounds)
    scale, offsets = float(np.exp(found.x[0])), found.x[1:]
    density = -(found.fun - 0.5 * _PRIOR_PRECISION * float(found.x @ found.x)) / weights.sum()
    return tuple(Calibration(scale, float(offset), scale**2, float(density)) for offset in offsets)


def calibrate_jointly(
    likelihood: JointLikelihood,
    codes: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    weights: FloatArray,
) -> Calibration:
    """One scale of all means and one of all variances, by the probabilities of rows left out.

    L = Σ w log Z(y; s h, r a),  dL/dlog s = Σ_c w α_c s h_c,  dL/dlog r = Σ_c w ½ (α_c² − ν_c) r a_c
    h mean, a variance (n, k); codes and weights w (n,); α, ν slope and curvature of log Z by each mean.
    Cost: some tens of O(n k).
    """

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        scaled, shrunk = np.exp(vector[0]) * mean, np.exp(vector[1]) * variance
        log_z, slope, curvature = likelihood.tilted_moments(codes, scaled, shrunk)
        by_variance = 0.5 * (slope * slope - curvature) * shrunk
        gradient = np.array([weights @ (slope * scaled).sum(axis=1), weights @ by_variance.sum(axis=1)])
        doubt = 0.5 * _PRIOR_PRECISION * float(vector @ vector)
        return doubt - float(weights @ log_z), _PRIOR_PRECISION * vector - gradient

    found = minimize(objective, np.zeros(2), jac=True, method="L-BFGS-B", bounds=[_BOUNDS[0], _BOUNDS[2]])
    density = -(found.fun - 0.5 * _PRIOR_PRECISION * float(found.x @ found.x)) / weights.sum()
    scale, ratio = np.exp(found.x)
    return Calibration(float(scale), 0.0, float(ratio), float(density))


def calibrate_against_rest(
    likelihoods: tuple[Likelihood, ...],
    codes: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    weights: FloatArray,
) -> tuple[Calibration, ...]:
    """Scales common to all classes and an offset for each, by the normalised probabilities of rows left out.

    L = Σ w (log P_y − log Σ_c P_c),  P_c = Z(+1; s h_c + o_c, r a_c):  each class against the rest
    dL/dlog P_c = w (δ_cy − P_c/Σ P),  dlog P/dh = α,  dlog P/da = ½ (α² − ν)
    h mean, a variance (n, k); codes (n,) of the true classes.  Cost: some tens of O(n k).
    """
    n_classes = mean.shape[1]
    truth = np.eye(n_classes)[codes.astype(np.intp)]
    positive = np.ones(len(mean))

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        scaled, shrunk = np.exp(vector[0]) * mean, np.exp(vector[1]) * variance
        moments = [
            likelihood.tilted_moments(positive, scaled[:, c] + vector[2 + c], shrunk[:, c])
            for c, likelihood in enumerate(likelihoods)
        ]
        log_p, slope, curvature = (np.column_stack(column) for column in zip(*moments, strict=True))
        total = logsumexp(log_p, axis=1, keepdims=True)
        pull = weights[:, None] * (truth - np.exp(log_p - total))
        by_mean, by_variance = pull * slope, 0.5 * pull * (slope * slope - curvature)
        gradient = np.array(
            [np.sum(by_mean * scaled), np.sum(by_variance * shrunk), *by_mean.sum(axis=0).tolist()]
        )
        value = float(weights @ (np.sum(truth * log_p, axis=1) - total[:, 0]))
        doubt = 0.5 * _PRIOR_PRECISION * float(vector @ vector)
        return doubt - value, _PRIOR_PRECISION * vector - gradient

    bounds = [_BOUNDS[0], _BOUNDS[2], *([_BOUNDS[1]] * n_classes)]
    found = minimize(objective, np.zeros(2 + n_classes), jac=True, method="L-BFGS-B", bounds=bounds)
    density = -(found.fun - 0.5 * _PRIOR_PRECISION * float(found.x @ found.x)) / weights.sum()
    scale, ratio = np.exp(found.x[:2])
    return tuple(
        Calibration(float(scale), float(offset), float(ratio), float(density)) for offset in found.x[2:]
    )
