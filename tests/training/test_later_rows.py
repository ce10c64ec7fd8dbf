"""``validation="last"``: rows in order of time, and a model that is to predict later ones."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp
from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.data import open_rows
from streamgp.errors import ParameterError
from streamgp.settings import fit_settings
from streamgp.training.fit_memory import LAST_SHARE, MOST_LAST, plan_fit, with_rows_named


def days(seed, rows, later):
    """Every day shifts the chances of all its rows; the time and what matters are features."""
    generator = np.random.default_rng(seed)
    day = np.arange(rows + later) // 20
    X = generator.standard_normal((rows + later, 2))
    latent = 1.5 * X[:, 0] + 2.0 * generator.standard_normal(day.max() + 1)[day]
    y = (latent + 0.5 * generator.logistic(size=len(day)) > 0).astype(int)
    X = np.column_stack([np.arange(len(day)) / rows, X])
    return (X[:rows], y[:rows]), (X[rows:], y[rows:])


@pytest.mark.parametrize("kind", [StreamGPClassifier, StreamGPRegressor])
def test_last_means_the_numbers_of_the_last_twentieth(kind):
    (X, y), _ = days(0, 400, 50)

    def fitted(validation):
        model = kind(20, selection="random", inference="fitc", random_state=0, validation=validation)
        return model.fit(X, y)

    named, last = fitted(np.arange(380, 400)), fitted("last")
    np.testing.assert_array_equal(named.predict_latent(X), last.predict_latent(X))
    assert last.get_params()["validation"] == "last"


@pytest.mark.parametrize(("rows", "count"), [(3, 1), (400, 20), (10**9, MOST_LAST)])
def test_as_many_as_their_share(rows, count):
    settings = fit_settings(StreamGPClassifier(validation="last").get_params(deep=False), 0)
    named = with_rows_named(settings, rows).validation
    assert (len(named), named[-1]) == (count, rows - 1)
    assert count <= max(1, LAST_SHARE * rows)


def test_the_plan_counts_their_numbers():
    (X, y), _ = days(0, 400, 50)
    parameters = StreamGPClassifier(20, selection="random", inference="fitc").get_params(deep=False)
    plans = [
        plan_fit(open_rows((X, y)), fit_settings(parameters | {"validation": validation}, 0))
        for validation in (None, "last", np.arange(380, 400))
    ]
    assert plans[1].total_bytes == plans[2].total_bytes > plans[0].total_bytes


@pytest.mark.filterwarnings("ignore::streamgp.errors.NothingLearnedWarning")  # an unlucky last day may say so
def test_later_rows_choose_what_holds_for_later_rows():
    train, later = days(0, 1600, 400)
    losses = {}
    for validation in (None, "last"):
        model = streamgp.fit_stream(
            train,
            n_active=100,
            selection="kmeans",
            inference="fitc",
            multiclass="joint",
            validation=validation,
            random_state=0,
        )
        losses[validation] = model.evaluate_stream(later).log_loss
    # What is known of a day is of no use after it, and rows drawn at random cannot tell.
    assert losses["last"] < losses[None] - 0.1


def test_another_word_is_refused():
    (X, y), _ = days(0, 100, 50)
    with pytest.raises(ParameterError, match='"last"'):
        StreamGPClassifier(validation="first").fit(X, y)
