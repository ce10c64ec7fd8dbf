"""Counts, ordered categories and targets with outliers, end to end, with every inference."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import streamgp
from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.errors import ParameterError, TargetError
from streamgp.likelihoods import (
    Custom,
    Gaussian,
    Laplace,
    Ordinal,
    Poisson,
    Probit,
    StudentT,
    register_likelihood,
)
from streamgp.settings import FITC

INFERENCES = ["adf", "ep", FITC(residual=1.0, power=1.0)]
every_inference = pytest.mark.parametrize("inference", INFERENCES, ids=["adf", "ep", "fitc"])


def rows(seed=0, count=600):
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2, 2, (count, 2))
    return generator, X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]


def fitted(X, y, likelihood, inference, **parameters):
    settings = {"n_active": 30, "selection": "ivm", "random_state": 0, **parameters}
    return StreamGPRegressor(likelihood=likelihood, inference=inference, **settings).fit(X[:400], y[:400])


@every_inference
def test_counts(inference):
    generator, X, f = rows()
    rate = np.exp(1.5 + f)
    y = generator.poisson(rate)
    model = fitted(X, y, Poisson(), inference)
    mean, deviation = model.predict(X[400:], return_std=True)
    assert np.mean((mean - rate[400:]) ** 2) < 0.1 * np.var(rate[400:])
    # The latent function has the constant that counts have: nothing was shifted or scaled.
    assert 0.5 < model.likelihood_.bias < 2.5
    score = model.evaluate_stream((X[400:], y[400:]))
    assert score.log_density > stats.poisson.logpmf(y[400:], y[:400].mean()).mean() + 0.2
    assert np.all(deviation**2 > 0.99 * mean)


@pytest.mark.parametrize(
    ("likelihood", "inference"),
    [*((StudentT(), inference) for inference in INFERENCES), (Laplace(), "adf"), (Laplace(), INFERENCES[2])],
    ids=str,
)
def test_outliers(likelihood, inference):
    generator, X, f = rows(1)
    y = 100.0 + 10.0 * (f + 0.1 * generator.standard_normal(600))
    far = generator.random(600) < 0.08
    y[far] += 10.0 * generator.normal(0, 8, far.sum())
    learned = likelihood == StudentT() or inference == "adf"
    model = fitted(X, y, likelihood, inference, learn_hyperparameters=learned)
    assert np.std(model.predict(X[400:]) - 100.0 - 10.0 * f[400:]) < 2.5
    if likelihood == StudentT() and inference == "adf":
        plain = fitted(X, y, Gaussian(), inference)
        assert np.std(plain.predict(X[400:]) - 100.0 - 10.0 * f[400:]) > 5.0
    if likelihood == StudentT() and isinstance(inference, FITC):
        # The noise is learned without what outliers add to it.
        assert model.likelihood_.scale * np.std(y[:400]) < 3.0


@every_inference
def test_ordered_categories(inference):
    generator, X, f = rows(2)
    y = np.digitize(2 * f + 0.5 * generator.standard_normal(600), [-1.5, 0.0, 2.0])
    model = fitted(X, y, Ordinal(4), inference)
    probabilities = model.predict_proba(X[400:])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    shares = np.bincount(y[:400], minlength=4) / 400
    log_density = np.log(probabilities[np.arange(200), y[400:]]).mean()
    assert log_density > np.log(shares[y[400:]]).mean() + 0.4
    assert np.mean(probabilities.argmax(axis=1) == y[400:]) > 0.65
    np.testing.assert_allclose(model.predict(X[400:]), probabilities @ np.arange(4), rtol=1e-9)
    assert model.evaluate_stream((X[400:], y[400:])).log_density == pytest.approx(log_density, rel=1e-6)


def test_a_custom_likelihood_sees_the_targets_as_they_are(tmp_path):
    generator, X, f = rows(3)
    y = generator.poisson(np.exp(1.0 + f))
    seen = set()

    def log_density(targets, latent):
        seen.update(np.unique(targets))
        return targets * latent - np.exp(latent) - gammaln(targets + 1)

    custom = Custom(log_density, "counts", target_mean=np.exp, target_variance=np.exp)
    model = fitted(X, y, custom, "adf", n_active=10, learn_hyperparameters=False)
    assert seen <= set(range(y.max() + 1))
    assert model.likelihood_.bias == pytest.approx(np.log(y[:400].mean()), abs=0.1)
    exact = fitted(X, y, Poisson(), "adf", n_active=10, learn_hyperparameters=False)
    np.testing.assert_allclose(model.predict(X[:50]), exact.predict(X[:50]), rtol=0.05)


def test_models_of_counts_can_be_saved(tmp_path):
    generator, X, f = rows(4)
    y = generator.poisson(np.exp(1.0 + f))
    model = fitted(X, y, Poisson(), "adf", n_active=10, learn_hyperparameters=False)
    model.save(tmp_path / "model.zip")
    again = streamgp.load(tmp_path / "model.zip")
    assert again.likelihood_ == model.likelihood_
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(TargetError, match=r"found target -1, but the likelihood is for whole numbers from 0"):
        again.evaluate_stream((X, y - y.max() - 1.0 + y.max()))


@pytest.mark.parametrize(
    ("likelihood", "y", "found"),
    [(Poisson(), [0.0, 1.0, 2.5], "2.5"), (Poisson(), [0, 3, -2], "-2"), (Ordinal(3), [0, 1, 3], "3")],
)
def test_targets_that_a_likelihood_is_not_for_are_refused(likelihood, y, found):
    X = np.random.default_rng(0).standard_normal((60, 2))
    with pytest.raises(TargetError, match=f"found target {found}, but"):
        StreamGPRegressor(n_active=5, likelihood=likelihood).fit(X, np.tile(y, 20))


def test_a_likelihood_decides_whether_whole_numbers_are_classes():
    generator, X, f = rows(5)
    y = generator.poisson(np.exp(f))
    parameters = {"n_active": 10, "learn_hyperparameters": False}
    counts = streamgp.fit_stream((X, y), likelihood=Poisson(), **parameters)
    assert isinstance(counts, StreamGPRegressor)
    assert isinstance(streamgp.fit_stream((X, y > 1), **parameters), StreamGPClassifier)
    with pytest.raises(
        ParameterError, match=r"Probit\(bias=0.0\) is for classes, but the task is regression"
    ):
        StreamGPRegressor(likelihood=Probit(), **parameters).fit(X, f)
    with pytest.raises(ParameterError, match=r"is for numbers, but the task is classification"):
        StreamGPClassifier(likelihood=Gaussian(), **parameters).fit(X, y > 1)


def test_a_likelihood_without_target_moments_can_be_saved(tmp_path):
    generator, X, f = rows()
    likelihood = Custom(lambda y, latent: y * latent - np.exp(latent) - gammaln(y + 1), "counts without mean")
    model = fitted(X, generator.poisson(np.exp(f)), likelihood, "adf", n_active=10)
    register_likelihood("counts without mean", likelihood)
    model.save(tmp_path / "model.zip")
    again = streamgp.load(tmp_path / "model.zip")
    np.testing.assert_array_equal(again.predict_latent(X[:5])[0], model.predict_latent(X[:5])[0])
    with pytest.raises(ParameterError, match="target_mean"):
        again.predict(X[:5])
