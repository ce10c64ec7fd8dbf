"""The multi-way IVM: against the book, with hot rows, and end to end."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import streamgp
from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.errors import ParameterError
from streamgp.inference.active_set import refresh_factor
from streamgp.kernels import RBF, ClassKernels, Linear, Matern52, each_kernel
from streamgp.likelihoods import MultivariateProbit, Softmax
from streamgp.persistence import CheckpointFolder
from streamgp.selection import FPASS, IVM
from streamgp.settings import ADF
from streamgp.training.multiway import grow_multiway
from tests.reference import kernels_dense, multiway_dense

KERNEL = RBF(4.0, 1.0)
KERNELS = ClassKernels((RBF(4.0, 1.0), Matern52(9.0, (0.7, 1.5)), RBF(1.0, 2.0) + Linear(0.5)))


def sectors(rows, seed=0, classes=3):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((rows, 2))
    angle = np.arctan2(*X.T) + 0.15 * generator.standard_normal(rows)
    return X, np.floor((angle + np.pi) / (2 * np.pi) * classes).astype(np.int64) % classes


@pytest.mark.parametrize(
    ("kernel", "likelihood", "noise", "rows", "until", "weights"),
    [
        (KERNEL, MultivariateProbit(), "normal", 18, 12, None),
        (KERNEL, Softmax(), "gumbel", 18, 12, None),
        (KERNEL, MultivariateProbit(), "normal", 9, 6, 0.4 + np.arange(9) % 3),
        (KERNELS, MultivariateProbit(), "normal", 18, 12, None),
        (KERNELS, Softmax(), "gumbel", 18, 12, None),
    ],
)
def test_active_sets_are_those_of_the_book(kernel, likelihood, noise, rows, until, weights):
    X, y = sectors(rows)
    generator, arguments = np.random.default_rng(0), (likelihood, np.arange(rows), X, y, 3, until)
    found = grow_multiway(IVM(hot=None, delay=4), kernel, *arguments, generator, weights)
    firsts = [(int(active.rows[0]), c) for c, active in enumerate(found) if active.count]
    grams = [kernels_dense.gram(own, X) for own in each_kernel(kernel, 3)]
    matches = []
    for first in firsts:  # one of these was the first pick of all
        expected, _ = multiway_dense.select(grams, y, noise, until, first, weights)
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


@pytest.mark.parametrize("kernel", [KERNEL, KERNELS], ids=["shared", "own"])
def test_hot_rows_leave_a_consistent_posterior(kernel):
    X, y = sectors(400)
    arguments = (kernel, MultivariateProbit(), np.arange(400), X, y, 3, 60)
    grown = grow_multiway(IVM(hot=100, delay=8), *arguments, np.random.default_rng(0))
    for own, active in zip(each_kernel(kernel, 3), grown, strict=True):
        afresh = active.with_capacity(active.count)
        refresh_factor(afresh, own)
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


@pytest.mark.parametrize("likelihood", [None, Softmax(), MultivariateProbit()], ids=str)
def test_biases_are_those_of_the_shares_unless_given(likelihood):
    X, y = sectors(120)
    y = np.where(y == 1, np.arange(120) % 2, y)
    settings = SETTINGS | {"kernel": KERNEL, "learn_hyperparameters": False}
    [found] = StreamGPClassifier(5, likelihood=likelihood, **settings).fit(X, y).likelihood_
    ignorant = found.log_probabilities(np.zeros((1, 3)), np.zeros((1, 3)))[0]
    np.testing.assert_allclose(np.exp(ignorant), np.bincount(y) / 120, rtol=1e-5)
    given = type(found)(biases=(0.5, 0.0, 0.0))
    assert StreamGPClassifier(5, likelihood=given, **settings).fit(X, y).likelihood_ == (given,)


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


SETTINGS = {"selection": "ivm", "multiclass": "joint", "random_state": 0}


def test_a_kernel_for_each_class_predicts_by_the_book(tmp_path):
    X, y = sectors(40)
    kernels = list(KERNELS)
    settings = SETTINGS | {"likelihood": MultivariateProbit((0.0,) * 3), "standardize": False}
    model = StreamGPClassifier(
        8, selection=IVM(hot=None), kernel=kernels, learn_hyperparameters=False, **_without(settings)
    ).fit(X, y)
    assert model.kernel_ == KERNELS
    X_new, _ = sectors(60, seed=1)
    both = np.concatenate([X, X_new])
    mean, variance = model.predict_latent(X_new)
    starts = [*model.active_starts_, len(model.active_rows_)]
    for head, own in enumerate(kernels):
        # Sites are not kept: those of the book, if the class has the rows of the book in its order.
        rows = model.active_rows_[starts[head] : starts[head + 1]]
        np.testing.assert_allclose(model.active_inputs_[starts[head] : starts[head + 1]], X[rows])
        gram = kernels_dense.gram(own, both)
        assert np.all(variance[:, head] <= np.diag(gram)[40:] + 1e-9)
    firsts = [(int(model.active_rows_[start]), c) for c, start in enumerate(model.active_starts_)]
    grams = [kernels_dense.gram(own, X) for own in kernels]
    rows = [model.active_rows_[starts[c] : starts[c + 1]].tolist() for c in range(3)]
    found = (multiway_dense.select(grams, y, "normal", 24, first) for first in firsts)
    _, (book_mean, book_variance) = next(each for each in found if each[0] == rows)
    np.testing.assert_allclose(model.predict_latent(X)[0], book_mean, atol=1e-6)
    np.testing.assert_allclose(model.predict_latent(X)[1], book_variance, atol=1e-6)
    model.save(tmp_path / "model")
    again = streamgp.load(tmp_path / "model")
    assert again.kernel_ == model.kernel_
    assert again.get_params()["kernel"] == kernels
    np.testing.assert_array_equal(again.predict_latent(X_new)[0], mean)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict_proba(X_new), model.predict_proba(X_new)
    )


def _without(settings):
    return {name: value for name, value in settings.items() if name != "selection"}


def test_equal_kernels_for_all_classes_are_one_kernel():
    X, y = sectors(200)
    one = StreamGPClassifier(15, kernel=KERNEL, learn_hyperparameters=False, **SETTINGS).fit(X, y)
    each = StreamGPClassifier(15, kernel=[KERNEL] * 3, learn_hyperparameters=False, **SETTINGS).fit(X, y)
    np.testing.assert_array_equal(one.active_rows_, each.active_rows_)
    np.testing.assert_allclose(one.predict_proba(X), each.predict_proba(X), atol=1e-10)


def test_each_class_learns_its_own_kernel():
    # The first class is told by the first feature alone, the others by the second.
    generator = np.random.default_rng(0)
    X = generator.standard_normal((600, 2))
    y = np.where(X[:, 0] > 0.5, 0, np.where(np.sin(3 * X[:, 1]) > 0, 1, 2))
    start = RBF(10.0, (1.5, 1.5))
    settings = SETTINGS | {"kernel": [start] * 3, "learn_hyperparameters": "constant"}
    model = StreamGPClassifier(30, **settings).fit(X, y)
    assert model.recipe_ == "learn: each class -> select: multi-way ivm"
    lengthscales = np.array([kernel.lengthscale for kernel in model.kernel_])
    assert lengthscales[0, 1] > 2.0 * lengthscales[0, 0]
    assert lengthscales[1, 1] < lengthscales[0, 1]
    assert model.score(X, y) > 0.9


def test_lists_of_kernels_are_refused_elsewhere():
    X, y = sectors(100)
    for wrong in ({"multiclass": "per_class"}, {"selection": "kmeans"}):
        with pytest.raises(ParameterError, match="list of kernels"):
            StreamGPClassifier(10, kernel=[KERNEL] * 3, **SETTINGS | wrong).fit(X, y)
    with pytest.raises(ParameterError, match="list of kernels"):
        StreamGPClassifier(10, kernel=[KERNEL] * 3).fit(X, y)
    with pytest.raises(ParameterError, match="4 kernels for 3 classes"):
        StreamGPClassifier(10, kernel=[KERNEL] * 4, **SETTINGS).fit(X, y)
    with pytest.raises(ParameterError, match="'sigmoid' is not known"):
        StreamGPClassifier(10, kernel=[KERNEL, "sigmoid", KERNEL], **SETTINGS).fit(X, y)
    with pytest.raises(ParameterError, match="list of kernels"):
        StreamGPRegressor(10, kernel=[KERNEL] * 3).fit(X, X[:, 0])


def test_learning_of_each_class_is_resumed_and_streamed(make_store, tmp_path, monkeypatch):
    X, y = sectors(600)
    store = make_store(X, y, chunk_rows=130)
    settings = {**SETTINGS, "n_active": 20, "kernel": [RBF(4.0, 1.0)] * 3, "memory_budget": "64MiB"}
    whole = streamgp.fit_stream(store, **settings)
    assert len({kernel.lengthscale for kernel in whole.kernel_}) == 3
    for most in (3, 9, 16):  # in the middle of a round, and in the next classes
        saves = 0

        def save(self, *arguments, original=CheckpointFolder.save, most=most):
            nonlocal saves
            original(self, *arguments)
            saves += 1
            if saves == most:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(CheckpointFolder, "save", save)
            with pytest.raises(KeyboardInterrupt):
                streamgp.fit_stream(store, checkpoint=tmp_path / "c", **settings)
    resumed = streamgp.fit_stream(store, checkpoint=tmp_path / "c", **settings)
    assert resumed.kernel_ == whole.kernel_
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))
    assert resumed.evaluate_stream(store).error == pytest.approx(1.0 - whole.score(X, y))
    warm = StreamGPClassifier(20, warm_start=True, **SETTINGS | {"kernel": settings["kernel"]}).fit(X, y)
    assert warm.fit(X, y).recipe_.startswith("learn: each class")
