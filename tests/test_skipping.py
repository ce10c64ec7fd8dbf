"""Passing over confident rows: exact where nothing is passed over, close where much is."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.limits.skipping import Looks, no_looks, skipping_sweep_block
from streamgp.inference import Sites
from streamgp.inference.inducing.basis import FITC, Approximation, make_basis, whiten
from streamgp.inference.inducing.fit import Damping, fit_sites
from streamgp.inference.inducing.in_memory import Rows
from streamgp.inference.inducing.posterior import prior_posterior
from streamgp.inference.inducing.sweep import flat_sites, sweep_block
from streamgp.kernels import RBF
from streamgp.likelihoods import Probit
from streamgp.numerics.projection import project


@pytest.fixture
def data():
    """Two classes with a clear margin between most rows."""
    generator = np.random.default_rng(0)
    X = 2.0 * generator.standard_normal((1500, 2))
    y = np.where(X[:, 0] + 0.2 * generator.standard_normal(len(X)) > 0, 1.0, -1.0)
    return X, y, X[:25]


def test_without_looks_it_is_the_plain_sweep(data):
    X, y, Z = data
    basis, posterior, sites = make_basis(RBF(10.0, 2.0), Z), prior_posterior(len(Z)), flat_sites(len(X))
    weights = np.random.default_rng(1).uniform(0.0, 2.0, len(X))
    plain = sweep_block(basis, posterior, X, y, Probit(), sites, FITC, 0.8, weights)
    found = skipping_sweep_block(
        basis, posterior, X, y, Probit(), sites, no_looks(len(X)), FITC, 0.8, weights
    )
    assert found.passed_over == 0
    for ours, theirs in zip((*found.sites, *found.sums), (*plain.sites, *plain.sums), strict=True):
        assert np.array_equal(ours, theirs)
    assert np.array_equal(found.looks.residual_variance, whiten(basis, X).residual_variance)


@pytest.mark.parametrize("choice", [FITC, Approximation(0.0), Approximation(1.0, 0.3)])
def test_most_rows_are_passed_over_and_little_changes(data, choice):
    X, y, Z = data
    basis, likelihood = make_basis(RBF(10.0, 2.0), Z), Probit()
    expected = fit_sites(basis, likelihood, Rows(X, y), choice)
    posterior, sites, looks, damping = (
        prior_posterior(len(Z)),
        flat_sites(len(X)),
        no_looks(len(X)),
        Damping(),
    )
    for _ in range(25):
        sites, looks, sums, passed_over = skipping_sweep_block(
            basis, posterior, X, y, likelihood, sites, looks, choice, damping.step
        )
        damping = damping.after(sums.moment_residual)
        posterior = sums.posterior()
    assert passed_over > 0.4 * len(X)
    assert np.count_nonzero(sites.precision == 0.0) == passed_over
    assert sums.rows == len(X)
    whitened = whiten(basis, X).features
    mean, variance = project(whitened, posterior.spread, posterior.projected_targets)
    exact_mean, exact_variance = project(
        whitened, expected.posterior.spread, expected.posterior.projected_targets
    )
    losses = [
        -likelihood.log_predictive_density(y, m, v).mean()
        for m, v in ((mean, variance), (exact_mean, exact_variance))
    ]
    assert losses[0] == pytest.approx(losses[1], rel=0.01)
    assert np.mean(np.sign(mean) != np.sign(exact_mean)) < 0.01


def test_a_block_may_be_passed_over_as_a_whole(data):
    X, _, Z = data
    basis = make_basis(RBF(1.0, 2.0), Z)
    y = np.ones(len(X))
    looks = Looks(np.full(len(X), 0.1), np.full(len(X), 0.1))
    sites = Sites(np.full(len(X), 0.1), np.full(len(X), 0.1))
    found = skipping_sweep_block(
        basis, prior_posterior(len(Z)), X, y, Probit(bias=9.0), sites, looks, FITC, 1.0
    )
    assert found.passed_over == len(X)
    assert not found.sums.moment_matrix.any()
    assert not found.sites.precision.any()
    assert np.isfinite(found.sums.evidence)
    assert found.sums.moment_residual == 0.0
