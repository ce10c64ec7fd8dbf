"""PASS-GP and expectation propagation end to end: against the textbook, on any scheduler, interrupted."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import streamgp
from streamgp.kernels import RBF, White
from streamgp.likelihoods import Gaussian, Probit
from streamgp.persistence import CheckpointFolder
from streamgp.selection import FPASS, IVM, PASS
from streamgp.settings import EP
from tests.reference import ep_dense

EXACT = {
    "learn_hyperparameters": False,
    "inference": EP(calibrate=False),
    "validation": False,
    "standardize": False,
}


def rings(rows, seed=0, features=3):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((rows, features))
    return X, np.where(np.hypot(X[:, 0], X[:, 1]) + 0.02 * generator.standard_normal(rows) > 1.2, 1, 0)


def dense_latent(kernel, likelihood, X, y, new):
    """Latent mean and variance at new rows by textbook EP on X, y."""
    gram = kernel.gram(X)
    found = ep_dense.propagate(gram, y, likelihood)
    noisy = gram + np.diag(1 / found.precision)
    cross = kernel.block(new, X)
    mean = cross @ np.linalg.solve(noisy, found.precision_mean / found.precision)
    variance = kernel.diagonal(new) - np.einsum("ij,ji->i", cross, np.linalg.solve(noisy, cross.T))
    return mean, variance, found.log_evidence


def inferred(model):
    """What the history says about the final inference."""
    (entry,) = [entry for entry in model.history_ if entry["stage"] == "infer: ep"]
    return entry


@pytest.mark.parametrize(
    "selection", ["ivm", "random", IVM("entropy_reduction"), "fpass", PASS(n_init=20)], ids=repr
)
def test_inference_is_that_of_the_textbook_on_the_active_rows(selection):
    X, y = rings(300)
    kernel, likelihood = RBF(8.0, 1.0) + White(0.1), Probit(0.2)
    model = streamgp.fit_stream(
        (X, y),
        n_active=40,
        selection=selection,
        kernel=kernel,
        likelihood=likelihood,
        **EXACT,
    )
    chosen = model.active_rows_
    assert len(np.unique(chosen)) == len(chosen) <= 40
    signs = np.where(y == 1, 1.0, -1.0)
    mean, variance, log_evidence = dense_latent(kernel, likelihood, X[chosen], signs[chosen], X[:50])
    found = model.predict_latent(X[:50])
    np.testing.assert_allclose(found[0], mean, atol=1e-3)
    np.testing.assert_allclose(found[1], variance, atol=1e-3)
    assert inferred(model)["log_evidence_active"] == pytest.approx([log_evidence], abs=1e-6)


def test_with_all_rows_active_it_is_the_full_model():
    X, y = rings(60)
    kernel, likelihood = RBF(3.0, 1.0), Probit()
    everything = PASS(p_inc=1.0, p_del=1.0, n_init=10, block_rows=20)
    model = streamgp.fit_stream(
        (X, y), n_active=60, selection=everything, kernel=kernel, likelihood=likelihood, **EXACT
    )
    assert sorted(model.active_rows_) == list(range(60))
    mean, variance, log_evidence = dense_latent(kernel, likelihood, X, np.where(y == 1, 1.0, -1.0), X)
    found = model.predict_latent(X)
    np.testing.assert_allclose(found[0], mean, atol=1e-4)
    np.testing.assert_allclose(found[1], variance, atol=1e-4)
    told = inferred(model)
    assert told["log_evidence_all"] == pytest.approx(told["log_evidence_active"])
    assert told["log_evidence_all"] == pytest.approx([log_evidence], abs=1e-6)


def test_the_evidence_of_all_rows_adds_the_density_of_the_others(make_store):
    X, y = rings(400)
    kernel, likelihood = RBF(8.0, 1.0), Probit(0.2)
    model = streamgp.fit_stream(
        make_store(X, y, chunk_rows=70),
        n_active=50,
        selection="fpass",
        kernel=kernel,
        likelihood=likelihood,
        **EXACT,
    )
    chosen, signs = model.active_rows_, np.where(y == 1, 1.0, -1.0)
    rest = np.setdiff1d(np.arange(400), chosen)
    mean, variance, log_evidence = dense_latent(kernel, likelihood, X[chosen], signs[chosen], X[rest])
    expected = log_evidence + likelihood.log_predictive_density(signs[rest], mean, variance).sum()
    assert inferred(model)["log_evidence_all"] == pytest.approx([expected], abs=1e-3)


def test_thresholds_hold_at_the_end_and_the_size_follows_from_them():
    X, y = rings(2000)
    sizes = []
    for p_inc in (0.5, 0.9):
        model = streamgp.fit_stream(
            (X, y),
            n_active=600,
            selection=PASS(p_inc=p_inc, n_init=50, n_pass=3),
            random_state=1,
            max_seconds=60,
        )
        sizes.append(len(model.active_rows_))
        outside = np.setdiff1d(np.arange(2000), model.active_rows_)
        probability = model.predict_proba(X[outside])[np.arange(len(outside)), y[outside]]
        # The last blocks were seen by slightly other posteriors, and calibration comes after them.
        assert np.mean(probability < 0.5 * p_inc) < 0.01
    assert sizes[0] < sizes[1] < 600


def test_a_full_active_set_exchanges_and_says_so(caplog):
    X, y = rings(1500)
    with caplog.at_level(logging.INFO, logger="streamgp"):
        model = streamgp.fit_stream((X, y), n_active=25, selection=PASS(n_init=20), random_state=0)
    assert len(model.active_rows_) <= 25
    assert "from now on rows are exchanged" in caplog.text
    assert max(entry.get("full", 0) for entry in model.history_) == 1


@pytest.mark.parametrize("selection", ["pass", "fpass"])
@pytest.mark.parametrize("multiclass", ["per_class", "shared"])
def test_many_classes_one_read(make_store, selection, multiclass):
    generator = np.random.default_rng(1)
    centres = 4.0 * generator.standard_normal((4, 3))
    y = np.sort(generator.integers(0, 4, 600))  # a sorted file
    X = centres[y] + 0.5 * generator.standard_normal((600, 3))
    model = streamgp.fit_stream(
        make_store(X, y, chunk_rows=50),
        n_active=25,
        selection=selection,
        multiclass=multiclass,
        memory_budget="8MiB",
        random_state=0,
    )
    assert model.score(X, y) > 0.95
    sizes = inferred(model)["n_active"]
    assert len(sizes) == 4
    assert max(sizes) <= 25
    assert len(set(map(int, model.active_rows_))) <= sum(sizes)


@pytest.fixture
def sorted_store(make_store):
    X, y = rings(24_000, features=2)
    order = np.lexsort((X[:, 0], y))
    return make_store(X[order], y[order], chunk_rows=500), X, y


STREAMED = {
    "n_active": 60,
    "memory_budget": "8MiB",
    "random_state": 3,
    "kernel": RBF(30.0, 0.7),
    "learn_hyperparameters": False,
}


@pytest.mark.parametrize("selection", [PASS(n_init=40, n_pass=1), FPASS(n_pass=1, p_exc=0.1)], ids=repr)
def test_sorted_files_larger_than_the_sample_do_no_harm(sorted_store, selection, caplog):
    store, X, y = sorted_store
    model = streamgp.fit_stream(store, selection=selection, **STREAMED)
    assert any(entry.get("rows", 0) > 0 and entry["stage"] == "select: exchange" for entry in model.history_)
    plain = streamgp.fit_stream((X, y), selection=selection, **{**STREAMED, "memory_budget": "1GiB"})
    assert model.score(X, y) > plain.score(X, y) - 0.03 > 0.94


@pytest.mark.parametrize(
    "selection", [FPASS(n_pass=2, p_exc=0.1), PASS(n_init=60, n_pass=2)], ids=["fpass", "pass"]
)
def test_noisy_labels_leave_the_best_active_set_that_was_met(selection):
    X, y = rings(4000, features=2)
    noisy = np.where(np.random.default_rng(1).random(4000) < 0.25, 1 - y, y)
    settings = {"kernel": RBF(4.0, 1.0), "learn_hyperparameters": False, "random_state": 0}
    model = streamgp.fit_stream((X, noisy), n_active=60, selection=selection, **settings)
    looks = [entry for entry in model.history_ if "loss" in entry]
    assert len(looks) == 2
    assert any(
        look["loss"] > look["loss_before"] for look in looks
    )  # exchanges have done harm, and were undone
    assert model.score(*rings(2000, seed=5, features=2)) > 0.83


def test_the_same_bits_on_threads_and_on_a_cluster(sorted_store, cluster_client):
    store, X, _ = sorted_store
    found = [
        streamgp.fit_stream(store, selection=PASS(n_init=40, n_pass=1), client=client, **STREAMED)
        for client in (None, cluster_client)
    ]
    np.testing.assert_array_equal(found[0].active_rows_, found[1].active_rows_)
    np.testing.assert_array_equal(*(model.predict_latent(X[:100])[0] for model in found))


def test_interrupted_fits_end_at_the_same_bits(tmp_path, monkeypatch):
    X, y = rings(1500)
    settings = {"n_active": 60, "selection": PASS(n_init=40, most_steps=4), "random_state": 2}
    whole = streamgp.fit_stream((X, y), **settings)

    class InterruptedFitError(Exception):
        pass

    def fit_until(saves):
        count = 0

        def save(self, *arguments, original=CheckpointFolder.save):
            nonlocal count
            original(self, *arguments)
            count += 1
            if count == saves:
                raise InterruptedFitError

        with monkeypatch.context() as patch:
            patch.setattr(CheckpointFolder, "save", save)
            return streamgp.fit_stream((X, y), checkpoint=tmp_path / "c", **settings)

    for saves in (1, 3, 4, 7, 5):
        with pytest.raises(InterruptedFitError):
            fit_until(saves)
    resumed = fit_until(10_000)
    np.testing.assert_array_equal(whole.active_rows_, resumed.active_rows_)
    assert repr(whole.kernel_) == repr(resumed.kernel_)
    np.testing.assert_array_equal(whole.predict_proba(X), resumed.predict_proba(X))


@pytest.mark.parametrize("selection", ["pass", "fpass"])
def test_regression_ranks_by_representer_weights(selection):
    generator = np.random.default_rng(0)
    X = generator.uniform(-3, 3, (1500, 2))
    y = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.05 * generator.standard_normal(1500)
    model = streamgp.fit_stream((X[:1000], y[:1000]), n_active=80, selection=selection, random_state=0)
    assert model.score(X[1000:], y[1000:]) > 0.98
    assert len(model.active_rows_) <= 80
    exact = streamgp.fit_stream(
        (X[:60], y[:60]),
        n_active=60,
        selection="random",
        kernel=RBF(1.0, 1.0),
        likelihood=Gaussian(0.1),
        **EXACT,
    )
    solved = np.linalg.solve(
        RBF(1.0, 1.0).gram(X[:60]) + 0.1 * np.eye(60), (y[:60] - y[:60].mean()) / y[:60].std()
    )
    expected = y[:60].mean() + y[:60].std() * RBF(1.0, 1.0).block(X[60:90], X[:60]) @ solved
    np.testing.assert_allclose(exact.predict(X[60:90]), expected, atol=1e-8)


def test_the_first_active_rows_matter_little():
    X, y = rings(3000, seed=5)
    scores = [
        streamgp.fit_stream(
            (X[:2000], y[:2000]), n_active=150, selection=PASS(n_init=50), random_state=seed
        ).score(X[2000:], y[2000:])
        for seed in range(4)
    ]
    assert np.ptp(scores) < 0.01
