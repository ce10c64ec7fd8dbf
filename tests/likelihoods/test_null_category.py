"""The null category: moments against brute force, sites, its judge, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from streamgp.errors import ParameterError
from streamgp.likelihoods import NullCategory, Probit, likelihood_from_json

WIDTH, BIAS = 1.3, 0.2
MARGINALS = [(0.3, 0.5), (-2.0, 3.0), (1.5, 20.0), (0.0, 1.0), (4.0, 0.01), (-7.0, 2.0)]


def density(target, latent):
    """The likelihood as it is defined, of one side or of both together."""
    above, below = ndtr(latent + BIAS - 0.5 * WIDTH), ndtr(-(latent + BIAS) - 0.5 * WIDTH)
    return {1.0: above, -1.0: below, 0.0: above + below}[target]


def brute_force(target, mean, variance):
    """Log Z, and mean and variance of the tilted density, from its mean, by sums over a fine grid."""
    units, step = np.linspace(-12.0, 12.0, 24001, retstep=True)
    weights = step * np.exp(-0.5 * units**2) / np.sqrt(2 * np.pi)
    latent = mean + np.sqrt(variance) * units
    weights *= density(target, latent)
    z = weights.sum()
    shift = weights @ (latent - mean) / z
    return np.log(z), shift, weights @ (latent - mean) ** 2 / z - shift**2


@pytest.mark.parametrize("target", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize(("mean", "variance"), MARGINALS)
def test_moments_are_those_of_a_fine_grid(target, mean, variance):
    log_z, slope, curvature = NullCategory(WIDTH, BIAS).tilted_moments(target, mean, variance)
    expected, shift, spread = brute_force(target, mean, variance)
    assert log_z[0] == pytest.approx(expected, rel=1e-8, abs=1e-10)
    assert variance * slope[0] == pytest.approx(shift, rel=1e-7, abs=1e-9)
    assert variance * (1.0 - variance * curvature[0]) == pytest.approx(spread, rel=1e-7)


def test_sites_reproduce_the_moments_or_are_flat():
    mean, variance = np.array(MARGINALS).T
    likelihood = NullCategory(WIDTH, BIAS)
    for target in (-1.0, 0.0, 1.0):
        log_z, slope, curvature = likelihood.tilted_moments(target, mean, variance)
        site = likelihood.tilted_sites(target, mean, variance)
        sharp = curvature > 0.0
        np.testing.assert_array_equal(site.log_z, log_z)
        np.testing.assert_array_equal(site.site_precision[~sharp], 0.0)
        np.testing.assert_array_equal(site.site_precision_mean[~sharp], 0.0)
        precision = site.site_precision + 1.0 / variance
        matched = (site.site_precision_mean + mean / variance) / precision
        np.testing.assert_allclose((1.0 / precision)[sharp], (variance - variance**2 * curvature)[sharp])
        np.testing.assert_allclose(matched[sharp], (mean + variance * slope)[sharp])


def test_moments_stay_finite_far_out():
    mean = np.array([-1e6, -40.0, 0.0, 40.0, 1e6, 1e3])
    variance = np.array([0.0, 1e-12, 1e12, 1e12, 1.0, 0.0])
    likelihood = NullCategory(1e3)
    for target in (-1.0, 0.0, 1.0):
        for found in (likelihood.tilted_moments, likelihood.tilted_sites):
            assert np.isfinite(np.array(found(target, mean, variance))).all()
    _, _, curvature = likelihood.tilted_moments(0.0, mean, variance)
    assert np.all(variance * curvature < 1.0)


def test_gradient_by_the_bias_meets_finite_differences():
    mean, variance = np.array(MARGINALS).T
    step = 1e-6
    for target in (-1.0, 0.0, 1.0):
        above, below = (
            NullCategory(WIDTH, BIAS + sign * step).tilted_moments(target, mean, variance).log_z
            for sign in (1.0, -1.0)
        )
        [gradient] = NullCategory(WIDTH, BIAS).parameter_gradient(target, mean, variance)
        np.testing.assert_allclose(gradient, (above - below) / (2 * step), rtol=1e-5, atol=1e-8)


def test_new_rows_have_one_of_the_classes():
    mean, variance = np.array(MARGINALS).T
    likelihood = NullCategory(WIDTH, BIAS)
    positive = likelihood.positive_probability(mean, variance)
    np.testing.assert_allclose(positive, Probit(BIAS).positive_probability(mean, variance))
    negative = np.exp(likelihood.log_predictive_density(-1.0, mean, variance))
    np.testing.assert_allclose(positive + negative, 1.0)


def test_the_bias_starts_at_the_shares_of_labelled_rows():
    started = NullCategory().started(np.array([0.0] * 50 + [1.0] * 3 + [-1.0] * 15))
    assert Probit(started.bias).positive_probability(0.0, 0.0)[0] == pytest.approx(4 / 20)
    assert NullCategory(bias=0.7).started(np.ones(3)).bias == 0.7


@pytest.mark.parametrize("missing", [None, -1, "unknown", 0.5])
def test_it_is_saved_and_read(missing):
    likelihood = NullCategory(2.0, -0.5, missing)
    assert likelihood_from_json(likelihood.to_json()) == likelihood
    assert NullCategory(missing=np.nan) == NullCategory()


def test_what_cannot_be_is_refused():
    with pytest.raises(ParameterError, match="width of NullCategory is 0"):
        NullCategory(0.0)
    with pytest.raises(ParameterError, match="missing of NullCategory"):
        NullCategory(missing=[1])
    with pytest.raises(ParameterError, match="power"):
        NullCategory().tilted_sites(0.0, 0.0, 1.0, power=0.5)
