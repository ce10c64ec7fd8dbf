"""Predictions by blocks, by their unions and by several of them, against dense versions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgp.inference import Sites
from streamgp.inference.inducing.basis import make_basis
from streamgp.inference.inducing.posterior import head_from_posterior, posterior_from_moments
from streamgp.inference.local.cavities import head_cavities
from streamgp.inference.local.combination import combine, continuous_weights
from streamgp.inference.local.divided import divide_block
from streamgp.inference.local.factor import block_moments, factor_block
from streamgp.inference.local.prediction import block_head, joined, latent_head, predict_block, predict_means
from streamgp.inference.local.prior import block_prior, first_rows
from streamgp.inference.local.workspace import Workspace
from streamgp.kernels import RBF, Linear, Matern32
from streamgp.likelihoods import Gaussian, Probit
from streamgp.posterior import Snapshot
from tests.inference.test_fitc import agree
from tests.inference.test_local import exact_local, fit_local, members, part, problem
from tests.reference import pic_dense

KERNEL = Matern32(2.5, 1.2) + Linear(0.3)


@pytest.fixture(scope="module", params=["probit", "gaussian"])
def fitted(request):
    """Posterior, sites and what they were made of."""
    X, y, Z, groups = problem(11)
    basis = make_basis(KERNEL, Z)
    if request.param == "gaussian":
        posterior, _, _, sites = exact_local(basis, Gaussian(0.01), X, np.sin(X[:, 0]), groups)
        return basis, posterior, sites, X, Z, groups
    fit = fit_local(basis, Probit(0.1), X, y, groups, tolerance=1e-9)
    return basis, fit.posterior, fit.sites, X, Z, groups


def new_rows(X, Z):
    return np.vstack([np.random.default_rng(1).standard_normal((10, 2)), X[:5], Z[:2], [[30.0, 30.0]]])


def test_predictions_are_those_of_the_dense_model(fitted):
    basis, posterior, sites, X, Z, groups = fitted
    new = new_rows(X, Z)
    for number, rows in enumerate(members(groups)):
        head = block_head(basis, posterior, X[rows], part(sites, rows))
        found = predict_block(basis, posterior, head, new)
        labels = np.full(len(new), groups[rows[0]])
        mean, variance = pic_dense.predict(KERNEL, Z, X, groups, new, labels, *sites, basis.jitter)
        agree(found.mean, mean, 1e-8)
        agree(found.variance, variance, 1e-8)
        agree(predict_means(basis, X[rows], head.weights, new), mean, 1e-8)
        assert number == groups[rows[0]]


def test_a_head_needs_no_marginals_of_its_own_rows(fitted):
    basis, posterior, sites, X, _, groups = fitted
    for rows in members(groups):
        head = block_head(basis, posterior, X[rows], part(sites, rows))
        latent = latent_head(divide_block(head.factor.prior, head.factor.sites), posterior)
        agree(latent.solved_features, head.marginals.solved_features, 1e-10)
        agree(latent.dual_weights, head.marginals.dual_weights, 1e-10)


def test_a_training_row_is_predicted_as_its_own_marginal(fitted):
    basis, posterior, sites, X, _, groups = fitted
    rows = members(groups)[0]
    head = block_head(basis, posterior, X[rows], part(sites, rows))
    found = predict_block(basis, posterior, head, X[rows])
    agree(found.mean, head.marginals.mean, 1e-8)
    agree(found.variance, head.marginals.variance, 1e-8)


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_heads_of_more_rows_than_a_block(fitted, share):
    """The union of two blocks, or a block and a part of the next: the inducing posterior stays."""
    basis, posterior, sites, X, Z, groups = fitted
    first, second = members(groups)[:2]
    second = second[: round(share * len(second))]
    near, near_sites = joined(((X[first], part(sites, first)), (X[second], part(sites, second))))
    values, spread = pic_dense.inducing_posterior(KERNEL, Z, X, groups, *sites, basis.jitter)
    head = block_head(basis, posterior, near, near_sites)
    new = new_rows(X, Z)
    found = predict_block(basis, posterior, head, new)
    mean, variance = pic_dense.predict_beside(KERNEL, Z, values, spread, near, new, *near_sites, basis.jitter)
    agree(found.mean, mean, 1e-7)
    agree(found.variance, variance, 1e-7)


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_rows_left_out_are_those_of_a_model_without_them(fitted, share):
    """No site of its own anywhere, in the posterior of u neither; all other sites stay."""
    basis, posterior, sites, X, Z, groups = fitted
    first, second = members(groups)[:2]
    rows = np.concatenate([first, second[: round(share * len(second))]])
    silent = rows[2]
    sites = Sites(*(np.where(np.arange(len(X)) == silent, 0.0, column) for column in sites))
    sums = [block_moments(factor_block(block_prior(basis, X[g]), part(sites, g))) for g in members(groups)]
    posterior = posterior_from_moments(*(np.sum(column, axis=0) for column in zip(*sums, strict=True)))
    prior = block_prior(basis, X[rows])
    own = first_rows(prior, len(first))
    found = head_cavities(
        divide_block(prior, part(sites, rows)), divide_block(own, part(sites, first)), posterior, Workspace()
    )
    for place in (0, 2, 3, len(first) - 1):
        without = Sites(*(np.where(np.arange(len(X)) == rows[place], 0.0, column) for column in sites))
        values, spread = pic_dense.inducing_posterior(KERNEL, Z, X, groups, *without, basis.jitter)
        speak = rows[without.precision[rows] > 0.0]
        mean, variance = pic_dense.predict_beside(
            KERNEL, Z, values, spread, X[speak], X[rows[[place]]], *part(without, speak), basis.jitter
        )
        agree(found.mean[place], mean[0], 1e-7)
        agree(found.variance[place], variance[0], 1e-7)


def test_no_rows_at_all_predict_as_fitc_does(fitted):
    basis, posterior, _, X, Z, _ = fitted
    new = new_rows(X, Z)
    nobody = Sites(np.zeros(0), np.zeros(0))
    head = block_head(basis, posterior, X[:0], nobody)
    found = predict_block(basis, posterior, head, new)
    snapshot = Snapshot(KERNEL, basis.inducing, (head_from_posterior(basis, posterior),))
    expected = snapshot.marginals(new)
    agree(found.mean, expected.mean[:, 0], 1e-7)
    agree(found.variance, expected.variance[:, 0], 1e-7)


def test_rows_far_from_all_are_predicted_by_the_prior():
    X, y, Z, groups = problem(3)
    kernel = RBF(2.0, 0.7)
    basis = make_basis(kernel, Z)
    fit = fit_local(basis, Probit(), X, y, groups, tolerance=1e-6)
    rows = members(groups)[0]
    head = block_head(basis, fit.posterior, X[rows], part(fit.sites, rows))
    found = predict_block(basis, fit.posterior, head, np.full((1, 2), 50.0))
    agree(found.mean, [0.0], 1e-10)
    agree(found.variance, [2.0], 1e-10)


class TestCombination:
    @given(seed=st.integers(0, 2**20), count=st.integers(1, 3))
    def test_weights_are_shares(self, seed, count):
        generator = np.random.default_rng(seed)
        variances = generator.gamma(1.0, 1.0, (20, count)) + 1e-9
        squares = np.sort(generator.gamma(1.0, 1.0, (20, count + 1)), axis=1)
        weights = continuous_weights(variances, squares)
        agree(weights.sum(axis=1), np.ones(20), 1e-12)
        assert np.all(weights >= 0.0)
        means = generator.standard_normal((20, count))
        found = combine(means, variances, weights)
        assert np.all(found.mean <= means.max(axis=1) + 1e-12)
        assert np.all(found.variance >= variances.min(axis=1) * (1 - 1e-12))

    def test_one_block_is_the_nearest(self):
        weights = continuous_weights(np.array([[0.3], [2.0]]), np.array([[1.0, 2.0], [0.5, 0.5]]))
        np.testing.assert_array_equal(weights, [[1.0], [1.0]])

    def test_a_block_without_others_counts_by_its_variance(self):
        weights = continuous_weights(np.array([[1.0, 2.0]]), np.array([[1.0, 3.0]]), power=2.0)
        agree(weights, np.array([[0.8, 0.2]]), 1e-12)

    def test_a_block_about_to_be_replaced_has_no_weight(self):
        weights = continuous_weights(np.ones((1, 2)), np.array([[1.0, 4.0 - 1e-9, 4.0]]))
        assert weights[0, 1] < 1e-8

    def test_equal_distances_leave_it_to_the_variances(self):
        weights = continuous_weights(np.array([[1.0, 1.0]]), np.ones((1, 3)))
        agree(weights, np.array([[0.5, 0.5]]), 1e-12)
        assert np.all(np.isfinite(continuous_weights(np.ones((1, 2)), np.zeros((1, 3)))))

    def test_the_prediction_does_not_jump_where_blocks_change_places(self):
        """Three centres, each with a value and a variance of its own; a fine line through all regions."""
        centres = np.array([[0.0, 0.0], [1.0, 0.2], [0.4, 1.0]])

        def largest_step(points, steepness):
            line = np.linspace([-0.5, 0.9], [1.3, 0.3], points)
            squares = ((line[:, None, :] - centres) ** 2).sum(axis=2)
            order = np.argsort(squares, axis=1)
            assert len(np.unique(order, axis=0)) == 3  # first and second, and second and third, change places
            values = np.array([-1.0, 2.0, 5.0])[order[:, :2]]
            spreads = np.array([0.5, 1.0, 0.7])[order[:, :2]]
            nearest = np.take_along_axis(squares, order, axis=1)
            weights = continuous_weights(spreads, nearest, steepness=steepness)
            return np.abs(np.diff(combine(values, spreads, weights).mean)).max()

        assert largest_step(200_001, 3.0) < 0.15 * largest_step(20_001, 3.0) < 0.01
        assert largest_step(200_001, 1e12) > 0.5  # what it would be without the ramp
