from __future__ import annotations

import pickle

import dask.array as da
import numpy as np
import pytest
import zarr
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.utils.estimator_checks import parametrize_with_checks

import streamgp
from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.errors import (
    BudgetError,
    DataWarning,
    NonFiniteDataError,
    ParameterError,
    StoreError,
    TargetError,
)
from streamgp.kernels import RBF

FITC = {"inference": "fitc", "learn_hyperparameters": False}
REPEATED = "active rows are drawn from the rows, and repeated rows are others than weighted ones"


@parametrize_with_checks(
    [
        StreamGPClassifier(60, selection="ivm"),
        StreamGPRegressor(60, selection="ivm"),
        StreamGPClassifier(20, **FITC),
        StreamGPRegressor(20, **FITC),
    ],
    expected_failed_checks=lambda estimator: {"check_sample_weight_equivalence_on_dense_data": REPEATED},
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def moons():
    X, y = make_moons(1200, noise=0.2, random_state=0)
    return X, y


def test_classes_are_learned_from_a_store(moons, make_store, client):
    X, y = moons
    labels = np.array(["left", "right"])[y]
    path = make_store(X, labels, chunk_rows=130)
    model = streamgp.fit_stream(path, n_active=150, random_state=0, client=client, selection="ivm")
    assert isinstance(model, StreamGPClassifier)
    assert model.classes_.tolist() == ["left", "right"]
    assert model.n_features_in_ == 2
    assert len(model.active_rows_) == 150
    score = model.evaluate_stream(path)
    assert score.error < 0.06
    assert score.log_loss < 0.2
    assert model.score(X, labels) == pytest.approx(1 - score.error)


def test_many_classes_are_learned_one_against_the_rest(generator, make_store):
    X = generator.standard_normal((900, 2))
    y = np.digitize(np.arctan2(*X.T), [-1.5, 0, 1.5])
    model = streamgp.fit_stream(make_store(X, y), n_active=200, random_state=1, selection="ivm")
    p = model.predict_proba(X)
    assert p.shape == (900, 4)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert np.mean(model.predict(X) == y) > 0.93
    mean, variance = model.predict_latent(X[:5])
    assert mean.shape == variance.shape == (5, 4)


def test_classes_can_share_their_active_rows(generator, make_store, client):
    X = generator.standard_normal((900, 2))
    y = np.digitize(np.arctan2(*X.T), [-1.5, 0, 1.5])
    path = make_store(X, y, chunk_rows=200)
    settings = {"n_active": 150, "multiclass": "shared", "learn_hyperparameters": False, "random_state": 1}
    model = streamgp.fit_stream(path, client=client, **settings)
    assert (
        len(model.active_rows_)
        == len(set(model.active_rows_))
        == len(model.model_.snapshot.active_inputs)
        == 150
    )
    assert np.mean(model.predict(X) == y) > 0.9


def test_real_targets_are_mapped_back(generator, make_store):
    X = generator.uniform(-3, 3, (800, 1))
    y = 1e4 + 500 * np.sin(X[:, 0]) + 20 * generator.standard_normal(800)
    model = streamgp.fit_stream(make_store(X, y), n_active=100, random_state=0, selection="ivm")
    assert isinstance(model, StreamGPRegressor)
    mean, deviation = model.predict(X, return_std=True)
    assert np.sqrt(np.mean((mean - y) ** 2)) < 40
    assert np.all(deviation > 0)
    np.testing.assert_allclose(model.predict(X), mean, rtol=1e-12)
    assert model.evaluate_stream((X, y)).rmse == pytest.approx(np.sqrt(np.mean((mean - y) ** 2)))


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_threads_cluster_and_chunkings_agree(moons, make_store, cluster_client, precision):
    X, y = moons
    settings = {
        "n_active": 80,
        "selection": "ivm",
        "random_state": 3,
        "precision": precision,
        "memory_budget": "64MiB",
    }
    path = make_store(X, y, chunk_rows=100)
    model = streamgp.fit_stream(path, **settings)
    again = streamgp.fit_stream(path, client=cluster_client, **settings)
    np.testing.assert_array_equal(model.active_rows_, again.active_rows_)
    np.testing.assert_array_equal(model.predict_proba(X), again.predict_proba(X))
    tolerance = 1e-4 if precision == "float32" else 1e-9
    for other in (make_store(X, y, chunk_rows=7), (X, y), (da.from_array(X, chunks=(333, 2)), y)):
        rechunked = streamgp.fit_stream(other, **settings)
        np.testing.assert_array_equal(model.active_rows_, rechunked.active_rows_)
        np.testing.assert_allclose(rechunked.predict_proba(X), model.predict_proba(X), atol=tolerance)


def test_predictions_are_written_to_a_store(moons, make_store, tmp_path, client):
    X, y = moons
    path = make_store(X, y)
    model = StreamGPClassifier(50, random_state=0, client=client, selection="ivm").fit_stream(path)
    model.predict_stream(path, tmp_path / "out.zarr")
    out = zarr.open_group(tmp_path / "out.zarr", mode="r")
    np.testing.assert_allclose(out["probability"][:], model.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(model.classes_[out["label"][:]], model.predict(X))


def test_features_alone_are_enough_to_predict_real_targets(generator, tmp_path):
    X = generator.standard_normal((300, 2))
    model = StreamGPRegressor(50, random_state=0, selection="ivm").fit(X, X[:, 0])
    model.predict_stream(X, tmp_path / "out.zarr")
    out = zarr.open_group(tmp_path / "out.zarr", mode="r")
    np.testing.assert_allclose(out["mean"][:], model.predict(X))


def test_models_pickle_and_clone(moons):
    X, y = moons
    model = StreamGPClassifier(40, kernel=RBF(3.0, 0.7), random_state=0, selection="ivm").fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    assert clone(model).kernel == RBF(3.0, 0.7)


def test_sorted_labels_do_no_harm(moons, make_store):
    X, y = moons
    order = np.argsort(y, kind="stable")
    model = streamgp.fit_stream(make_store(X[order], y[order]), n_active=150, random_state=0, selection="ivm")
    assert model.score(X, y) > 0.92


def test_few_rows_are_all_used(generator):
    X = generator.standard_normal((5, 2))
    model = StreamGPRegressor(500, random_state=0, selection="ivm").fit(X, X[:, 0])
    assert sorted(model.active_rows_) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda X, y: (np.where(X > 2, np.nan, X), y),
            NonFiniteDataError,
            r"found nan at row \d+, column \d",
        ),
        (lambda X, y: (X, np.ones(len(y), int)), TargetError, "at least two classes"),
        (lambda X, y: (X, np.full(len(y), 2.5)), TargetError, "constant"),
        (lambda X, y: (X, np.arange(len(y))), TargetError, "task="),
        (lambda X, y: (X, y[:-1]), StoreError, "1200 rows, but"),
        (lambda X, y: (X[:0], y[:0]), StoreError, "empty"),
    ],
)
def test_bad_data_are_refused_with_a_remedy(moons, make, error, message):
    with pytest.raises(error, match=message):
        streamgp.fit_stream(make(*moons), n_active=10, selection="ivm")


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_active": 0}, ParameterError, "at least 1"),
        ({"n_active": 2.5}, ParameterError, "integer"),
        ({"memory_budget": "10kB"}, BudgetError, "memory_budget="),
        ({"memory_budget": "lots"}, ParameterError, "not a size"),
        ({"n_active": 1200, "selection": "ivm", "memory_budget": "10MB"}, BudgetError, "largest active set"),
        ({"precision": "half"}, ParameterError, "precision"),
        ({"standardize": "robust"}, ParameterError, "standardize"),
        ({"selection": "best"}, ParameterError, "selection='best'"),
        ({"selection": "ivm", "multiclass": "joint"}, ParameterError, "multiclass"),
        ({"learn_hyperparameters": "best"}, ParameterError, "learn_hyperparameters"),
        ({"validation": 2.5}, ParameterError, "validation"),
        ({"task": "ranking"}, ParameterError, "task"),
        ({"kernel": RBF(1.0, (1.0, 2.0, 3.0))}, ParameterError, "3 .*2 features"),
    ],
)
def test_bad_parameters_are_refused_with_a_remedy(moons, parameters, error, message):
    with pytest.raises(error, match=message):
        streamgp.fit_stream(moons, **{"n_active": 10, **parameters})


def test_more_than_1000_labels_are_refused_as_classes(generator):
    X = generator.standard_normal((3000, 2))
    with pytest.raises(TargetError, match="more than 1000"):
        streamgp.fit_stream((X, np.arange(3000)), task="classification", selection="ivm")


def test_a_split_feature_axis_warns_and_works(moons, make_store):
    X, y = moons
    with pytest.warns(DataWarning, match="rechunk"):
        model = streamgp.fit_stream(
            make_store(X, y, chunks=(100, 1)), n_active=60, random_state=0, selection="ivm"
        )
    whole = streamgp.fit_stream(make_store(X, y), n_active=60, random_state=0, selection="ivm")
    np.testing.assert_array_equal(model.predict_proba(X), whole.predict_proba(X))


def test_other_features_than_fitted_are_refused(moons, make_store):
    model = StreamGPClassifier(20, random_state=0, selection="ivm").fit(*moons)
    with pytest.raises(ParameterError, match="3 features, but the model was fitted to 2"):
        model.evaluate_stream((np.ones((10, 3)), np.ones(10)))


@pytest.mark.parametrize("name", ["model.zip", "model.zarr"])
def test_saved_models_predict_the_same_without_the_data(moons, tmp_path, name):
    X, y = moons
    labels = np.array(["left", "right"])[y]
    model = StreamGPClassifier(60, random_state=0, selection="ivm").fit(X, labels)
    model.save(tmp_path / name)
    copy = streamgp.load(tmp_path / name)
    assert isinstance(copy, StreamGPClassifier)
    np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    assert copy.kernel_ == model.kernel_
    assert copy.likelihood_ == model.likelihood_
    assert copy.n_active == 60
    assert copy.history_ == model.history_
    regressor = StreamGPRegressor(40, random_state=0, selection="ivm").fit(X, X[:, 0] ** 2)
    regressor.save(tmp_path / ("r" + name))
    np.testing.assert_array_equal(streamgp.load(tmp_path / ("r" + name)).predict(X), regressor.predict(X))


def test_dask_in_dask_out(moons):
    X, y = moons
    lazy = da.from_array(X, chunks=(500, 1))
    model = StreamGPClassifier(60, random_state=0, selection="ivm").fit(X, y)
    for predict in (model.predict, model.predict_proba):
        found = predict(lazy)
        assert isinstance(found, da.Array)
        np.testing.assert_allclose(found.compute(), predict(X), atol=1e-12)
    regressor = StreamGPRegressor(60, random_state=0, selection="ivm").fit(X, X[:, 0])
    mean, deviation = regressor.predict(lazy, return_std=True)
    np.testing.assert_allclose(mean.compute(), regressor.predict(X), atol=1e-9)
    np.testing.assert_allclose(deviation.compute(), regressor.predict(X, return_std=True)[1], atol=1e-9)
    np.testing.assert_allclose(regressor.predict(lazy).compute(), regressor.predict(X), atol=1e-9)


def test_decisions_by_mean_are_those_by_probability(moons):
    X, y = moons
    model = StreamGPClassifier(60, random_state=0, selection="ivm").fit(X, y)
    np.testing.assert_array_equal(model.predict(X), model.classes_[model.predict_proba(X).argmax(axis=1)])
