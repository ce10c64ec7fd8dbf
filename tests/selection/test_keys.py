"""Bounds that spare a pass from holding rows: surely reached by those that are wanted."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp import StreamGPClassifier
from streamgp.kernels import RBF
from streamgp.selection import score_bound
from streamgp.training.select import grow


@pytest.mark.parametrize("seed", range(20))
def test_as_many_rows_as_wanted_reach_the_bound(seed):
    generator = np.random.default_rng(seed)
    scores = generator.exponential(size=100_000) ** 2
    is_rare = generator.random(len(scores)) < 0.02
    # Rare rows were drawn ten times as often, so each stands for a tenth as many.
    chance = np.where(is_rare, 0.1, 0.01)
    drawn = generator.random(len(scores)) < chance
    bound = score_bound(scores[drawn], 1.0 / chance[drawn], 8000)
    reached = np.count_nonzero(scores >= bound)
    assert 8000 <= reached < 30_000


def test_where_too_little_is_known_there_is_no_bound():
    assert score_bound(np.arange(10.0), np.ones(10), 5) == -np.inf
    assert score_bound(np.zeros(0), np.zeros(0), 5) == -np.inf
    scores = np.where(np.arange(1000) < 100, 1.0, -np.inf)
    assert score_bound(scores, np.ones(1000), 500) == -np.inf


def test_candidates_are_the_same_with_and_without_a_bound(generator, make_store, monkeypatch):
    X = generator.standard_normal((8000, 2))
    store = make_store(X, X[:, 0] * X[:, 1] > 0.2 * generator.standard_normal(8000), chunk_rows=500)
    settings = {"selection": "ivm", "kernel": RBF(2.0, 1.0), "learn_hyperparameters": False}

    def fitted():
        return StreamGPClassifier(40, memory_budget="1MiB", random_state=0, **settings).fit_stream(store)

    plain, bounds = fitted(), []
    monkeypatch.setattr(grow, "BOUND_ROWS", 500)

    def noted(*given, original=grow.score_bound):
        bounds.append(original(*given))
        return bounds[-1]

    monkeypatch.setattr(grow, "score_bound", noted)
    found = fitted()
    assert max(bounds) > 0.0
    np.testing.assert_array_equal(found.active_rows_, plain.active_rows_)
    np.testing.assert_array_equal(found.predict_proba(X[:100]), plain.predict_proba(X[:100]))
