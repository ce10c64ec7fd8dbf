"""Mistakes that used to end in an error about something else: each is told as what it is."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import time

import numpy as np
import pytest
import zarr
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sklearn_kernels

import streamgp
from streamgp import StreamGPClassifier, StreamGPRegressor, errors
from streamgp.data import open_rows
from streamgp.errors import (
    BudgetError,
    CheckpointError,
    ChunkReadError,
    NothingLearnedWarning,
    ParameterError,
    StoreError,
    TargetError,
)
from streamgp.kernels import RBF
from streamgp.training.plan import Demand, make_plan

QUICK = {
    "selection": "ivm",
    "n_active": 20,
    "random_state": 0,
    "kernel": RBF(1.0, 1.0),
    "learn_hyperparameters": False,
}


@pytest.fixture
def data(generator):
    X = generator.standard_normal((500, 3))
    return X, (X[:, 0] + 0.3 * generator.standard_normal(500) > 0).astype(np.int64)


def test_a_checkpoint_resumes_with_the_default_random_state(data, tmp_path):
    settings = {**QUICK, "random_state": None, "checkpoint": tmp_path / "c"}
    first = StreamGPClassifier(**settings).fit(*data)
    again = StreamGPClassifier(**settings).fit(*data)
    np.testing.assert_array_equal(first.active_rows_, again.active_rows_)
    with pytest.raises(CheckpointError, match="seed"):
        StreamGPClassifier(**{**settings, "random_state": 12345}).fit(*data)


def test_a_budget_that_is_too_small_gives_remedies_that_agree(data):
    rows = open_rows(data)
    for n_active in (1, 50, 400):
        for budget in (2**10, 2**17, 2**20, 2**22):
            try:
                make_plan(
                    Demand(rows, RBF(), n_active, 1, 8, criterion_rows=500, criterion_active=500), budget, 1
                )
            except BudgetError as error:
                told = str(error)
            else:
                continue
            [needed] = re.findall(r"memory_budget='(\d+)MiB'", told)
            assert int(needed) * 2**20 > budget, told
            largest = re.findall(r"n_active=(\d+); for (\d+) rows", told)
            assert all(int(fits) < int(asked) for fits, asked in largest), told


def test_a_pair_of_arrays_can_be_predicted(data, tmp_path):
    X, y = data
    model = StreamGPClassifier(**QUICK).fit(X, y)
    model.predict_stream((X, y), tmp_path / "out.zarr")
    labels = zarr.open_group(tmp_path / "out.zarr", mode="r")["label"][:]
    np.testing.assert_array_equal(model.classes_[labels], model.predict(X))


def test_labels_of_pandas_are_understood(data, tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = data
    words = np.where(y == 1, "yes", "no")
    expected = StreamGPClassifier(**QUICK).fit(X, words).predict(X)
    series = pd.Series(words)
    for labels in (series, series.astype("category"), series.astype(object), series.astype("string")):
        for fit in (StreamGPClassifier(**QUICK).fit, lambda X, y: streamgp.fit_stream((X, y), **QUICK)):
            np.testing.assert_array_equal(fit(X, labels).predict(X), expected)
    numbers = pd.Series(y).astype("Int64")
    assert streamgp.fit_stream((X, numbers), **QUICK).classes_.tolist() == [0, 1]
    series[7] = None
    with pytest.raises(TargetError, match="row 7 of 'y' has no label"):
        streamgp.fit_stream((X, series), **QUICK)
    with pytest.raises(TargetError, match=r"several types \(int, str\)"):
        streamgp.fit_stream((X, np.array([1, "a"] * 250, dtype=object)), **QUICK)


def test_labels_of_pandas_keep_their_type_and_missing_ones_are_named_by_fit_too(data):
    pd = pytest.importorskip("pandas")
    X, y = data
    series = pd.Series(y)
    for kind, classes in {"boolean": [False, True], "Int64": [0, 1], "category": [0, 1]}.items():
        model = StreamGPClassifier(**QUICK).fit(X, series.astype(kind))
        assert model.classes_.dtype == np.array(classes).dtype, kind
        assert model.classes_.tolist() == classes
        missing = series.astype(kind).mask(np.arange(500) == 7)
        with pytest.raises(TargetError, match="row 7 of 'y' has no label"):
            StreamGPClassifier(**QUICK).fit(X, missing)
    with pytest.raises(TargetError, match="row 7 of 'y' has no label"):
        StreamGPClassifier(**QUICK).fit(X, series.astype("string").mask(np.arange(500) == 7))
    with pytest.raises(TargetError, match=r"labels of 'y' are of type Interval: .* y\.astype\(str\)"):
        StreamGPClassifier(**QUICK).fit(X, pd.cut(X[:, 0], 3))


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"kernel": "periodic"}, r"kernel='periodic' is not known.*RBF\(...\).*'matern32'"),
        ({"kernel": sklearn_kernels.RBF()}, r"is not known; use one of streamgp.kernels: RBF"),
        ({"likelihood": "cauchy"}, r"likelihood='cauchy' is not known.*'probit'"),
        ({"client": "tcp://somewhere:8786"}, r"distributed.Client\(address\)"),
        ({"validation": np.arange(500)}, "500 of 500 rows"),
        ({"memory_budget": "100TB"}, "more than this machine has"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_parameters_are_refused_by_name(data, parameters, told):
    with pytest.raises((ParameterError, BudgetError), match=told):
        StreamGPClassifier(**{**QUICK, **parameters}).fit(*data)


def test_kernels_and_likelihoods_can_be_named(data):
    model = StreamGPClassifier(**{**QUICK, "kernel": "rbf", "likelihood": "probit"}).fit(*data)
    assert model.kernel_ == RBF()


def test_a_second_fit_on_a_checkpoint_folder_is_refused_with_the_owner(data, tmp_path):
    script = (
        "import sys, time; from pathlib import Path; from streamgp.persistence.lock import locked\n"
        "with locked(Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(60)"
    )
    folder = tmp_path / "c"
    folder.mkdir()
    with subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline()
        with pytest.raises(CheckpointError, match=f"in use by process {other.pid} on "):
            StreamGPClassifier(**QUICK, checkpoint=folder).fit(*data)
        other.kill()
    StreamGPClassifier(**QUICK, checkpoint=folder).fit(*data)  # the lock went with its process


def test_predicting_nothing_says_so(data, tmp_path):
    model = StreamGPClassifier(**QUICK).fit(*data)
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        model.predict(np.zeros((0, 3)))
    with pytest.raises(StoreError, match=r"empty \(shape \(0, 3\)\): one row"):
        model.predict_stream(np.zeros((0, 3)), tmp_path / "out.zarr")


def test_a_damaged_chunk_is_named_among_many_of_one_read(data, make_store):
    store = make_store(*data, chunk_rows=10)
    (store / "X" / "c" / "33" / "0").write_bytes(b"not a chunk")
    with pytest.raises(ChunkReadError, match=r"chunk 33 \(rows 330 to 339\)"):
        StreamGPClassifier(**QUICK).fit_stream(store)


@pytest.fixture
def client():
    """A real client, of a scheduler and a worker in this process."""
    from distributed import Client, LocalCluster

    here = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**here) as cluster, Client(cluster, set_as_default=False) as connected:
        yield connected


def test_a_closed_client_is_refused(data, client):
    model = StreamGPClassifier(**QUICK, client=client).fit(*data)
    client.close()
    for use in (lambda: model.fit(*data), lambda: model.predict(data[0])):
        with pytest.raises(ParameterError, match="client= is closed"):
            use()


def test_estimators_with_a_client_can_be_cloned_pickled_and_saved(data, client, tmp_path):
    model = StreamGPClassifier(**QUICK, client=client).fit(*data)
    copied = clone(model)
    assert copied.client is client
    assert not hasattr(copied, "model_")
    model.save(tmp_path / "m.zarr.zip")
    expected = StreamGPClassifier(**QUICK).fit(*data).predict_proba(data[0])
    for restored in (pickle.loads(pickle.dumps(model)), streamgp.load(tmp_path / "m.zarr.zip")):
        assert restored.client is None
        np.testing.assert_array_equal(restored.predict_proba(data[0]), expected)


def test_a_fit_that_learned_nothing_says_so_with_numbers(data, generator):
    X, y = data
    noise = generator.permutation(y)
    with pytest.warns(
        NothingLearnedWarning, match=r"learned nothing.*held-out rows.*shares of the classes.*Try"
    ):
        model = StreamGPClassifier(**{**QUICK, "kernel": RBF(50.0, 0.05)}, inference="fitc").fit(X, noise)
    last = model.history_[-1]
    assert (
        last["final_held_out_log_density"] <= last["baseline_log_density"] == pytest.approx(-0.69, abs=0.02)
    )
    target = generator.standard_normal(500)
    with pytest.warns(NothingLearnedWarning, match="mean and variance"):
        StreamGPRegressor(**{**QUICK, "kernel": RBF(5.0, 0.01), "n_active": 200}).fit(X, target)


@pytest.mark.parametrize("real", [False, True])
def test_a_fit_worse_than_a_line_says_so_with_both_numbers(generator, real):
    X = generator.standard_normal((1000, 30))
    signal = X.sum(axis=1) + generator.standard_normal(1000)
    kind = StreamGPRegressor if real else StreamGPClassifier
    # Ten inducing inputs of a kernel of distances cannot hold a line of thirty features.
    model = kind(10, kernel=RBF(1.0, 5.0), learn_hyperparameters=False, inference="fitc", random_state=0)
    with pytest.warns(NothingLearnedWarning, match=r"less than a linear model: on 5\d held-out rows"):
        model.fit_stream((X, signal if real else (signal > 0).astype(int)))
    last = model.history_[-1]
    assert last["linear_log_density"] > last["final_held_out_log_density"] > last["baseline_log_density"]


@pytest.mark.filterwarnings("error:the fit has learned nothing")  # though less than the line that it is of
def test_a_fit_that_learned_something_is_silent(data):
    X, y = data
    model = StreamGPClassifier(**QUICK).fit(X, y)
    last = model.history_[-1]
    assert last["final_held_out_log_density"] > last["baseline_log_density"]
    StreamGPRegressor(**QUICK).fit(X, X[:, 0])


def test_leftovers_of_killed_fits_are_swept(data, tmp_path):
    script = (
        "import sys, time; from streamgp.passes.scratch import scratch_space\n"
        "with scratch_space(sys.argv[1], None, 1, None) as scratch:\n"
        "    print(scratch.folder, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline()
        settings = {**QUICK, "inference": "fitc", "scratch": tmp_path}
        StreamGPClassifier(**settings).fit(*data)
        assert len(list(tmp_path.iterdir())) == 1  # of a process that lives: not ours to remove
        other.kill()
    time.sleep(0.1)
    StreamGPClassifier(**settings).fit(*data)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "kind", [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
)
def test_every_error_can_be_made_anew_in_another_process(kind):
    """As tblib does, which distributed uses: by ``__new__`` alone."""
    made = kind.__new__(kind, "told")
    assert made.args == ("told",)
    assert pickle.loads(pickle.dumps(kind("told"))).args == ("told",)


@pytest.mark.parametrize("method", ["fit", "predict", "predict_proba"])
def test_a_store_in_the_place_of_an_array_is_told_where_it_belongs(data, tmp_path, method):
    group = zarr.open_group(tmp_path / "new.zarr", mode="w")
    model = StreamGPClassifier(**QUICK).fit(*data)
    for store in (tmp_path / "new.zarr", str(tmp_path / "new.zarr"), group):
        with pytest.raises(ParameterError, match="predict_stream"):
            getattr(model, method)(*([store, data[1]] if method == "fit" else [store]))


def test_a_checkpoint_is_not_written_into_a_store(data, tmp_path):
    group = zarr.open_group(tmp_path / "data.zarr", mode="w")
    group.create_array("X", data=data[0])
    group.create_array("y", data=data[1])
    with pytest.raises(CheckpointError, match="is a Zarr store"):
        streamgp.fit_stream(tmp_path / "data.zarr", **QUICK, checkpoint=tmp_path / "data.zarr")


def test_a_misspelt_parameter_is_told_with_the_ones_that_there_are(data):
    with pytest.raises(TypeError, match=r"fit_stream has no parameter 'n_actives'; it has .*n_active"):
        streamgp.fit_stream(data, n_actives=3)
