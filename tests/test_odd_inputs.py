"""Inputs that nobody thinks of: each works, or is refused with what was found and what to do."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
import zarr

import streamgp
from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.data import open_rows
from streamgp.errors import (
    BudgetError,
    DataWarning,
    NonFiniteDataError,
    NothingLearnedWarning,
    ParameterError,
    StoreError,
    TargetError,
    UnsupportedDtypeError,
)
from streamgp.kernels import RBF
from streamgp.likelihoods import Custom
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
    X = generator.standard_normal((400, 3))
    return X, (X[:, 0] + 0.3 * generator.standard_normal(400) > 0).astype(np.int64)


@pytest.mark.parametrize("dtype", ["float16", "bool", "int8", "uint64", ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_type_of_number_gives_the_same_model(data, make_store, dtype, order):
    X, y = np.abs(np.round(data[0])), data[1]
    X = (X > 0 if dtype == "bool" else X).astype(dtype, order=order)
    expected = StreamGPClassifier(**QUICK).fit(X.astype(np.float64), y).predict_proba(X)
    for fitted in (StreamGPClassifier(**QUICK).fit(X, y), streamgp.fit_stream(make_store(X, y), **QUICK)):
        np.testing.assert_allclose(fitted.predict_proba(X), expected, rtol=1e-5)


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long doubles are doubles here")
def test_long_doubles_are_refused_with_what_to_do(data):
    X, y = data
    with pytest.raises(UnsupportedDtypeError, match=r"'X' has dtype .*astype\('float64'\)"):
        StreamGPClassifier(**QUICK).fit(X.astype(np.longdouble), y)
    with pytest.raises(UnsupportedDtypeError, match=r"'y' has dtype .*astype\('float64'\)"):
        streamgp.fit_stream((X, X[:, 0].astype(np.longdouble)), **QUICK)


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
def test_labels_of_bytes_are_text(data, tmp_path):
    X, y = data
    words = np.array(["né", "oui"])[y]
    group = zarr.open_group(tmp_path / "s.zarr", mode="w")
    group.create_array("X", data=X, chunks=(100, 3))
    group.create_array("y", data=np.char.encode(words, "utf-8"), chunks=(100,))
    model = streamgp.fit_stream(tmp_path / "s.zarr", **QUICK)
    assert model.classes_.tolist() == ["né", "oui"]
    model.save(tmp_path / "m.zarr.zip")
    restored = streamgp.load(tmp_path / "m.zarr.zip")
    assert restored.evaluate_stream(tmp_path / "s.zarr").error == restored.evaluate_stream((X, words)).error
    with pytest.raises(TargetError, match=r"b'\\xff'.*UTF-8"):
        streamgp.fit_stream((X, np.array([b"\xff", b"a"])[y]), **QUICK)


def test_masks_and_sparse_matrices_are_refused(data):
    X, y = data
    model = StreamGPClassifier(**QUICK).fit(X, y)
    masked = np.ma.masked_greater(X, 2.0)
    places = np.ma.count_masked(masked)
    for use in (
        lambda: StreamGPClassifier(**QUICK).fit(masked, y),
        lambda: streamgp.fit_stream((masked, y), **QUICK),
        lambda: model.predict(masked),
        lambda: model.evaluate_stream((masked, y)),
    ):
        with pytest.raises(NonFiniteDataError, match=rf"'X' is masked in {places} places.*filled"):
            use()
    with pytest.raises(TargetError, match=r"row 3 of 'y' has no label .*in all 1 rows"):
        StreamGPRegressor(**QUICK).fit(X, np.ma.masked_array(X[:, 0], np.arange(400) == 3))
    StreamGPClassifier(**QUICK).fit(np.ma.masked_array(X), y)  # nothing is hidden
    for use in (
        lambda: streamgp.fit_stream((scipy.sparse.csr_matrix(X), y), **QUICK),
        lambda: model.predict(scipy.sparse.csr_array(X)),
    ):
        with pytest.raises(StoreError, match=r"'X' is a sparse matrix: give X.toarray\(\)"):
            use()


def test_columns_that_hold_no_numbers_are_named(data):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, y = data
    frame = pd.DataFrame(X, columns=list("abc"))
    odd = {
        "when": pd.Timestamp("2020-01-01"),
        "kind": pd.Categorical(["u", "v"] * 200),
        "word": pd.Series(["u", "v"] * 200, dtype="string"),
    }
    for name, values in odd.items():
        for fit in (StreamGPClassifier(**QUICK).fit, lambda X, y: streamgp.fit_stream((X, y), **QUICK)):
            with pytest.raises(
                UnsupportedDtypeError, match=rf"hold no numbers: '{name}' \(.*streamgp.ingest"
            ):
                fit(frame.assign(**{name: values}), y)
    with pytest.raises(UnsupportedDtypeError, match=r"hold no numbers: 'w' \(String\)"):
        StreamGPClassifier(**QUICK).fit(pl.DataFrame({"a": X[:, 0], "w": ["u", "v"] * 200}), y)
    numbers = frame.assign(b=frame["b"] > 0, c=pd.array(np.arange(400) % 7, dtype="Int64"))
    StreamGPClassifier(**QUICK).fit(numbers, pd.Series(y, index=frame.index[::-1])).predict(numbers)


def test_targets_of_one_column_are_told_how_to_be_given(data):
    X, y = data
    with pytest.raises(StoreError, match=r"shape \(400, 1\).*take y\[:, 0\]"):
        streamgp.fit_stream((X, y[:, None]), **QUICK)
    with pytest.raises(StoreError, match=r"shape \(400, 2\).*choose one column"):
        streamgp.fit_stream((X, np.column_stack([y, y])), **QUICK)


@pytest.mark.parametrize("selection", ["ivm", "kmeans"])
def test_the_only_row_of_a_class_is_learned_from(data, selection):
    X, y = data
    X[9], y[9] = 30.0, 2
    settings = {**QUICK, "kernel": RBF(30.0, 1.0), "selection": selection}
    assert StreamGPClassifier(**settings).fit(X, y).predict(X[9:10]).tolist() == [2]


@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_as_many_classes_as_rows_can_be_fitted(data):
    model = StreamGPClassifier(**{**QUICK, "selection": "kmeans"}).fit(data[0][:60], np.arange(60))
    assert len(model.classes_) == 60


def test_the_default_asks_for_the_budget_that_the_smallest_method_needs(data):
    with pytest.raises(BudgetError) as raised:
        StreamGPClassifier(random_state=0, memory_budget="2MB").fit(*data)
    told = str(raised.value)
    assert "inference=" not in told
    assert "storage chunk" not in told
    assert int(told.split("memory_budget='")[1].split("MiB")[0]) < 20


def test_chunks_longer_than_their_arrays_are_planned_as_they_are_decoded(data, tmp_path):
    X, y = data
    rows = {}
    for name, chunks in (("as long", (400, 3)), ("longer", (10**6, 3)), ("wider", (400, 10**4))):
        group = zarr.open_group(tmp_path / f"{name}.zarr", mode="w")
        group.create_array("X", shape=X.shape, dtype=X.dtype, chunks=chunks)
        group.create_array("y", shape=y.shape, dtype=y.dtype, chunks=(400,))
        rows[name] = open_rows(tmp_path / f"{name}.zarr")
    group = zarr.open_group(tmp_path / "targets.zarr", mode="w")
    group.create_array("X", shape=X.shape, dtype=X.dtype, chunks=(400, 3))
    group.create_array("y", shape=y.shape, dtype=y.dtype, chunks=(10**6,))
    rows["targets"] = open_rows(tmp_path / "targets.zarr")
    assert {name: each.chunk_bytes() for name, each in rows.items()} == {
        "as long": 400 * 3 * 8,
        "longer": 10**6 * 3 * 8,
        "wider": 400 * 10**4 * 8,
        "targets": 400 * 3 * 8 + (10**6 - 400) * 8,
    }
    for name, fits in (("as long", True), ("longer", False), ("wider", False), ("targets", False)):
        demand = Demand(rows[name], RBF(), 20, 1, 8)
        if fits:
            make_plan(demand, 12 * 2**20, 1)
        else:
            with pytest.raises(BudgetError, match=r"beside a storage chunk of .* or store smaller ones"):
                make_plan(demand, 12 * 2**20, 1)


def test_damaged_metadata_of_an_array_is_told(data, make_store):
    store = make_store(*data)
    (store / "X" / "zarr.json").write_text("{")
    with pytest.raises(StoreError, match=r"metadata of array 'X' cannot be read .*restore its zarr.json"):
        streamgp.fit_stream(store, **QUICK)


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"checkpoint": 5}, "checkpoint must be None or the path of a folder, not 5"),
        ({"checkpoint": ""}, "checkpoint must be None or the path of a folder, not ''"),
        ({"inference": "fitc", "scratch": 5}, "scratch must be None or the path of a folder, not 5"),
        ({"progress": "x"}, "progress must be None, True, False or a Progress, not 'x'"),
        ({"random_state": -1}, "random_state must be None, an integer of at least 0 .* not -1"),
        ({"random_state": "a"}, "random_state must be None, an integer of at least 0 .* not 'a'"),
        ({"kernel": "poly"}, r"kernel='poly' is not known.*Polynomial\(...\)"),
        ({"likelihood": "ordinal"}, r"likelihood='ordinal' is not known.*Ordinal\(...\), Custom\(...\)"),
    ],
    ids=lambda value: repr(value) if isinstance(value, dict) else "",
)
def test_more_parameters_are_refused_by_name(data, tmp_path, monkeypatch, parameters, told):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match=told):
        StreamGPClassifier(**{**QUICK, **parameters}).fit(*data)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("names", [[], 5, ["X", 5]])
def test_names_of_arrays_are_strings(data, names):
    with pytest.raises(ParameterError, match="x must be the name of an array, or a list of names"):
        streamgp.fit_stream(data, x=names, **QUICK)


def test_a_kernel_is_known_by_its_own_name_too(data):
    assert StreamGPClassifier(**{**QUICK, "kernel": "RBF"}).fit(*data).kernel_ == RBF()


def test_a_density_of_ones_own_sees_targets_as_they_are_and_never_none(generator):
    X = generator.uniform(-3, 3, (300, 1))
    counts = generator.poisson(np.exp(1 + np.sin(2 * X[:, 0])))
    seen = []

    def log_density(targets, latent):
        seen.append((np.min(targets), np.max(targets)))  # has no answer for an empty array
        return targets * latent - np.exp(latent)

    StreamGPRegressor(**{**QUICK, "likelihood": Custom(log_density, name="counts")}).fit(X, counts)
    assert (min(low for low, _ in seen), max(high for _, high in seen)) == (counts.min(), counts.max())


def test_weights_that_are_refused_are_named_by_row(data):
    weight = np.ones(400)
    weight[7] = np.nan
    with pytest.raises(ParameterError, match="sample_weight of row 7 is nan; it must hold 400 numbers"):
        StreamGPClassifier(**QUICK).fit(*data, sample_weight=weight)


@pytest.mark.parametrize("chunk_rows", [100, 400])
def test_a_target_far_beyond_all_others_is_told_with_its_row(data, make_store, chunk_rows):
    X, _ = data
    y = X[:, 0].copy()
    y[[7, 300]] = 1e30, -1e9
    with pytest.warns(
        DataWarning, match=r"the target of row 300: -1000000000.0; the target of row 7: 1e\+30"
    ):
        StreamGPRegressor(**QUICK).fit_stream(make_store(X, y, chunk_rows=chunk_rows))
    StreamGPRegressor(**QUICK).fit(X, np.where(np.arange(400) == 3, 1e9, 0.0))  # two values, one of them rare
    StreamGPRegressor(**QUICK).fit(X, np.sort(X[:, 0]) ** 9)


def test_real_targets_of_two_values_are_told(data, make_store):
    X, y = data
    with pytest.warns(DataWarning, match=r"two values only, 0 and 1: .*task='classification'"):
        streamgp.fit_stream(make_store(X, y.astype(np.float64)), **QUICK)
    StreamGPRegressor(**QUICK).fit(X, y.astype(np.float64))  # it was asked for


WITHOUT_HELD_OUT_ROWS = {
    "pass": {"selection": "pass"},
    "fpass": {"selection": "fpass"},
    "local": {"selection": "auto", "inference": "local"},
    "ivm": {"validation": False},
}


def two_classes_numbers_three_classes(X, generator):
    yield StreamGPClassifier, (X[:, 0] > 0).astype(int), generator.integers(0, 2, len(X))
    yield StreamGPRegressor, X[:, 0], generator.standard_normal(len(X))
    yield StreamGPClassifier, np.digitize(X[:, 0], [-0.5, 0.5]), generator.integers(0, 3, len(X))


@pytest.mark.parametrize("name", WITHOUT_HELD_OUT_ROWS)
def test_fits_without_held_out_rows_say_too_that_they_learned_nothing(generator, name):
    X = generator.standard_normal((600, 3))
    settings = {**QUICK, **WITHOUT_HELD_OUT_ROWS[name], "n_active": 30}
    for kind, signal, noise in two_classes_numbers_three_classes(X, generator):
        with pytest.warns(
            NothingLearnedWarning, match=r"nothing: on \d+ rows, each left out, its log density"
        ):
            model = kind(**{**settings, "kernel": RBF(5.0, 0.05)}).fit(X, noise)
        [last] = [record for record in model.history_ if "left_out_baseline" in record]
        assert last["left_out_log_density"] == pytest.approx(last["left_out_baseline"], abs=0.05)
        with warnings.catch_warnings():
            warnings.simplefilter("error", NothingLearnedWarning)
            kind(**settings).fit(X, signal)
