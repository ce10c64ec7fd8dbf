"""Calibrations reach the optimum of what they say they maximise; heads combined to classes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp
from scipy.stats import norm

from streamgp.likelihoods import Logit, MultivariateProbit, Probit, Softmax
from streamgp.posterior import Marginals
from streamgp.posterior.calibration import (
    Calibration,
    calibrate_against_rest,
    calibrate_jointly,
    calibrate_noise,
    calibrate_points,
)
from streamgp.posterior.predictive import ClassPredictive


@pytest.mark.parametrize("n_functions", [1, 4])
def test_scale_and_offsets_that_generated_the_labels_are_found(generator, n_functions):
    latent = 3.0 * generator.standard_normal((20_000, n_functions))
    offsets = np.linspace(-1.0, 1.0, n_functions) if n_functions > 1 else np.array([0.7])
    true = 0.5 * latent + offsets
    if n_functions == 1:
        likelihood, targets = Logit(), np.where(true[:, 0] + generator.logistic(size=20_000) > 0, 1.0, -1.0)
    else:
        likelihood, targets = Softmax(), np.argmax(true + generator.gumbel(size=true.shape), axis=1) * 1.0
    found = calibrate_points(likelihood, targets, latent, np.ones(20_000), with_offsets=True)
    assert [one.mean_scale for one in found] == pytest.approx([0.5] * n_functions, rel=0.05)
    shifts = np.array([one.mean_offset for one in found])
    np.testing.assert_allclose(shifts, offsets, atol=0.1)
    plain = calibrate_points(likelihood, targets, latent, np.ones(20_000), with_offsets=False)
    assert all(one.mean_offset == 0.0 for one in plain)
    assert plain[0].log_density < found[0].log_density


@pytest.mark.parametrize("likelihood", [Softmax((0.2, 0.0, -0.2)), MultivariateProbit()])
def test_scales_of_joint_classes_are_where_a_search_without_gradients_ends(generator, likelihood):
    mean, variance = 2.0 * generator.standard_normal((300, 3)), generator.gamma(2.0, 1.0, (300, 3))
    codes = np.argmax(0.4 * mean + generator.gumbel(size=mean.shape), axis=1) * 1.0
    weights = generator.uniform(0.5, 1.5, 300)
    found = calibrate_jointly(likelihood, codes, mean, variance, weights)

    def minus(vector):
        log_z = likelihood.tilted_moments(codes, np.exp(vector[0]) * mean, np.exp(vector[1]) * variance).log_z
        return 0.5 * vector @ vector - weights @ log_z

    plain = minimize(minus, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9})
    logs = np.log([found.mean_scale, found.variance_scale])
    np.testing.assert_allclose(logs, plain.x, atol=2e-3)
    assert found.mean_offset == 0.0


def test_a_combination_is_the_softmax_of_stretched_log_odds(generator):
    marginals = Marginals(generator.standard_normal((50, 3)), generator.random((50, 3)))
    heads = (Probit(0.3), Probit(-0.2), Probit())
    combination = tuple(Calibration(1.7, offset) for offset in (0.1, -0.4, 0.0))
    odds = ClassPredictive(heads).log_odds(marginals)
    first = heads[0].positive_probability(marginals.mean[:, 0], marginals.variance[:, 0])
    np.testing.assert_allclose(odds[:, 0], np.log(first / (1.0 - first)), rtol=1e-6)
    np.testing.assert_allclose(
        ClassPredictive(heads, combination).log_probabilities(marginals),
        log_softmax(1.7 * odds + [0.1, -0.4, 0.0], axis=1),
    )


def test_noise_and_scale_of_variances_are_found(generator):
    variance = generator.gamma(2.0, 0.5, 20_000)
    targets = np.sqrt(0.5 * variance + 0.04) * generator.standard_normal(20_000)
    found, noise = calibrate_noise(targets, np.zeros(20_000), variance, 0.01)
    np.testing.assert_allclose([found.variance_scale, noise], [0.5, 0.04], rtol=0.1)
    total = found.variance_scale * variance + noise
    assert abs(norm.logpdf(targets, scale=np.sqrt(total)).mean() - found.log_density) < 1e-6


def test_classes_against_the_rest_have_one_scale_and_offsets_of_their_own(generator):
    latent = generator.standard_normal((4000, 3))
    offsets = np.array([0.5, 0.0, -0.5])
    p = norm.cdf(2.0 * latent + offsets)
    p /= p.sum(axis=1, keepdims=True)
    codes = (generator.random(4000)[:, None] > np.cumsum(p, axis=1)).sum(axis=1).astype(float)
    variance, weights = np.full((4000, 3), 1e-6), np.ones(4000)
    found = calibrate_against_rest((Probit(),) * 3, codes, latent, variance, weights)
    assert len({one.mean_scale for one in found}) == 1
    np.testing.assert_allclose(found[0].mean_scale, 2.0, rtol=0.15)
    np.testing.assert_allclose([one.mean_offset for one in found], offsets, atol=0.25)

    def density(shift):
        log_p = norm.logcdf(found[0].mean_scale * latent + [one.mean_offset for one in found] + shift)
        return np.mean(log_p[np.arange(4000), codes.astype(int)] - logsumexp(log_p, axis=1))

    assert abs(density(0.0) - found[0].log_density) < 1e-4
    assert density(0.0) > density(np.array([0.1, 0.0, 0.0]))
    assert density(0.0) > density(np.array([-0.1, 0.0, 0.0]))
