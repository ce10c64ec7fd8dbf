"""Power EP through inducing inputs against its dense versions: sites, marginals, evidence, predictions."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgp.data import ClassTargets, Standardizer
from streamgp.errors import ParameterError
from streamgp.inference import Sites
from streamgp.inference.inducing.basis import JITTER, Approximation, make_basis, whiten
from streamgp.inference.inducing.fit import fit_sites, sweep_rows
from streamgp.inference.inducing.in_memory import Rows
from streamgp.inference.inducing.posterior import head_from_posterior, posterior_from_moments, prior_posterior
from streamgp.inference.inducing.sweep import flat_sites, log_evidence
from streamgp.kernels import RBF, Linear, Matern32, White
from streamgp.likelihoods import Gaussian, Logit, Probit
from streamgp.numerics.projection import project
from streamgp.posterior import Snapshot
from streamgp.posterior.model import Model
from streamgp.posterior.predictive import ClassPredictive
from tests.reference import fitc_dense as dense

LIKELIHOODS = [Probit(bias=0.2), Logit(bias=-0.1), Gaussian(noise=0.3)]
JITTER64 = JITTER[np.dtype(np.float64)]


def problem(seed, *, rows=30, inducing=8, features=2):
    """Rows with a duplicate, noisy classes, inducing inputs of which one is a row."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((rows, features))
    X[3] = X[1]
    y = np.where(X[:, 0] + 0.5 * generator.standard_normal(rows) > 0, 1.0, -1.0)
    Z = generator.standard_normal((inducing, features))
    Z[0] = X[2]
    return X, y, Z


def marginals(basis, fit, X):
    """Mean and variance of s = wᵀu."""
    return project(whiten(basis, X).features, fit.posterior.spread, fit.posterior.projected_targets)


def agree(found, expected, tolerance=1e-6):
    np.testing.assert_allclose(
        found, expected, rtol=tolerance, atol=tolerance * max(1.0, np.abs(expected).max())
    )


@given(
    seed=st.integers(0, 2**20),
    likelihood=st.sampled_from(LIKELIHOODS),
    residual=st.sampled_from([0.0, 0.5, 1.0]),
    power=st.sampled_from([1.0, 0.5, 0.05]),
    variance=st.floats(0.3, 8.0),
    lengthscale=st.floats(0.4, 3.0),
    rows_per_block=st.sampled_from([4, 11, 100]),
)
def test_sites_marginals_and_evidence_are_those_of_dense_power_ep(
    seed, likelihood, residual, power, variance, lengthscale, rows_per_block
):
    X, y, Z = problem(seed)
    kernel = RBF(variance, lengthscale) + White(0.01)
    explained, residual_variance = dense.prior(kernel, Z, X, JITTER64)
    expected = dense.power_ep(explained, residual * residual_variance, likelihood, y, power, tolerance=1e-11)
    basis, rows = make_basis(kernel, Z), Rows(X, y, rows_per_block=rows_per_block)
    found = fit_sites(basis, likelihood, rows, Approximation(residual, power), tolerance=1e-8)
    assert found.converged
    agree(found.sites.precision, expected.precision)
    agree(found.sites.precision_mean, expected.precision_mean)
    mean, variance = marginals(basis, found, X)
    agree(mean, expected.mean)
    agree(variance, expected.variance)
    agree(found.evidence, expected.evidence)


@pytest.mark.parametrize("likelihood", LIKELIHOODS[:2])
@pytest.mark.parametrize("residual", [0.4, 1.0])
def test_power_one_is_the_papers_ep_on_the_latent_values(likelihood, residual):
    """[FITC2007] has its sites on f with prior Q + D; integrating e out of them gives ours."""
    X, y, Z = problem(5)
    kernel = RBF(3.0, 0.9)
    explained, residual_variance = dense.prior(kernel, Z, X, JITTER64)
    D = residual * residual_variance
    expected = dense.full_ep(explained + np.diag(D), likelihood, y)
    basis = make_basis(kernel, Z)
    found = fit_sites(basis, likelihood, Rows(X, y), Approximation(residual), tolerance=1e-9)
    agree(found.sites.precision, expected.precision / (1 + D * expected.precision))
    agree(found.sites.precision_mean, expected.precision_mean / (1 + D * expected.precision))
    mean, variance = marginals(basis, found, X)
    ratio = 1 - found.sites.precision * variance
    agree(variance / ratio + D, expected.cavity_variance)
    agree((mean - variance * found.sites.precision_mean) / ratio, expected.cavity_mean)
    agree(found.evidence, expected.evidence)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("residual", [0.0, 1.0])
def test_all_rows_as_inducing_inputs_is_full_ep(likelihood, residual):
    X, y, _ = problem(2)
    X[3] += 0.3  # no duplicate: K_uu is to be inverted with next to no jitter
    kernel = Matern32(2.0, 1.0)
    gram = kernel.gram(X)
    expected = dense.full_ep(gram, likelihood, y)
    basis = make_basis(kernel, X, jitter=1e-12)
    found = fit_sites(basis, likelihood, Rows(X, y), Approximation(residual), tolerance=1e-9)
    agree(found.sites.precision, expected.precision)
    agree(found.sites.precision_mean, expected.precision_mean)
    mean, variance = marginals(basis, found, X)
    agree(mean, expected.mean)
    agree(variance, expected.variance)
    agree(found.evidence, expected.evidence)


class TestGaussianNoise:
    kernel, noise = RBF(1.5, 0.8), 0.2

    def fit(self, **choice):
        X, _, Z = problem(7)
        y = np.sin(2 * X[:, 0])
        explained, residual_variance = dense.prior(self.kernel, Z, X, JITTER64)
        found = fit_sites(
            make_basis(self.kernel, Z), Gaussian(self.noise), Rows(X, y), Approximation(**choice)
        )
        return found, (explained, residual_variance, self.noise, y)

    def test_fitc(self):
        found, (explained, residual_variance, noise, y) = self.fit()
        agree(found.evidence, dense.fitc_regression(explained, residual_variance, noise, y), 1e-9)

    def test_dtc(self):
        found, (explained, residual_variance, noise, y) = self.fit(residual=0.0)
        agree(found.evidence, dense.fitc_regression(explained, 0 * residual_variance, noise, y), 1e-9)

    @pytest.mark.parametrize("power", [0.7, 0.1])
    def test_power_ep(self, power):
        found, data = self.fit(power=power)
        agree(found.evidence, dense.power_regression(*data, power), 1e-9)

    def test_small_powers_reach_the_variational_bound(self):
        found, data = self.fit(power=1e-7)
        agree(found.evidence, dense.vfe_regression(*data), 1e-6)

    @pytest.mark.parametrize("choice", [Approximation(), Approximation(0.3, 0.5)])
    def test_the_general_sweep_needs_one_pass_too(self, choice):
        X, _, Z = problem(7)
        y = np.sin(2 * X[:, 0])
        basis, rows, likelihood = make_basis(self.kernel, Z), Rows(X, y), Gaussian(self.noise)
        exact = fit_sites(basis, likelihood, rows, choice)
        flat, start = flat_sites(len(X)), prior_posterior(len(Z))
        sites, sums = sweep_rows(basis, start, likelihood, rows, flat, choice, 1.0)
        agree(sites.precision, exact.sites.precision, 1e-10)
        agree(sites.precision_mean, exact.sites.precision_mean, 1e-10)
        posterior = sums.posterior()
        again = sweep_rows(basis, posterior, likelihood, rows, sites, choice, 1.0).sums
        assert again.moment_residual < 1e-8
        agree(log_evidence(posterior, again), exact.evidence, 1e-9)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize(
    "choice", [Approximation(), Approximation(0.0), Approximation(0.3), Approximation(1.0, 0.5)]
)
@pytest.mark.parametrize("in_full", [False, True])
def test_the_head_predicts_without_training_rows(likelihood, choice, in_full):
    X, y, Z = problem(11)
    new = np.vstack([np.random.default_rng(1).standard_normal((20, 2)), X[:5], Z[:2], [[30.0, 30.0]]])
    kernel = RBF(2.5, 1.2) + Linear(0.3)
    basis = make_basis(kernel, Z)
    fit = fit_sites(basis, likelihood, Rows(X, y), choice, tolerance=1e-8)
    residual = 1.0 if in_full else choice.residual
    head = head_from_posterior(basis, fit.posterior, residual=residual)
    assert np.array_equal(head.projection, np.triu(head.projection))
    snapshot = Snapshot(kernel, Z, (head,))
    found = snapshot.marginals(new)
    mean, variance = dense.predict(kernel, Z, X, new, *fit.sites, JITTER64, residual)
    agree(found.mean[:, 0], mean, 1e-6)
    agree(found.variance[:, 0], variance, 1e-6)
    agree(snapshot.marginals(new, with_variance=False).mean[:, 0], mean, 1e-6)
    single = snapshot.astype(np.float32).marginals(new.astype(np.float32))
    agree(single.variance[:, 0], variance, 1e-3)


@pytest.mark.parametrize("residual", [1.0, 0.3, 0.0])
def test_a_saved_head_keeps_its_residual(residual):
    X, y, Z = problem(11)
    kernel, likelihood = RBF(2.5, 1.2), Probit(0.1)
    basis = make_basis(kernel, Z)
    posterior = fit_sites(basis, likelihood, Rows(X, y), Approximation(residual)).posterior
    head = head_from_posterior(basis, posterior, slice(0, len(Z)), residual=residual)
    model = Model(
        Standardizer(np.zeros(2), np.ones(2)),
        ClassTargets(np.array([0, 1])),
        Snapshot(kernel, Z, (head,)),
        ClassPredictive((likelihood,)),
        np.arange(len(Z)),
    )
    header, arrays = model.to_record()
    again = Model.from_record(json.loads(json.dumps(header)), arrays)
    for found, expected in zip(again.snapshot.marginals(X), model.snapshot.marginals(X), strict=True):
        assert np.array_equal(found, expected)


def test_the_head_of_the_prior_is_the_prior():
    _, _, Z = problem(0)
    kernel = RBF(2.0, 1.0)
    head = head_from_posterior(make_basis(kernel, Z), prior_posterior(len(Z)))
    mean, variance = Snapshot(kernel, Z, (head,)).marginals(Z)
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(variance, 2.0, rtol=1e-9)


@pytest.mark.parametrize("choice", [Approximation(), Approximation(0.5, 0.5)])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_blocks_and_threads_do_not_matter(likelihood, choice):
    X, y, Z = problem(4, rows=101, inducing=12)
    basis = make_basis(RBF(4.0, 0.7), Z)
    whole = fit_sites(basis, likelihood, Rows(X, y, rows_per_block=200), choice, tolerance=1e-9)
    for rows_per_block, workers in ((7, 1), (32, 2), (100, 2)):
        rows = Rows(X, y, rows_per_block=rows_per_block, workers=workers)
        parts = fit_sites(basis, likelihood, rows, choice, tolerance=1e-9)
        agree(parts.sites.precision, whole.sites.precision, 1e-9)
        agree(parts.sites.precision_mean, whole.sites.precision_mean, 1e-9)
        agree(parts.evidence, whole.evidence, 1e-9)
    once, twice = (fit_sites(basis, likelihood, Rows(X, y, None, 32, w), choice) for w in (1, 2))
    assert np.array_equal(once.posterior.spread, twice.posterior.spread)
    assert once.evidence == twice.evidence


@pytest.mark.parametrize("choice", [Approximation(), Approximation(0.5, 0.5)])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_a_weight_counts_rows(likelihood, choice):
    X, y, Z = problem(9)
    weights = np.random.default_rng(0).integers(0, 4, len(X)).astype(float)
    basis = make_basis(RBF(1.5, 1.0), Z)
    weighted = fit_sites(basis, likelihood, Rows(X, y, weights), choice, tolerance=1e-9)
    counts = weights.astype(int)
    repeated = fit_sites(
        basis, likelihood, Rows(np.repeat(X, counts, 0), np.repeat(y, counts)), choice, tolerance=1e-9
    )
    assert weighted.converged
    agree(np.repeat(weighted.sites.precision, counts), repeated.sites.precision, 1e-7)
    agree(weighted.posterior.inducing_mean, repeated.posterior.inducing_mean, 1e-7)
    agree(weighted.evidence, repeated.evidence, 1e-9)


@pytest.mark.parametrize(("held", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-3)])
def test_rows_that_are_held_give_the_same_sites(held, tolerance):
    X, y, Z = problem(4, rows=300, inducing=20)
    basis, likelihood = make_basis(RBF(5.0, 0.8), Z), Probit(0.1)
    anew = fit_sites(basis, likelihood, Rows(X, y, rows_per_block=64))
    again = fit_sites(basis, likelihood, Rows(X, y, rows_per_block=64), hold=held)
    assert again.converged
    agree(again.sites.precision, anew.sites.precision, tolerance)
    agree(again.evidence, anew.evidence, tolerance)


def test_single_precision_is_close():
    X, y, Z = problem(3, rows=600, inducing=40)
    kernel, likelihood = RBF(5.0, 0.8), Probit(0.1)
    double = fit_sites(make_basis(kernel, Z, np.float32), likelihood, Rows(X, y))
    basis = make_basis(kernel, Z, np.float32).astype(np.float32)
    single = fit_sites(basis, likelihood, Rows(X.astype(np.float32), y))
    assert single.converged
    assert basis.jitter == JITTER[np.dtype(np.float32)]
    agree(single.sites.precision, double.sites.precision, 1e-3)
    agree(single.evidence, double.evidence, 1e-4)


def test_a_row_without_a_cavity_keeps_its_site_and_is_counted():
    X, y, Z = problem(1)
    basis, rows = make_basis(RBF(2.0, 1.0), Z), Rows(X, y)
    sites = Sites(np.full(len(X), 0.1), np.zeros(len(X)))
    sites.precision[4] = 1e6  # far more than the posterior knows
    new, sums = sweep_rows(
        basis, prior_posterior(len(Z)), Probit(), rows, sites, Approximation(), damping=1.0
    )
    assert sums.skipped == 1
    assert sums.weight == len(X) - 1
    assert new.precision[4] == 1e6
    assert np.all(new.precision[:4] != 0.1)
    assert np.isfinite(sums.evidence)


def test_an_indefinite_moment_matrix_is_refreshed():
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((50, 20))
    moments = 1e9 * rows[:, :3] @ rows[:, :3].T
    moments[np.diag_indices_from(moments)] -= 3.0  # as rounding of 1e-9 would do
    posterior = posterior_from_moments(moments, rows[:, 0])
    assert 0.0 < posterior.jitter < 1e3
    assert np.all(np.isfinite(posterior.spread))
    assert posterior_from_moments(rows @ rows.T, rows[:, 0]).jitter == 0.0


@pytest.mark.parametrize("wrong", [{"residual": -0.1}, {"residual": 1.5}, {"power": 0.0}, {"power": 1.1}])
def test_choices_out_of_range_are_refused(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        Approximation(**wrong)
