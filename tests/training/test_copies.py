"""Where nearly all rows are copies, each different row is learned once, with weights."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp
from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.data import open_rows
from streamgp.passes.candidates import Pool
from streamgp.settings import fit_settings
from streamgp.training.copies import copies
from streamgp.training.fit import settled_by_trial


def different(generator, n=40, real=False):
    X = generator.standard_normal((n, 2))
    return X, X[:, 0] + 0.1 * generator.standard_normal(n) if real else np.where(X[:, 0] > 0, "yes", "no")


def pool_of(X, y):
    n = len(y)
    return Pool(np.arange(n), X, y, np.zeros(n), np.zeros((n, 0)))


def test_equal_rows_have_the_same_number():
    X = np.array([[1.0, 0.0], [2.0, 1.0], [1.0, -0.0], [1.0, 1.0], [2.0, 1.0]], np.float32)
    group = copies(pool_of(X, np.array([0.0, 1.0, 0.0, 1.0, 1.0])))
    assert group[0] == group[2]
    assert group[1] == group[4]
    assert len(set(group)) == 3
    assert copies(pool_of(X, np.array([0.0, 1.0, 1.0, 1.0, 1.0]))) is None


@pytest.mark.parametrize("real", [False, True])
def test_copies_are_the_same_as_weights(generator, real):
    X, y = different(generator, real=real)
    times = generator.integers(2, 6, size=40)
    order = generator.permutation(times.sum())
    many = tuple(np.repeat(values, times, axis=0)[order] for values in (X, y))
    kind = StreamGPRegressor if real else StreamGPClassifier
    copied = kind(random_state=0).fit_stream(many)
    first = [int(np.flatnonzero((many[0] == row).all(axis=1))[0]) for row in X]
    kept = np.argsort(first)
    weighted = kind(random_state=0).fit_stream((X[kept], y[kept]), sample_weight=times[kept].astype(float))
    if real:
        np.testing.assert_allclose(copied.predict(X), weighted.predict(X), atol=1e-6)
    else:
        np.testing.assert_allclose(copied.predict_proba(X), weighted.predict_proba(X), atol=1e-6)
    assert set(copied.active_rows_.tolist()) <= set(first)
    assert copied.recipe_ == weighted.recipe_


def test_what_is_tuned_before_a_fit_has_no_weights_of_other_rows(generator):
    X, y = different(generator)
    rows = open_rows((np.repeat(X, 3, axis=0), np.repeat(y, 3)))
    given = fit_settings(StreamGPClassifier().get_params(deep=False), seed=0)
    assert settled_by_trial(rows, "auto", given)[0].sample_weight is None


def test_learning_by_heart_does_not_win_by_copies(generator):
    X, new = generator.standard_normal((2, 40, 3))
    y, later = generator.integers(2, size=(2, 40))
    model = streamgp.fit_stream((np.repeat(X, 20, axis=0), np.repeat(y, 20)), random_state=0)
    score = model.evaluate_stream((new, later))
    assert score.log_loss < score.baseline.log_loss + 0.1


def test_few_categories_and_copies_that_differ_stay_as_they_are(generator):
    X = (generator.random((300, 3)) > 0.5).astype(float)
    for y in ((X.sum(axis=1) > 1).astype(int), generator.integers(2, size=300)):
        model = streamgp.fit_stream((X, y), random_state=0)
        assert model.score(X, y) > 0.5
        assert "different_rows" not in model.about_
