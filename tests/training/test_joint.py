"""Joint classes end to end: one likelihood of all classes, from a store, interrupted, saved and loaded."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp
from streamgp.errors import ParameterError
from streamgp.kernels import RBF
from streamgp.likelihoods import MultivariateProbit, Softmax
from streamgp.persistence import CheckpointFolder
from streamgp.settings import FITC
from tests.training.test_fitc import same_bits

JOINT = {"multiclass": "joint", "selection": "kmeans", "random_state": 0}
FIXED = {**JOINT, "kernel": RBF(30.0, 1.0), "learn_hyperparameters": False}


def sectors(rows, seed=0, classes=4):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((rows, 2))
    angle = np.arctan2(*X.T) + 0.15 * generator.standard_normal(rows)
    return X, np.floor((angle / (2 * np.pi) + 0.5) * classes).astype(int) % classes


@pytest.mark.parametrize("classes", [3, 4, 26])
def test_probabilities_of_new_rows_are_calibrated(make_store, classes):
    X, y = sectors(4000, classes=classes)
    model = streamgp.fit_stream(make_store(X, y, chunk_rows=700), n_active=60, **JOINT)
    assert model.recipe_ == "learn: judged -> select: kmeans -> infer: mode -> calibrate"
    new, labels = sectors(2000, seed=1, classes=classes)
    p = model.predict_proba(new)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    score = model.evaluate_stream((new, labels))
    shares = -np.log(1.0 / classes)
    assert score.log_loss < 0.6 * shares
    assert score.calibration_error < (0.06 if classes < 10 else 0.15)


@pytest.mark.parametrize("likelihood", [Softmax(), MultivariateProbit()])
def test_a_store_larger_than_the_sample_gives_the_mode_of_all_rows(make_store, likelihood):
    X, y = sectors(6000)
    settings = {**FIXED, "likelihood": likelihood, "precision": "float64", "validation": False}
    streamed = streamgp.fit_stream(
        make_store(X, y, chunk_rows=500), n_active=20, memory_budget="8MiB", **settings
    )
    whole = streamgp.fit_stream((X, y), n_active=20, **settings)
    [entry] = [entry for entry in streamed.history_ if entry["stage"] == "infer: mode"]
    assert 0 < entry["passes"] <= 40
    assert whole.history_[-2]["passes"] == 0
    p, q = streamed.predict_proba(X[:500]), whole.predict_proba(X[:500])
    # Centres differ, as they are those of another sample: the functions are near, not equal.
    assert np.mean(np.abs(p - q)) < 0.05


def test_two_classes_are_the_binary_model(generator):
    X = generator.standard_normal((400, 2))
    y = X[:, 0] > 0
    settings = {**FIXED, "inference": FITC(1.0, 1.0)}
    joint, plain = (
        streamgp.fit_stream((X, y), n_active=15, **{**settings, "multiclass": how})
        for how in ("joint", "shared")
    )
    same_bits(joint, plain)


def test_threads_clusters_files_and_chunkings(make_store, cluster_client, tmp_path):
    X, y = sectors(3000)
    path = make_store(X, y, chunk_rows=400)
    settings = {**FIXED, "n_active": 25, "memory_budget": "8MiB"}
    here, there = (streamgp.fit_stream(path, client=client, **settings) for client in (None, cluster_client))
    same_bits(here, there)
    here.save(tmp_path / "model.zip")
    again = streamgp.load(tmp_path / "model.zip")
    np.testing.assert_array_equal(again.predict_proba(X[:50]), here.predict_proba(X[:50]))
    assert again.likelihood_ == here.likelihood_
    other = streamgp.fit_stream(make_store(X, y, chunk_rows=900), **{**settings, "precision": "float64"})
    exact = streamgp.fit_stream(path, **{**settings, "precision": "float64"})
    # Twelve steps of the optimiser end near the mode; how near depends on rounding.
    np.testing.assert_allclose(other.predict_proba(X), exact.predict_proba(X), atol=5e-3)


def test_interrupted_between_passes_is_the_same_model(make_store, tmp_path, monkeypatch):
    X, y = sectors(12_000)
    path = make_store(X, y, chunk_rows=1500)
    settings = {**FIXED, "n_active": 25, "memory_budget": "8MiB"}
    whole = streamgp.fit_stream(path, **settings)
    saves = 0

    def save(self, *arguments, original=CheckpointFolder.save):
        nonlocal saves
        original(self, *arguments)
        saves += 1
        if saves == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointFolder, "save", save)
        with pytest.raises(KeyboardInterrupt):
            streamgp.fit_stream(path, checkpoint=tmp_path / "c", **settings)
    same_bits(whole, streamgp.fit_stream(path, checkpoint=tmp_path / "c", **settings))


def test_joint_classes_need_inference_over_all_rows():
    with pytest.raises(ParameterError, match="multiclass='joint' goes only with inference='fitc'"):
        streamgp.fit_stream(sectors(100), selection="ivm", multiclass="joint")
    with pytest.raises(ParameterError, match=r"likelihood=Softmax\(...\) goes only with multiclass='joint'"):
        streamgp.fit_stream(sectors(100), inference="fitc", likelihood=Softmax())
    X, y = sectors(100)
    with pytest.raises(ParameterError, match="is for three classes or more; here are two"):
        streamgp.fit_stream((X, y > 1), n_active=5, **{**FIXED, "likelihood": Softmax()})


@pytest.mark.parametrize(
    "ignored",
    [{"inference": FITC(residual=0.5)}, {"learn_hyperparameters": "evidence"}, {"scratch": "somewhere"}],
    ids=lambda ignored: next(iter(ignored)),
)
def test_what_joint_classes_would_ignore_is_refused(ignored):
    with pytest.raises(
        ParameterError, match=f"{next(iter(ignored))}=.* has no effect with multiclass='joint'"
    ):
        streamgp.fit_stream(sectors(200), n_active=5, **{**FIXED, **ignored})
