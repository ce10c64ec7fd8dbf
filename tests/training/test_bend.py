"""Columns of long tails are bent where rows that judge prefer it; the noise of a regression gets tails."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit

import streamgp
from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.data import ClassTargets, RealTargets, Standardizer
from streamgp.errors import ModelFileError
from streamgp.passes.candidates import Pool
from streamgp.posterior.believed import _check_bend
from streamgp.training.bend import choose_bend, long_tailed
from streamgp.training.contest import Part


def long_columns(generator, rows):
    """Two classes by the logarithm of columns whose largest values are thousands of times the median."""
    logs = generator.standard_normal((rows, 3))
    y = (generator.random(rows) < expit(3 * np.sin(2 * logs[:, 0]) + 2 * logs[:, 1])).astype(int)
    return np.exp(2.5 * logs), y


def bend_of(model):
    return model.history_[0]["bend"]


def test_only_columns_of_many_values_and_large_kurtosis_have_long_tails(generator):
    columns = [
        generator.standard_normal(2000),
        np.exp(2 * generator.standard_normal(2000)),
        generator.random(2000) < 0.01,  # rare, but of two values
        np.zeros(2000),
    ]
    assert long_tailed(np.column_stack(columns)) == [1]


def test_the_default_bends_long_tails_and_says_so(generator, tmp_path):
    X, y = long_columns(generator, 1500)
    train, test = (X[:1000], y[:1000]), (X[1000:], y[1000:])
    bent = StreamGPClassifier(random_state=0).fit_stream(train)
    straight = StreamGPClassifier(random_state=0, standardize=True).fit_stream(train)
    assert bend_of(bent)["columns"] == [0, 1, 2]
    assert bend_of(straight) is None
    assert "long tails" in bent.recipe_
    assert bent.evaluate_stream(test).log_loss < straight.evaluate_stream(test).log_loss - 0.02
    bent.save(tmp_path / "model.zip")
    again = streamgp.load(tmp_path / "model.zip")
    np.testing.assert_array_equal(again.predict_proba(test[0]), bent.predict_proba(test[0]))
    np.testing.assert_allclose(again.active_inputs_, bent.active_inputs_)


@pytest.mark.parametrize("damage", [{"columns": [7]}, {"width": [0.0]}, {"centre": []}, {"scale": ["1"]}])
def test_a_bend_that_cannot_be_is_refused(damage):
    whole = {"columns": [1], "centre": [0.0], "width": [1.0], "shift": [0.0], "scale": [1.0]}
    _check_bend(whole, 3)
    with pytest.raises(ModelFileError):
        _check_bend(whole | damage, 3)


def test_normal_columns_stay_straight(generator):
    X = generator.standard_normal((800, 3))
    model = StreamGPClassifier(random_state=0).fit_stream((X, (X[:, 0] > 0).astype(int)))
    assert bend_of(model) is None


def noisy(generator, rows, noise):
    X = generator.uniform(-2, 2, (rows, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * noise


@pytest.mark.parametrize("named", [{}, {"inference": "fitc", "n_active": 30, "selection": "kmeans"}])
def test_noise_of_long_tails_is_told_by_a_density_with_such(generator, named):
    tails, normal = generator.standard_t(2.5, 2500), generator.standard_normal(2500)
    for noise, is_long in ((tails, True), (normal, False)):
        X, y = noisy(generator, 2500, noise)
        model = StreamGPRegressor(random_state=0, **named)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit_stream((X[:2000], y[:2000]))
        likelihood = model.model_.predictive.likelihood
        assert (likelihood.degrees is not None) == is_long
        score = model.evaluate_stream((X[2000:], y[2000:]))
        mean, deviation = model.predict(X[2000:], return_std=True)
        as_normal = 0.5 * np.log(2 * np.pi * deviation**2) + 0.5 * ((y[2000:] - mean) / deviation) ** 2
        if is_long:
            assert score.log_loss < as_normal.mean() - 0.05
        else:
            np.testing.assert_allclose(score.log_loss, as_normal.mean(), rtol=1e-6)


@pytest.mark.parametrize("targets", [ClassTargets(np.array([0, 1])), RealTargets(0.0, 1.0)])
def test_learners_of_one_target_leave_columns_as_they_are(generator, targets):
    # Of a rare class all rows may be among those that the regression does not see.
    X = np.exp(2.5 * generator.standard_normal((1000, 2)))
    y, keys = np.zeros(1000), np.linspace(0, 1, 1000)
    y[-5:] = 1.0
    pool = Pool(np.arange(1000), X, y, keys, np.zeros((1000, 0)))
    prepared = SimpleNamespace(standardizer=Standardizer(X.mean(axis=0), X.std(axis=0)), targets=targets)
    assert choose_bend([Part(pool, pool)], prepared) is None
