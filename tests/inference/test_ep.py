"""Expectation propagation: against the textbook, against exact regression, on problems that break things."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.limits.ep_robustness import hard_problem
from streamgp.errors import NumericsWarning
from streamgp.inference import Sites, filter_sites
from streamgp.inference.active_evidence import evidence
from streamgp.inference.ep import active_marginals, expectation_propagation
from streamgp.kernels import RBF, Linear, Matern32, White
from streamgp.likelihoods import Custom, Gaussian, Logit, Probit
from tests.reference import ep_dense

KERNELS = [
    RBF(1.7, 1.3),
    RBF(20.0, (0.8, 1.5, 3.0)) + White(0.4),
    RBF(1.2, 1.1) + Linear(0.4),
    RBF(1.5, 1.2) * Linear(0.7) + White(0.3) * Matern32(0.8, 2.0),
]
LIKELIHOODS = [Probit(bias=0.3), Logit(bias=-0.2), Gaussian(noise=0.2)]
TIGHT = 1e-10

every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)
every_likelihood = pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda one: type(one).__name__)


def problem(seed, rows=18, likelihood=None):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((rows, 3))
    X[rows // 2] = X[0]  # a duplicate, whose label may differ
    y = np.where(X[:, 0] + generator.standard_normal(rows) > 0, 1.0, -1.0)
    if isinstance(likelihood, Gaussian):
        y = X[:, 0] + 0.3 * generator.standard_normal(rows)
    return X, y


@given(
    seed=st.integers(0, 10_000),
    likelihood=st.sampled_from(LIKELIHOODS),
    log_variance=st.floats(-2.0, 5.0),
    lengthscale=st.floats(0.3, 5.0),
)
def test_marginals_and_evidence_are_those_of_the_textbook(seed, likelihood, log_variance, lengthscale):
    X, y = problem(seed, likelihood=likelihood)
    gram = RBF(np.exp(log_variance), lengthscale).gram(X)
    expected = ep_dense.propagate(gram, y, likelihood)
    found = expectation_propagation(gram, y, likelihood, tolerance=TIGHT)
    assert found.converged
    np.testing.assert_allclose(found.marginals.mean, expected.mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.marginals.variance, expected.variance, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.log_evidence, expected.log_evidence, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.sites.precision, expected.precision, rtol=1e-5, atol=1e-8)


@given(seed=st.integers(0, 10_000))
def test_the_order_of_site_updates_does_not_matter(seed):
    X, y = problem(seed)
    gram, likelihood = RBF(5.0, 1.0).gram(X), Probit(0.2)
    order = np.random.default_rng(seed).permutation(len(y))
    one, other = (ep_dense.propagate(gram, y, likelihood, order=each) for each in (order, order[::-1]))
    np.testing.assert_allclose(one.mean, other.mean, atol=1e-8)
    parallel = expectation_propagation(gram, y, likelihood, tolerance=TIGHT)
    sequential = expectation_propagation(
        gram, y, likelihood, filter_sites(gram, y, likelihood), tolerance=TIGHT, parallel_sweeps=0
    )
    assert sequential.converged
    for found in (parallel, sequential):
        np.testing.assert_allclose(found.marginals.mean, one.mean, atol=1e-7)
    shuffled = expectation_propagation(gram[np.ix_(order, order)], y[order], likelihood, tolerance=TIGHT)
    np.testing.assert_allclose(shuffled.sites.precision, parallel.sites.precision[order], atol=1e-8)


def test_gaussian_likelihood_gives_exact_regression():
    X, y = problem(0, rows=80, likelihood=Gaussian(0.05))
    kernel = RBF(2.0, 1.5) + White(0.01)
    gram = kernel.gram(X)
    found = expectation_propagation(gram, y, Gaussian(0.05))
    noisy = gram + 0.05 * np.eye(80)
    solved = np.linalg.inv(noisy)
    np.testing.assert_allclose(found.marginals.mean, gram @ solved @ y, atol=1e-8)
    np.testing.assert_allclose(found.marginals.variance, np.diag(gram - gram @ solved @ gram), atol=1e-8)
    exact = -0.5 * y @ solved @ y - 0.5 * np.linalg.slogdet(2 * np.pi * noisy)[1]
    assert found.log_evidence == pytest.approx(exact, abs=1e-8)
    left_out = y - (solved @ y) / np.diag(solved), 1 / np.diag(solved)
    np.testing.assert_allclose(found.marginals.cavity_mean, left_out[0], atol=1e-8)
    np.testing.assert_allclose(found.marginals.cavity_variance + 0.05, left_out[1], atol=1e-8)
    expected = -0.5 * (y - left_out[0]) ** 2 / left_out[1] - 0.5 * np.log(2 * np.pi * left_out[1])
    np.testing.assert_allclose(found.left_out_log_density, expected, atol=1e-8)


@every_kernel
@every_likelihood
def test_the_gradient_equals_differences_of_the_textbook(kernel, likelihood):
    X, y = problem(3, rows=12, likelihood=likelihood)
    found = evidence(kernel, likelihood, X, y, tolerance=TIGHT)

    def value(step, entry, of_kernel):
        k, like = kernel, likelihood
        if of_kernel:
            k = kernel.with_log_parameters(kernel.log_parameters + step * unit(len(k.log_parameters), entry))
        else:
            like = likelihood.with_parameters(
                likelihood.parameters + step * unit(len(like.parameters), entry)
            )
        return ep_dense.propagate(k.gram(X), y, like).log_evidence

    for gradient, of_kernel in ((found.kernel_gradient, True), (found.likelihood_gradient, False)):
        expected = [
            (value(1e-4, e, of_kernel) - value(-1e-4, e, of_kernel)) / 2e-4 for e in range(len(gradient))
        ]
        np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6)
    assert found.value == pytest.approx(ep_dense.propagate(kernel.gram(X), y, likelihood).log_evidence)


def unit(size, entry):
    return np.eye(size)[entry]


def test_warm_starts_end_at_the_same_fixed_point_sooner():
    X, y = problem(1, rows=150)
    gram, likelihood = RBF(30.0, 1.0).gram(X), Probit()
    cold = expectation_propagation(gram, y, likelihood, tolerance=1e-8)
    before = expectation_propagation(gram[:-5, :-5], y[:-5], likelihood, tolerance=1e-8).sites
    start = Sites(*(np.append(part, np.zeros(5)) for part in before))  # five rows enter
    warm = expectation_propagation(gram, y, likelihood, start, tolerance=1e-8)
    np.testing.assert_allclose(warm.marginals.mean, cold.marginals.mean, atol=1e-6)
    assert warm.sweeps < cold.sweeps
    left = Sites(*(part[:-5] for part in cold.sites))  # and leave again
    again = expectation_propagation(gram[:-5, :-5], y[:-5], likelihood, left, tolerance=1e-8)
    np.testing.assert_allclose(again.sites.precision, before.precision, rtol=1e-5, atol=1e-7)


def test_left_out_densities_are_close_to_those_of_fits_without_the_row():
    X, y = problem(2, rows=40)
    gram, likelihood = RBF(3.0, 1.0).gram(X), Probit()
    found = expectation_propagation(gram, y, likelihood, tolerance=TIGHT)
    for i in range(0, 40, 7):
        rest = np.delete(np.arange(40), i)
        without = expectation_propagation(gram[np.ix_(rest, rest)], y[rest], likelihood, tolerance=TIGHT)
        mean = gram[i, rest] @ without.marginals.weights
        noise = np.diag(1 / without.sites.precision)
        variance = gram[i, i] - gram[i, rest] @ np.linalg.solve(
            gram[np.ix_(rest, rest)] + noise, gram[rest, i]
        )
        exact = likelihood.log_predictive_density(y[i], mean, variance)[0]
        # Other sites change a little when the row leaves: the cavity is the leading order.
        assert found.left_out_log_density[i] == pytest.approx(exact, abs=0.03)


@pytest.mark.parametrize("seed", range(50))
def test_hard_problems_never_give_nan_and_say_when_they_did_not_converge(seed):
    gram, targets, likelihood = hard_problem(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericsWarning)
        found = expectation_propagation(gram, targets, likelihood)
        again = active_marginals(gram, found.sites)
    for array in (*found.sites, *found.marginals, found.left_out_log_density, found.log_evidence):
        assert np.all(np.isfinite(array))
    assert np.all(found.marginals.variance > 0)
    assert np.all(found.marginals.cavity_variance > 0)
    assert found.converged == (found.residual <= 1e-3)
    np.testing.assert_array_equal(again.mean, found.marginals.mean)


def test_a_likelihood_that_is_not_log_concave_warns_and_ends():
    generator = np.random.default_rng(0)
    X = np.sort(generator.uniform(-3, 3, (60, 1)), axis=0)
    y = np.sin(2 * X[:, 0]) + 0.1 * generator.standard_normal(60)
    y[::12] += 4.0  # outliers, on whose far side the density is convex
    student = Custom(lambda y, f: -2.5 * np.log1p((y - f) ** 2 / 0.04), "student")
    with pytest.warns(NumericsWarning, match="not log-concave"):
        found = expectation_propagation(RBF(1.0, 0.5).gram(X), y, student)
    assert np.all(np.isfinite(found.marginals.mean))
    assert np.all(found.sites.precision > 0)
    clean = np.delete(np.arange(60), np.arange(0, 60, 12))
    assert np.sqrt(np.mean((found.marginals.mean - np.sin(2 * X[:, 0]))[clean] ** 2)) < 0.2


def test_too_few_sweeps_are_told():
    X, y = problem(0, rows=60)
    gram = RBF(1e4, 1.0).gram(X)
    found = expectation_propagation(gram, y, Probit(), parallel_sweeps=3, sequential_sweeps=0)
    assert not found.converged
    assert found.residual > 1e-3
