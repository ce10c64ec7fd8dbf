"""Learning again from rows as near as the store has them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.data import open_rows
from streamgp.kernels import RBF, Matern12, Matern32, Matern52
from streamgp.passes import PassSettings, run_pass
from streamgp.passes.neighbours import FindNearRows
from streamgp.settings import fit_settings
from streamgp.training.fit import begin
from streamgp.training.learn import local_near
from streamgp.training.learn.local_near import learn_near
from streamgp.training.learn.local_rows import Course
from streamgp.training.stage import run


@pytest.mark.parametrize("rows_per_block", [7, 100])
def test_near_rows_are_those_of_all_distances(make_store, rows_per_block):
    generator = np.random.default_rng(0)
    X = generator.integers(0, 5, (100, 3)).astype(float)  # many are equally near
    y = generator.standard_normal(100)
    points, scales = X[:2] + 0.5, np.array([[1.0, 1.0, 1.0], [0.1, 1.0, 10.0]])
    visitor = FindNearRows(points, scales, 10, np.array([3, 50]))
    store = make_store(X, y, chunk_rows=30)
    found = run_pass(open_rows(store), visitor, PassSettings(rows_per_block, 2))
    for near, point, scale in zip(found, points, scales, strict=True):
        squares = (((X - point) / scale) ** 2).sum(axis=1)
        squares[[3, 50]] = np.inf
        wanted = np.sort(np.argsort(squares, kind="stable")[:10])
        np.testing.assert_array_equal(near.numbers, wanted)
        np.testing.assert_array_equal(near.features, X[wanted])
        np.testing.assert_array_equal(near.targets, y[wanted])


def learn(X, y, kernel, *, chooses_family=False):
    """The kernel after the stage, and what the history says about it."""
    kind = StreamGPRegressor if y.dtype.kind == "f" else StreamGPClassifier
    estimator = kind(30, selection="random", inference="fitc", validation=False, standardize=False)
    settings = fit_settings(estimator.get_params(deep=False), seed=0)
    task = "regression" if y.dtype.kind == "f" else "classification"
    problem, _, draft = begin(open_rows((X, y)), task, settings)
    draft, [entry] = run(
        (learn_near(chooses_family=chooses_family),), problem, replace(draft, kernel=kernel), None
    )
    return draft.kernel, entry


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(local_near, "LEAST_ROWS", 2000)
    monkeypatch.setattr(local_near, "ROUNDS", (4, 4))
    monkeypatch.setattr(local_near, "JUDGES", 4)
    monkeypatch.setattr(local_near, "FOR_CLASSES", Course(4, 80, 1, 80, 0, 8))
    monkeypatch.setattr(local_near, "FOR_REAL_TARGETS", Course(4, 80, 1, 80, 20, 8))


@pytest.mark.parametrize("real", [False, True])
def test_what_only_near_rows_show_is_found(small, real):
    generator = np.random.default_rng(0)
    X = generator.uniform(-1.7, 1.7, (6000, 2))
    wave = np.sin(12.0 * X[:, 0])
    y = wave + 0.1 * generator.standard_normal(6000) if real else (wave > 0).astype(int)
    far = Matern32(1.0, (5.0, 0.3))  # as if the first feature varied slowly, and the second one did not
    kernel, entry = learn(X, y, far)
    scores = [score for _, score in entry["tried"]]
    assert scores[0] < max(scores)
    assert kernel.lengthscale[0] < 1.0 < kernel.lengthscale[1] / kernel.lengthscale[0]
    assert repr(kernel) == entry["kernel"]


def test_few_rows_are_learned_from_once(small):
    X = np.random.default_rng(0).standard_normal((500, 2))
    kernel, entry = learn(X, (X[:, 0] > 0).astype(int), Matern32(1.0, (1.0, 1.0)))
    assert kernel == Matern32(1.0, (1.0, 1.0))
    assert "tried" not in entry


def test_what_is_smooth_between_near_rows_gets_a_smooth_kernel(small):
    generator = np.random.default_rng(0)
    X = generator.uniform(-1.7, 1.7, (6000, 2))
    y = np.sin(6.0 * X[:, 0]) + np.cos(4.0 * X[:, 1]) + 0.05 * generator.standard_normal(6000)
    rough = Matern12(1.0, (1.0, 1.0))
    kept, _ = learn(X, y, rough)
    assert isinstance(kept, Matern12)  # a family that was asked for
    kernel, entry = learn(X, y, rough, chooses_family=True)
    assert isinstance(kernel, Matern52 | RBF)
    scores = dict(entry["tried"])
    assert scores[repr(kernel)] == max(scores.values())
