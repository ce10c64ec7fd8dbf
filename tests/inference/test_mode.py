"""The joint mode: its sums, its maximum, the coordinates in which it is quickly found."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from streamgp.data import ClassTargets, RealTargets
from streamgp.data.targets import head_targets
from streamgp.inference.inducing.basis import Approximation, make_basis, whiten
from streamgp.inference.inducing.heads import RowWeights
from streamgp.inference.inducing.held import HeldRows, HoldStep, merge_held
from streamgp.inference.inducing.mode import (
    HeadTerms,
    ModeStep,
    PointTerms,
    find_mode,
    merge_modes,
    mode_scale,
)
from streamgp.inference.label_regression import label_evidence
from streamgp.kernels import RBF, Linear
from streamgp.likelihoods import (
    Gaussian,
    Laplace,
    Logit,
    MultivariateProbit,
    Ordinal,
    Poisson,
    Probit,
    Softmax,
    StudentT,
)
from tests.reference.kernels_dense import derivative

EVERYBODY = RowWeights(np.zeros(0, np.int64))
THREE, TWO = ClassTargets(np.arange(3)), ClassTargets(np.arange(2))


def held(features, codes, tiles=1):
    """Whitened rows of weight one, in so many parts."""
    parts = zip(*(np.array_split(part, tiles) for part in (features, codes)), strict=True)
    return [HeldRows(rows, labels, np.ones(len(labels))) for rows, labels in parts]


@pytest.fixture
def rows(generator):
    X = generator.standard_normal((120, 2))
    codes = np.digitize(X[:, 0] + 0.3 * generator.standard_normal(120), [-0.5, 0.5]).astype(float)
    return X, codes


def log_posterior(likelihood, features, codes, weights):
    """The plain formula: the log density of labels given f = W U, and the prior of U."""
    return likelihood.mode_terms(codes, features @ weights).log_density.sum() - 0.5 * np.sum(weights**2)


@pytest.mark.parametrize("likelihood", [Softmax(), Softmax((0.3, 0.0, -0.2)), MultivariateProbit()])
def test_the_mode_is_that_of_a_dense_optimiser(rows, likelihood):
    X, codes = rows
    features = whiten(make_basis(RBF(4.0, 1.0), X[:15]), X).features
    terms = PointTerms(likelihood, THREE)
    found = find_mode(held(features, codes, tiles=5), terms, n_functions=3, most_steps=1000, workers=2)
    assert found.converged
    dense = minimize(
        lambda v: -log_posterior(likelihood, features, codes, v.reshape(15, 3)),
        np.zeros(45),
        method="BFGS",
        options={"gtol": 1e-5},
    )
    assert found.value == pytest.approx(-dense.fun, abs=1e-6 * abs(dense.fun))
    np.testing.assert_allclose(features @ found.weights, features @ dense.x.reshape(15, 3), atol=5e-3)


@pytest.mark.parametrize("likelihood", [Softmax((0.3, 0.0, -0.2)), MultivariateProbit()])
def test_a_search_without_tolerance_ends_at_the_mode_itself(rows, likelihood):
    """Latent values to 1e-6: those of a dense optimiser that follows the gradient to its end."""
    X, codes = rows
    features = whiten(make_basis(RBF(4.0, 1.0), X[:15]), X).features
    terms = PointTerms(likelihood, THREE)
    found = find_mode(held(features, codes, tiles=5), terms, n_functions=3, most_steps=2000, tolerance=0.0)

    def objective(vector):
        weights = vector.reshape(15, 3)
        gradient = weights - features.T @ likelihood.mode_terms(codes, features @ weights).gradient
        return -log_posterior(likelihood, features, codes, weights), gradient.ravel()

    dense = minimize(objective, np.zeros(45), jac=True, method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(features @ found.weights, features @ dense.x.reshape(15, 3), atol=1e-6)
    assert found.value == pytest.approx(-dense.fun, rel=1e-12)


def test_sums_over_blocks_are_value_and_gradient(rows):
    X, codes = rows
    basis, likelihood = make_basis(RBF(4.0, 1.0), X[:15]), Softmax()
    u = np.random.default_rng(1).standard_normal((15, 3))
    step = ModeStep(basis, basis.whitening @ u, PointTerms(likelihood, THREE), EVERYBODY)
    parts = [
        step(begin, X[begin : begin + 50], codes[begin : begin + 50], None)[1][0] for begin in (0, 50, 100)
    ]
    total = merge_modes(merge_modes(parts[0], parts[1]), parts[2])
    features = whiten(basis, X).features
    prior = 0.5 * np.sum(u**2)
    assert total.log_density == pytest.approx(log_posterior(likelihood, features, codes, u) + prior)
    gradient = basis.whitening.T @ total.gradient - u
    direction = np.random.default_rng(2).standard_normal(u.shape)
    slope = derivative(lambda t: log_posterior(likelihood, features, codes, u + t * direction), 1e-4)
    assert np.sum(gradient * direction) == pytest.approx(slope, rel=1e-6)


def test_rows_of_no_weight_say_nothing(rows):
    X, codes = rows
    basis = make_basis(RBF(4.0, 1.0), X[:15])
    weights = basis.whitening @ np.ones((15, 3))
    wrong = codes.copy()
    wrong[10:20] = (codes[10:20] + 1) % 3
    without = RowWeights(np.arange(10, 20))
    terms = PointTerms(Softmax(), THREE)
    one, other = (ModeStep(basis, weights, terms, without)(0, X, y, None)[1][0] for y in (codes, wrong))
    assert one.log_density == other.log_density
    np.testing.assert_array_equal(one.gradient, other.gradient)
    [parts] = zip(
        *(
            HoldStep(basis, without)(at, X[at:end], codes[at:end], None)[1]
            for at, end in ((0, 10), (10, 20), (20, 120))
        ),
        strict=True,
    )
    rows = merge_held(merge_held(parts[0], parts[1]), parts[2])
    np.testing.assert_array_equal(
        np.concatenate([part.encoded for part in rows]), np.delete(codes, np.s_[10:20])
    )


def test_scaled_coordinates_make_the_problem_round(rows):
    X, codes = rows
    features = whiten(make_basis(RBF(50.0, 1.0), X[:15]), X).features
    rows, terms = held(features, codes, tiles=3), PointTerms(Softmax(), THREE)
    found = find_mode(rows, terms, n_functions=3)
    latent = features @ found.weights
    scale = mode_scale(rows, terms, found.weights)
    curvature = Softmax().mode_terms(codes, latent).curvature

    def condition(transform):
        by_class = [
            transform.T @ (np.eye(15) + (features.T * curvature[:, c]) @ features) @ transform
            for c in range(3)
        ]
        return max(np.linalg.cond(matrix) for matrix in by_class)

    assert condition(scale) < 0.2 * condition(np.eye(15))


@pytest.mark.parametrize(("single", "joint"), [(Logit(0.3), Softmax((0.0, 0.3))), (Probit(0.0), None)])
def test_two_classes_have_one_function(rows, single, joint):
    X, codes = rows
    codes = (codes > 0).astype(float)
    features = whiten(make_basis(RBF(4.0, 1.0), X[:15]), X).features
    terms = PointTerms(single, TWO)
    start = find_mode(held(features[:40], codes[:40]), terms, n_functions=1).weights
    scale = mode_scale(held(features, codes), terms, start)
    found = find_mode(held(features, codes), terms, n_functions=1, start=start, scale=scale, tolerance=1e-13)
    slopes = single.mode_terms(2 * codes - 1, features @ found.weights).gradient
    np.testing.assert_allclose(features.T @ slopes, found.weights, atol=1e-4)
    if joint is not None:
        # f₁ − f₀ of two functions has twice the variance of either.
        two = find_mode(
            held(features, codes), PointTerms(joint, TWO), n_functions=2, variance=0.5, tolerance=1e-13
        )
        np.testing.assert_allclose(two.weights[:, 1] - two.weights[:, 0], found.weights[:, 0], atol=1e-3)


def test_the_evidence_of_labels_and_its_gradient(rows):
    X, codes = rows
    labels = np.eye(3)[codes.astype(int)]
    labels -= labels.mean(axis=0)
    kernel, noise = RBF(0.5, (1.0, 2.0)) + Linear(0.1), 0.2

    def dense(vector):
        fitted = kernel.with_log_parameters(vector[:-1])
        covariance = fitted.gram(X) + np.exp(vector[-1]) * np.eye(len(X))
        _, log_determinant = np.linalg.slogdet(2.0 * np.pi * covariance)
        return -0.5 * np.sum(labels * np.linalg.solve(covariance, labels)) - 1.5 * log_determinant

    at = np.append(kernel.log_parameters, np.log(noise))
    found = label_evidence(kernel, Gaussian(noise), X, labels)
    assert found.value == pytest.approx(dense(at), abs=1e-8)
    gradient = np.append(found.kernel_gradient, found.likelihood_gradient)
    slopes = [derivative(lambda t, e=e: dense(at + t * e), 1e-4) for e in np.eye(len(at))]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6)


REAL = RealTargets(0.0, 1.0)


def head_posterior(likelihood, targets, features, residual_variance, approximation, vector):
    """The plain formula: residual variance is integrated over, row by row, under the power; prior of u."""
    power, residual = approximation.power, approximation.residual
    log_z = likelihood.tilted_moments(
        targets, features @ vector, residual * residual_variance, power=power
    ).log_z
    return log_z.sum() / power - 0.5 * vector @ vector


HEADS = [Poisson(0.2), StudentT(0.3, 4.0), Laplace(0.5), Ordinal(3, (-0.5, 0.5)), Probit(0.1)]
APPROXIMATIONS = [Approximation(1.0, 1.0), Approximation(1.0, 0.5), Approximation(0.0)]
# Left out: the kink of Laplace without residual variance, at which no gradient leads to the top; and powers
# of ordinal targets, which take seconds.
LEFT_OUT = [(HEADS[2], APPROXIMATIONS[2]), (HEADS[3], APPROXIMATIONS[1])]
SMOOTH = [pair for pair in product(HEADS, APPROXIMATIONS) if pair not in LEFT_OUT]


@pytest.mark.parametrize(("likelihood", "approximation"), SMOOTH, ids=repr)
def test_the_mode_of_one_head_leaves_residual_variance_to_the_likelihood(rows, likelihood, approximation):
    X, codes = rows
    targets = THREE if isinstance(likelihood, Probit) else REAL
    encoded = codes - 1.0 + 0.1 * X[:, 1] if isinstance(likelihood, StudentT | Laplace) else codes
    whitened = whiten(make_basis(RBF(2.0, 1.0), X[:15]), X)
    tiles = [slice(0, 70), slice(70, 120)]
    held_rows = [
        HeldRows(whitened.features[t], encoded[t], np.ones(len(encoded[t])), whitened.residual_variance[t])
        for t in tiles
    ]
    terms = HeadTerms(likelihood, targets, 0, approximation)
    found = find_mode(held_rows, terms, n_functions=1, most_steps=1000, tolerance=1e-14)
    own = head_targets(targets, encoded, 0)
    posterior = partial(head_posterior, likelihood, own, *whitened, approximation)
    dense = minimize(lambda v: -posterior(v), np.zeros(15), method="BFGS", options={"gtol": 1e-4})
    assert found.value == pytest.approx(posterior(found.weights[:, 0]), rel=1e-9)
    assert found.value >= -dense.fun - 1e-6 * abs(dense.fun)
    assert np.all(
        terms(encoded, whitened.features @ found.weights, whitened.residual_variance).curvature >= 0.0
    )


def test_a_mode_of_a_likelihood_that_is_not_concave_is_uphill_from_its_start(rows):
    X, codes = rows
    far = codes - 1.0
    far[::7] += 50.0
    whitened = whiten(make_basis(RBF(2.0, 1.0), X[:15]), X)
    terms = HeadTerms(StudentT(0.1, 3.0), REAL, 0, Approximation())
    held_rows = [HeldRows(whitened.features, far, np.ones(len(far)), whitened.residual_variance)]
    for start in (np.zeros((15, 1)), 30.0 * np.ones((15, 1))):
        found = find_mode(held_rows, terms, n_functions=1, start=start, most_steps=30, tolerance=1e-4)
        at_start = terms(far, whitened.features @ start, whitened.residual_variance).log_density.sum()
        assert np.isfinite(found.value)
        assert found.value >= at_start - 0.5 * np.sum(start**2)


def test_rows_to_16_bits_have_the_same_mode_to_the_digits_that_they_keep(rows):
    X, codes = rows
    features = whiten(make_basis(RBF(9.0, 1.0), X[:15]), X).features.astype(np.float32)
    features[3] = 0.0
    exact = held(features, codes, tiles=3)
    packed = [tile.packed() for tile in exact]
    assert all(tile.features.dtype == np.int16 and tile.dtype == np.float32 for tile in packed)
    error = np.abs(np.concatenate([tile.whitened for tile in packed]) - features)
    assert np.all(error <= 2e-5 * np.abs(features).max(axis=1, keepdims=True))
    terms, settings = PointTerms(Softmax(), THREE), {"n_functions": 3, "most_steps": 500}
    one, other = (find_mode(tiles, terms, **settings) for tiles in (exact, packed))
    assert one.value == pytest.approx(other.value, rel=1e-4)
    np.testing.assert_allclose(features @ one.weights, features @ other.weights, atol=0.02)
    assert mode_scale(packed, terms, one.weights) == pytest.approx(
        mode_scale(exact, terms, one.weights), abs=1e-3
    )
