"""What users of scikit-learn expect beside its own checks."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import zarr
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.errors import DataWarning, ParameterError, TargetError
from streamgp.estimators.running import n_threads, running
from streamgp.kernels import RBF
from streamgp.passes.run import available_threads


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(300, noise=0.2, random_state=0)
    return X, np.array(["left", "right"])[y]


@pytest.fixture(scope="module")
def model(moons):
    return StreamGPClassifier(
        30, kernel=RBF(), learn_hyperparameters=False, random_state=0, selection="ivm"
    ).fit(*moons)


@pytest.fixture(scope="module")
def three_classes():
    X = np.random.default_rng(0).standard_normal((300, 2))
    return X, np.digitize(X[:, 0], [-0.5, 0.5])


def test_decisions_are_log_odds(model, moons):
    X, y = moons
    decision, p = model.decision_function(X), model.predict_proba(X)
    assert decision.shape == (300,)
    np.testing.assert_allclose(decision, np.log(p[:, 1]) - np.log(p[:, 0]))
    np.testing.assert_array_equal(model.classes_[(decision > 0).astype(int)], model.predict(X))
    assert roc_auc_score(y, decision) == pytest.approx(roc_auc_score(y, p[:, 1]))
    lazy = model.decision_function(da.from_array(X, chunks=(100, 2)))
    assert lazy.shape == (300,)
    np.testing.assert_allclose(lazy.compute(), decision, atol=1e-9)


def test_decisions_of_many_classes_are_log_probabilities(three_classes):
    X, y = three_classes
    model = StreamGPClassifier(
        30, learn_hyperparameters=False, kernel=RBF(), random_state=0, selection="ivm"
    ).fit(X, y)
    decision = model.decision_function(X)
    np.testing.assert_allclose(decision, np.log(model.predict_proba(X)))
    lazy = model.decision_function(da.from_array(X, chunks=(100, 2)))
    assert lazy.shape == decision.shape == (300, 3)
    np.testing.assert_allclose(lazy.compute(), decision, atol=1e-9)


def test_predictions_on_disk_name_their_classes(model, moons, tmp_path):
    model.predict_stream(moons[0], tmp_path / "out.zarr")
    out = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert out.attrs["classes"] == ["left", "right"]
    np.testing.assert_array_equal(np.array(out.attrs["classes"])[out["label"][:]], model.predict(moons[0]))


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_predictions_can_be_a_table(model, moons, tmp_path, ending):
    pandas = pytest.importorskip("pandas")
    path = tmp_path / f"out.{ending}"
    model.predict_stream(moons[0], path)
    table = getattr(pandas, f"read_{ending}")(path)
    assert table.columns.tolist() == ["label", "p_left", "p_right"]
    np.testing.assert_array_equal(table["label"], model.predict(moons[0]))
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    with pytest.raises(ParameterError, match="no folder"):
        model.predict_stream(moons[0], tmp_path / "absent" / path.name)
    with pytest.warns(DataWarning, match="NaN as predictions"):
        model.predict_stream(np.vstack([moons[0][:3], [[np.nan, 0.0]]]), path, on_bad_rows="nan")
    assert getattr(pandas, f"read_{ending}")(path)["label"].isna().tolist() == [False, False, False, True]


def test_n_jobs_limits_threads_and_changes_nothing(model, moons):
    for n_jobs in (1, 3):
        again = StreamGPClassifier(**model.get_params(deep=False) | {"n_jobs": n_jobs}).fit(*moons)
        np.testing.assert_array_equal(again.predict_proba(moons[0]), model.predict_proba(moons[0]))
        with running(n_jobs, verbose=False):
            assert available_threads() == n_jobs
    assert available_threads() == n_threads(None) == n_threads(-1)
    assert n_threads(-1000) == 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"n_jobs": 0}, "n_jobs"), ({"n_jobs": 1.5}, "n_jobs"), ({"verbose": -1}, "verbose")],
)
def test_wrong_numbers_are_refused(moons, parameters, message):
    with pytest.raises(ParameterError, match=message):
        StreamGPClassifier(10, **parameters).fit(*moons)


def test_a_verbose_fit_tells_its_steps(moons, capsys):
    StreamGPClassifier(10, learn_hyperparameters=False, random_state=0, verbose=1, selection="ivm").fit(
        *moons
    )
    told = capsys.readouterr().err
    assert "memory plan" in told
    assert "recipe: select: ivm" in told
    StreamGPClassifier(10, learn_hyperparameters=False, random_state=0, selection="ivm").fit(*moons)
    assert capsys.readouterr().err == ""


def test_a_warm_start_begins_with_the_kernel_that_was_learned(moons):
    X, _ = moons
    model = StreamGPRegressor(30, random_state=0, warm_start=True, selection="ivm").fit(X, np.sin(X[:, 0]))
    kernel, steps = model.kernel_, len(model.history_)
    model.set_params(learn_hyperparameters=False).fit(X, np.sin(X[:, 0]))
    assert model.kernel_ == kernel
    assert len(model.history_) < steps
    cold = model.set_params(warm_start=False).fit(X, np.sin(X[:, 0]))
    assert cold.kernel_ != kernel


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_give_the_model_of_their_values(model, moons, library):
    frame = pytest.importorskip(library)
    X, y = moons
    table = frame.DataFrame({"east": X[:, 0], "north": X[:, 1]})
    found = clone(model).fit(table, frame.Series(y))
    assert found.feature_names_in_.tolist() == ["east", "north"]
    assert found.classes_.tolist() == ["left", "right"]
    np.testing.assert_allclose(found.predict_proba(table), model.predict_proba(X), atol=1e-9)
    with pytest.raises(ValueError, match="feature names"):
        found.predict(table[["north", "east"]])


def test_columns_in_another_order_are_refused_everywhere(model, moons, tmp_path):
    pandas, frames = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X, y = moons
    table = pandas.DataFrame(X, columns=["east", "north"])
    found, turned = clone(model).fit(table, y), table[["north", "east"]]
    lazy = frames.from_pandas(table, npartitions=3)
    np.testing.assert_allclose(found.predict_proba(lazy).compute(), found.predict_proba(table), atol=1e-9)
    assert found.score(lazy, y) == found.score(table, y)
    for ask in (
        lambda: found.predict(turned),
        lambda: found.predict(lazy[["north", "east"]]),
        lambda: found.evaluate_stream((turned, y)),
        lambda: found.predict_stream(turned, tmp_path / "out.zarr"),
    ):
        with pytest.raises(ValueError, match="feature names should match"):
            ask()


def test_labels_of_an_xarray_are_names_of_features(model, moons):
    xarray = pytest.importorskip("xarray")
    X, y = moons
    data = xarray.Dataset({"X": (("row", "side"), X), "y": ("row", y)}, coords={"side": ["east", "north"]})
    found = clone(model).fit_stream(data)
    assert found.feature_names_in_.tolist() == ["east", "north"]
    np.testing.assert_array_equal(found.predict(data["X"]), found.predict(X))
    with pytest.raises(ValueError, match="feature 0 is 'north', but was 'east'"):
        found.evaluate_stream(data.isel(side=[1, 0]))


def test_pipelines_keep_the_names_that_their_steps_set(moons):
    pandas = pytest.importorskip("pandas")
    X, y = moons
    table = pandas.DataFrame(X, columns=["east", "north"])
    steps = make_pipeline(
        StandardScaler(), StreamGPClassifier(20, learn_hyperparameters=False, selection="ivm")
    )
    steps.set_output(transform="pandas").fit(table, y)
    assert steps[-1].feature_names_in_.tolist() == ["east", "north"]


def test_metadata_is_routed(moons):
    X, y = moons
    weights = np.where(X[:, 0] > 0.5, 1.0, 0.1)
    plain = StreamGPClassifier(
        20, inference="fitc", kernel=RBF(), learn_hyperparameters=False, random_state=0
    )
    with config_context(enable_metadata_routing=True):
        routed = make_pipeline(MinMaxScaler(), clone(plain).set_fit_request(sample_weight=True))
        routed.fit(X, y, sample_weight=weights)
    scaled = MinMaxScaler().fit_transform(X)
    weighted = clone(plain).fit(scaled, y, sample_weight=weights)
    np.testing.assert_allclose(routed[-1].predict_proba(scaled), weighted.predict_proba(scaled))
    assert not np.allclose(weighted.predict_proba(scaled), clone(plain).fit(scaled, y).predict_proba(scaled))


PARTIAL = {"n_active": 30, "kernel": RBF(5.0, 1.0), "learn_hyperparameters": False, "random_state": 0}


@pytest.mark.parametrize("way", [{}, {"inference": "fitc"}])
def test_batches_that_fit_into_memory_give_the_model_of_all_rows(moons, way):
    X, y = moons
    found = StreamGPClassifier(**PARTIAL, **way)
    for start in range(0, 300, 100):
        found.partial_fit(X[start : start + 100], y[start : start + 100], classes=["left", "right"])
    wanted = StreamGPClassifier(**PARTIAL, **way).fit(X, y)
    np.testing.assert_array_equal(found.predict_proba(X), wanted.predict_proba(X))


def test_what_is_forgotten_is_stood_for_by_what_is_remembered(monkeypatch):
    X, y = make_moons(2000, noise=0.25, random_state=0)
    monkeypatch.setattr("streamgp.estimators.partial.BUDGET_SHARE", 100_000)  # some 200 rows of 2 features
    parted, whole = StreamGPClassifier(**PARTIAL), StreamGPClassifier(**PARTIAL).fit(X[:1600], y[:1600])
    order = np.argsort(y[:1600], kind="stable")  # batches unlike each other, but for the first
    order = np.append(order[::16], np.setdiff1d(order, order[::16], assume_unique=True))
    for rows in np.array_split(order, 8):
        parted.partial_fit(X[rows], y[rows], classes=[0, 1])
        assert len(parted._remembered.features) < 250
    assert parted._remembered.weights.sum() == pytest.approx(1600)
    loss = [log_loss(y[1600:], model.predict_proba(X[1600:])) for model in (parted, whole)]
    assert loss[0] < loss[1] + 0.1


def test_partial_fits_refuse_what_they_cannot_learn(moons, model):
    X, y = moons
    with pytest.raises(ParameterError, match="first partial_fit needs classes="):
        StreamGPClassifier(**PARTIAL).partial_fit(X, y)
    with pytest.raises(TargetError, match="'far' is not among the classes"):
        StreamGPClassifier(**PARTIAL).partial_fit(X, np.where(X[:, 0] > 0, y, "far"), ["left", "right"])
    with pytest.raises(TargetError, match="first batch is of class 'up'"):
        StreamGPClassifier(**PARTIAL).partial_fit(X, y, ["left", "right", "up"])
    stored = StreamGPClassifier(**PARTIAL).fit_stream((X, y))
    with pytest.raises(ParameterError, match="only where partial_fit or fit began"):
        stored.partial_fit(X, y)
    begun = StreamGPClassifier(**PARTIAL).partial_fit(X, y, ["left", "right"])
    with pytest.raises(ParameterError, match="others than before"):
        begun.partial_fit(X, y, ["left", "up"])
    with pytest.raises(ParameterError, match="one number a row"):
        begun.partial_fit(X, y, sample_weight=[1.0])


def test_real_targets_are_learned_in_batches(moons):
    X, _ = moons
    y = np.sin(X[:, 0])
    found = StreamGPRegressor(**PARTIAL).partial_fit(X[:150], y[:150]).partial_fit(X[150:], y[150:])
    np.testing.assert_array_equal(found.predict(X), StreamGPRegressor(**PARTIAL).fit(X, y).predict(X))


def test_batches_follow_a_fit_in_memory(moons):
    X, y = moons
    model = StreamGPClassifier(**PARTIAL).fit(X[:200], y[:200])
    known = {tuple(row) for row in X[model.active_rows_]}
    model.partial_fit(X[200:], y[200:])
    assert known & {tuple(row) for row in model._remembered.features} == known
    assert model.score(X, y) > 0.85
