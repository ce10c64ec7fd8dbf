"""The multi-way IVM: against the book, with hot rows, and end to end."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp
from streamgp import StreamGPClassifier
from streamgp.errors import ParameterError
from streamgp.inference.active_set import refresh_factor
from streamgp.kernels import RBF
from streamgp.likelihoods import MultivariateProbit, Softmax
from streamgp.selection import FPASS, IVM
from streamgp.settings import ADF
from streamgp.training.multiway import grow_multiway
from tests.reference import kernels_dense, multiway_dense

KERNEL = RBF(4.0, 1.0)


def sectors(rows, seed=0, classes=3):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((rows, 2))
    angle = np.arctan2(*X.T) + 0.15 * generator.standard_normal(rows)
    return X, np.floor((angle + np.pi) / (2 * np.pi) * classes).astype(np.int64) % classes


@pytest.mark.parametrize(
    ("likelihood", "noise", "rows", "until", "weights"),
    [
        (MultivariateProbit(), "normal", 18, 12, None),
        (Softmax(), "gumbel", 18, 12, None),
        (MultivariateProbit(), "normal", 9, 6, 0.4 + np.arange(9) % 3),
    ],
)
def test_active_sets_are_those_of_the_book(likelihood, noise, rows, until, weights):
    X, y = sectors(rows)
    generator, arguments = np.random.default_rng(0), (likelihood, np.arange(rows), X, y, 3, until)
    found = grow_multiway(IVM(hot=None, delay=4), KERNEL, *arguments, generator, weights)
    firsts = [(int(active.rows[0]), c) for c, active in enumerate(found) if active.count]
    gram = kernels_dense.gram(KERNEL, X)
    matches = []
    for first in firsts:  # one of these was the first pick of all
        expected, _ = multiway_dense.select(gram, y, noise, 3, until, first, weights)
        matches.append([active.rows[: active.count].tolist() for active in found] == expected)
    assert any(matches)


def test_a_row_can_be_active_for_several_classes():
    X, y = sectors(30)
    found = grow_multiway(
        IVM(hot=None), KERNEL, MultivariateProbit(), np.arange(30), X, y, 3, 60, np.random.default_rng(0)
    )
    members = np.concatenate([active.rows[: active.count] for active in found])
    assert len(members) == 60
    assert len(np.unique(members)) < 60


def test_hot_rows_leave_a_consistent_posterior():
    X, y = sectors(400)
    arguments = (KERNEL, MultivariateProbit(), np.arange(400), X, y, 3, 60)
    for active in grow_multiway(IVM(hot=100, delay=8), *arguments, np.random.default_rng(0)):
        afresh = active.with_capacity(active.count)
        refresh_factor(afresh, KERNEL)
        d = active.count
        assert d == len(np.unique(active.rows[:d]))
        np.testing.assert_allclose(active.factor[:d, :d], afresh.factor, atol=1e-9)
        np.testing.assert_allclose(active.projected_targets[:d], afresh.projected_targets, atol=1e-8)


@pytest.mark.parametrize("likelihood", [None, MultivariateProbit()], ids=["softmax", "probit"])
def test_a_fit_knows_the_classes(make_store, likelihood, tmp_path):
    X, y = sectors(400)
    store = make_store(X, y, chunk_rows=90)
    model = streamgp.fit_stream(
        store,
        n_active=20,
        selection="ivm",
        multiclass="joint",
        likelihood=likelihood,
        kernel=KERNEL,
        learn_hyperparameters=False,
        random_state=0,
    )
    assert model.recipe_ == "select: multi-way ivm"
    assert len(model.active_rows_) == 60
    assert type(model.likelihood_[0]) is (Softmax if likelihood is None else MultivariateProbit)
    X_new, y_new = sectors(300, seed=1)
    probabilities = model.predict_proba(X_new)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert model.score(X_new, y_new) > 0.8
    assert -np.log(probabilities[np.arange(300), y_new]).mean() < 0.7
    model.save(tmp_path / "model")
    np.testing.assert_allclose(streamgp.load(tmp_path / "model").predict_proba(X_new), probabilities)


def test_learning_comes_before():
    X, y = sectors(300)
    settings = {"selection": "ivm", "multiclass": "joint", "random_state": 0}
    model = StreamGPClassifier(15, **settings).fit(X, y)
    assert model.recipe_ == "learn: judged -> select: multi-way ivm"
    assert model.score(X, y) > 0.8
    other = StreamGPClassifier(15, learn_hyperparameters="constant", **settings).fit(X, y)
    assert other.recipe_.startswith("learn: start -> learn: criterion -> select: multi-way ivm")


def test_what_cannot_act_is_refused():
    X, y = sectors(100)
    with pytest.raises(ParameterError, match="three classes or more"):
        StreamGPClassifier(10, selection="ivm", multiclass="joint").fit(X, y > 0)
    with pytest.raises(ParameterError, match="calibrate=True"):
        StreamGPClassifier(10, selection="ivm", inference=ADF(calibrate=True), multiclass="joint").fit(X, y)
    with pytest.raises(ParameterError, match="multiclass='joint'"):
        StreamGPClassifier(10, selection=FPASS(), multiclass="joint").fit(X, y)
