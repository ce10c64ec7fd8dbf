"""Calibrations reach the optimum of what they say they maximise."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from streamgp.likelihoods import Probit
from streamgp.posterior.calibration import calibrate_against_rest, calibrate_noise


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
