from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from streamgp.inference import Sites, filter_sites, head_from_sites
from streamgp.kernels import RBF
from streamgp.likelihoods import Gaussian, Probit
from streamgp.posterior import Snapshot
from tests.reference import gp_dense


def probit_moments(target, mean, variance):
    z = target * (mean + 0.2) / np.sqrt(1 + variance)
    slope = target * norm.pdf(z) / norm.cdf(z) / np.sqrt(1 + variance)
    return slope, slope * (slope + (mean + 0.2) / (1 + variance))


def gaussian_moments(target, mean, variance):
    return (target - mean) / (variance + 0.3), 1 / (variance + 0.3)


@pytest.mark.parametrize(
    ("likelihood", "moments"), [(Probit(bias=0.2), probit_moments), (Gaussian(noise=0.3), gaussian_moments)]
)
@pytest.mark.parametrize("seed", range(5))
def test_filtering_agrees_with_the_textbook(likelihood, moments, seed):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((40, 2))
    X[7] = X[3]  # a duplicate
    gram = gp_dense.rbf(X, X, 3.0, 0.8)
    y = np.where(generator.random(40) < 0.5, -1.0, 1.0)
    expected = gp_dense.filter_sites(gram, y, moments)
    found = filter_sites(gram, y, likelihood)
    np.testing.assert_allclose(found.precision, expected[0], rtol=1e-8)
    np.testing.assert_allclose(found.precision_mean, expected[1], rtol=1e-8, atol=1e-10)


def test_gaussian_sites_give_exact_regression():
    generator = np.random.default_rng(0)
    X, new = generator.standard_normal((60, 3)), generator.standard_normal((25, 3))
    y = generator.standard_normal(60)
    kernel = RBF(2.0, 1.5)
    gram = kernel.gram(X)
    head = head_from_sites(gram, filter_sites(gram, y, Gaussian(noise=0.05)))
    mean, variance = Snapshot(kernel, X, (head,)).marginals(new)
    noisy = np.linalg.inv(gp_dense.rbf(X, X, 2.0, 1.5) + 0.05 * np.eye(60))
    cross = gp_dense.rbf(new, X, 2.0, 1.5)
    np.testing.assert_allclose(mean[:, 0], cross @ noisy @ y, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(variance[:, 0], 2.0 - np.diag(cross @ noisy @ cross.T), atol=1e-9)


def test_a_site_without_precision_drops_out():
    gram = np.eye(3) + 0.5
    with_it = head_from_sites(gram.copy(), Sites(np.array([1.0, 0.0, 2.0]), np.array([1.0, 0.0, -1.0])))
    kept = np.ix_([0, 2], [0, 2])
    without = head_from_sites(gram[kept], Sites(np.array([1.0, 2.0]), np.array([1.0, -1.0])))
    np.testing.assert_allclose(with_it.weights[[0, 2]], without.weights)
    assert with_it.weights[1] == 0
