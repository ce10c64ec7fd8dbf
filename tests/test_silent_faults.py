"""What used to be a wrong answer without a word: now an error or a warning that names it."""

from __future__ import annotations

import subprocess
import sys

import dask.array as da
import numpy as np
import pytest
import zarr

import streamgp
from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.data.rows import COMPLETE
from streamgp.errors import (
    CheckpointError,
    ChunkReadError,
    DataWarning,
    NonFiniteDataError,
    ParameterError,
    TargetError,
)
from streamgp.kernels import RBF

QUICK = {
    "selection": "ivm",
    "n_active": 20,
    "random_state": 0,
    "kernel": RBF(1.0, 1.0),
    "learn_hyperparameters": False,
}


@pytest.fixture
def data(generator):
    X = generator.standard_normal((600, 3))
    return X, (X[:, 0] + 0.3 * generator.standard_normal(600) > 0).astype(np.int64)


@pytest.fixture
def classifier(data):
    return StreamGPClassifier(**QUICK).fit(*data)


# Rows that the model cannot compute with.


@pytest.mark.parametrize("value", [np.nan, -np.inf, 1e300])
def test_predict_stream_refuses_a_bad_row_by_row_and_column(data, classifier, make_store, tmp_path, value):
    X, y = data
    X[333, 1] = value
    store = make_store(X, y)
    with pytest.raises(NonFiniteDataError, match=r"row 333, column 1.*on_bad_rows='nan'"):
        classifier.predict_stream(store, tmp_path / "out.zarr")
    assert not (tmp_path / "out.zarr").exists()
    with pytest.raises(NonFiniteDataError, match="row 333, column 1"):
        classifier.evaluate_stream(store)


def test_bad_rows_can_be_written_as_nan_and_are_counted(data, classifier, make_store, tmp_path):
    X, y = data
    good = classifier.predict_proba(X)
    X[[5, 333], [0, 1]] = np.nan, np.inf
    store = make_store(X, y)
    with pytest.warns(DataWarning, match="2 rows"):
        classifier.predict_stream(store, tmp_path / "out.zarr", on_bad_rows="nan")
    out = zarr.open_group(tmp_path / "out.zarr", mode="r")
    bad = np.isin(np.arange(600), [5, 333])
    assert out.attrs["streamgp_bad_rows"] == 2
    assert (out["label"][:][bad] == -1).all()
    assert np.isnan(out["probability"][:][bad]).all()
    np.testing.assert_allclose(out["probability"][:][~bad], good[~bad], rtol=1e-5)
    with pytest.warns(DataWarning, match="2 rows"):
        score = classifier.evaluate_stream(store, on_bad_rows="nan")
    assert score.rows == 598
    assert np.isfinite(score.log_loss)
    with pytest.raises(ParameterError, match="'raise' or 'nan'"):
        classifier.evaluate_stream(store, on_bad_rows="skip")


def test_regression_refuses_or_marks_bad_rows_and_bad_targets(generator, make_store, tmp_path):
    X = generator.standard_normal((300, 2))
    y = X[:, 0] + 0.1 * generator.standard_normal(300)
    model = StreamGPRegressor(**QUICK).fit(X, y)
    y[7] = np.nan
    store = make_store(X, y)
    with pytest.raises(NonFiniteDataError, match="row 7, the target"):
        model.evaluate_stream(store)
    X[200, 1] = np.nan
    store = make_store(X, y)
    with pytest.raises(NonFiniteDataError, match="row 200, column 1"):
        model.predict_stream(store, tmp_path / "raise.zarr")
    with pytest.warns(DataWarning, match="1 rows"):
        model.predict_stream(store, tmp_path / "nan.zarr", on_bad_rows="nan")
    out = zarr.open_group(tmp_path / "nan.zarr", mode="r")
    assert np.flatnonzero(np.isnan(out["mean"][:])).tolist() == [200]
    with pytest.warns(DataWarning, match="2 rows"):
        assert model.evaluate_stream(store, on_bad_rows="nan").rows == 298


def test_a_block_of_nothing_but_bad_rows_is_left_out(data, classifier, make_store):
    X, y = data
    X[:] = np.nan
    X[:3] = 0.0
    with pytest.warns(DataWarning, match="597 rows"):
        assert classifier.evaluate_stream(make_store(X, y, chunk_rows=50), on_bad_rows="nan").rows == 3


# Checkpoints belong to their data.


def test_a_checkpoint_is_bound_to_every_value_in_its_row(data, tmp_path):
    X, y = data
    settings = {**QUICK, "checkpoint": tmp_path / "c"}
    StreamGPClassifier(**settings).fit(X, y)
    permuted, moved, touched = y.copy(), X[::-1], X.copy()
    first, second = np.flatnonzero(y == 0)[0], np.flatnonzero(y == 1)[0]
    permuted[[first, second]] = permuted[[second, first]]
    touched[17, 2] = np.nextafter(touched[17, 2], 9)
    for features, labels, named in (
        (X, permuted, "targets_checksum"),
        (moved, y, "features_checksum"),
        (touched, y, "features_checksum"),
    ):
        with pytest.raises(CheckpointError, match=f"data.{named}"):
            StreamGPClassifier(**settings).fit(features, labels)
    StreamGPClassifier(**settings).fit(X, y)


def test_weights_and_rows_held_out_are_part_of_a_checkpoint(data, tmp_path):
    X, y = data
    settings = {**QUICK, "inference": "fitc", "checkpoint": tmp_path / "c", "validation": np.arange(50)}
    weight = np.linspace(1, 2, 600)
    StreamGPClassifier(**settings).fit(X, y, sample_weight=weight)
    with pytest.raises(CheckpointError, match="sample_weight"):
        StreamGPClassifier(**settings).fit(X, y, sample_weight=weight[::-1])
    with pytest.raises(CheckpointError, match="validation"):
        StreamGPClassifier(**{**settings, "validation": np.arange(1, 51)}).fit(X, y, sample_weight=weight)


# Chunks that are not there.


def remove(path, name, number):
    [chunk] = (
        [*(path / name / "c" / str(number)).rglob("*")] if name == "X" else [path / name / "c" / str(number)]
    )
    chunk.unlink()


def test_a_lost_chunk_of_features_is_refused_unless_allowed(data, make_store):
    store = make_store(*data)
    remove(store, "X", 2)
    with pytest.raises(ChunkReadError, match=r"chunk 2 of 'X'.*allow_missing_chunks=True"):
        StreamGPClassifier(**QUICK).fit_stream(store)
    with pytest.warns(DataWarning, match="chunk 2 of 'X'"):
        StreamGPClassifier(**QUICK).fit_stream(store, allow_missing_chunks=True)
    with pytest.warns(DataWarning, match="chunk 2 of 'X'"):
        streamgp.fit_stream(store, allow_missing_chunks=True, **QUICK)


def test_a_lost_chunk_of_labels_is_refused_where_its_fill_value_is_no_label(data, make_store):
    X, y = data
    store = make_store(X, y + 1)  # labels 1 and 2; a lost chunk reads 0
    remove(store, "y", 3)
    with pytest.raises(ChunkReadError, match=r"chunk 3 of 'y'.*read as .*0"):
        StreamGPClassifier(**QUICK).fit_stream(store)
    words = make_store(X, np.where(y == 1, "yes", "no"))
    remove(words, "y", 3)
    with pytest.raises(ChunkReadError, match="chunk 3 of 'y'"):
        StreamGPClassifier(**QUICK).fit_stream(words)


def test_a_lost_chunk_of_labels_that_may_be_fill_value_is_a_warning(data, make_store):
    store = make_store(*data)
    remove(store, "y", 3)
    with pytest.warns(DataWarning, match="chunk 3 of 'y'"):
        StreamGPClassifier(**QUICK).fit_stream(store)


@pytest.mark.parametrize("zeros", [250, 300])  # a chunk of both labels, and none
def test_sorted_labels_still_fit(data, make_store, zeros):
    X, _ = data
    y = (np.arange(600) >= zeros).astype(np.int64)
    X = X + 3 * y[:, None]
    store = make_store(X, y, write_empty_chunks=False)
    assert not (store / "y" / "c" / "0").exists()  # Zarr writes no chunk of nothing but fill value
    with pytest.warns(DataWarning, match="chunks 0, 1"):
        model = StreamGPClassifier(**QUICK).fit_stream(store)
    assert model.score(X, y) > 0.8


def test_a_manifest_decides_about_missing_chunks(data, make_store):
    X, _ = data
    y = (np.arange(600) >= 250).astype(np.int64)
    store = make_store(X + y[:, None], y, write_empty_chunks=False)
    zarr.open_group(store).attrs[COMPLETE] = True
    with pytest.raises(ChunkReadError, match="written completely"):
        StreamGPClassifier(**QUICK).fit_stream(store)


def test_a_missing_chunk_is_told_when_predicting(data, classifier, make_store, tmp_path):
    store = make_store(*data)
    remove(store, "X", 2)
    with pytest.raises(ChunkReadError, match="chunk 2 of 'X'"):
        classifier.evaluate_stream(store)
    with pytest.warns(DataWarning, match="chunk 2 of 'X'"):
        classifier.predict_stream(store, tmp_path / "out.zarr")


# Values far beyond all others.


@pytest.mark.parametrize("value", [1e30, -1e20])
def test_an_outlier_is_told_with_column_row_and_value(data, make_store, value):
    X, y = data
    X[77, 2] = value
    with pytest.warns(DataWarning, match=rf"column 2.*row 77.*{value!r}".replace("+", r"\+")):
        StreamGPClassifier(**QUICK).fit_stream(make_store(X, y))


def test_a_flipped_exponent_bit_is_told(data):
    X, y = data
    X = X.astype(np.float32)
    X.view(np.uint32)[123, 0] ^= np.uint32(1 << 29)
    assert abs(X[123, 0]) > 1e15 or abs(X[123, 0]) < 1e-15
    if abs(X[123, 0]) < 1:
        X[123, 0] = 1 / X[123, 0]
    with pytest.warns(DataWarning, match=r"column 0.*row 123"):
        StreamGPClassifier(**QUICK).fit(X, y)


def test_constant_and_two_valued_and_sparse_columns_are_no_outliers(data):
    X, y = data
    X = np.column_stack([X, np.zeros(600), np.where(np.arange(600) == 5, 1e9, 0), np.arange(600) < 3])
    StreamGPClassifier(**QUICK).fit(X, y)


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_columns_that_arithmetic_cannot_hold_are_refused(data, scale):
    X, y = data
    X[:, 1] *= scale
    with pytest.raises(NonFiniteDataError, match=r"row \d+, column 1 cannot be computed with"):
        StreamGPClassifier(**QUICK).fit(X, y)


def test_values_beyond_float32_are_refused_where_they_are_not_rescaled(data):
    X, y = data
    X[9, 0] = 1e39
    with pytest.raises(NonFiniteDataError, match=r"1e\+39 at row 9, column 0"):
        StreamGPClassifier(**QUICK, standardize=False).fit(X, y)
    with pytest.raises(TargetError, match="too large"):
        StreamGPRegressor(**QUICK).fit(np.delete(X, 9, 0), np.delete(X[:, 1], 9) * 1e300)


# Lazy arrays stay lazy, and every kind of store is opened.


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_every_kind_of_store_gives_the_same_model(data, make_store, tmp_path):
    dd, pd, xr = (pytest.importorskip(name) for name in ("dask.dataframe", "pandas", "xarray"))
    X, y = data
    path = make_store(X, y)
    expected = StreamGPClassifier(**QUICK).fit_stream(path).predict_proba(X)
    group = zarr.open_group(path, mode="r")
    columns = zarr.open_group(tmp_path / "columns.zarr", mode="w")
    for name, values in (*zip("abc", X.T, strict=True), ("y", y)):
        columns.create_array(name, data=values, chunks=(100,))
    zipped = zarr.storage.ZipStore(tmp_path / "store.zip", mode="w")
    whole = zarr.create_group(zipped)
    whole.create_array("X", data=X, chunks=(100, 3))
    whole.create_array("y", data=y, chunks=(100,), config={"write_empty_chunks": True})
    zipped.close()
    dataset = xr.Dataset({"X": (("row", "column"), X), "y": ("row", y)})
    dataset.to_zarr(tmp_path / "xarray.zarr", consolidated=False)
    lazily = xr.open_zarr(tmp_path / "xarray.zarr", consolidated=False, chunks=None)
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abc")).assign(y=y), npartitions=4)
    stores = {
        "dataset": (dataset, "X"),
        "lazy dataset": (lazily, "X"),
        "data arrays": ((lazily["X"], lazily["y"]), "X"),
        "columns": (columns, ["a", "b", "c"]),
        "zip": (tmp_path / "store.zip", "X"),
        "store object": (zarr.storage.LocalStore(path), "X"),
        "frame": ((frame[list("abc")], frame["y"]), "X"),
        "zarr arrays": ((group["X"], group["y"]), "X"),
    }
    for name, (store, x) in stores.items():
        model = StreamGPClassifier(**QUICK).fit_stream(store, x)
        np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-9, err_msg=name)
    model = StreamGPClassifier(**QUICK).fit(group["X"], group["y"])
    np.testing.assert_allclose(model.predict_proba(group["X"]), expected, rtol=1e-9)
    np.testing.assert_allclose(model.predict_proba(lazily["X"]), expected, rtol=1e-9)
    np.testing.assert_allclose(model.predict_proba(frame[list("abc")]).compute(), expected, rtol=1e-9)
    assert isinstance(model.predict(frame[list("abc")]), da.Array)


LAZY = """
import sys
import numpy as np, zarr
import dask.array as da, dask.dataframe as dd, xarray as xr
from streamgp import StreamGPClassifier
from streamgp.budget import peak_memory

X = np.random.default_rng(0).standard_normal((3000, 50))
model = StreamGPClassifier(20, random_state=0, memory_budget="64MiB", learn_hyperparameters=False)
model.fit(X, X[:, 0] > 0).predict(X)
small = zarr.open_group(sys.argv[1] + "/small.zarr", mode="r")
lazily = xr.open_zarr(sys.argv[1] + "/small.zarr", consolidated=False, chunks=None)
frame = dd.from_dask_array(da.from_zarr(small["X"]))
for lazy in (small["X"], lazily["X"], frame):
    np.asarray(model.predict(lazy))
before = peak_memory()
large = zarr.open_group(sys.argv[1] + "/large.zarr", mode="r")
lazily = xr.open_zarr(sys.argv[1] + "/large.zarr", consolidated=False, chunks=None)
frame = dd.from_dask_array(da.from_zarr(large["X"]))
for lazy in (large["X"], lazily["X"], frame):
    np.asarray(model.predict(lazy))
    print((peak_memory() - before) / 2**20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read as Linux tells it")
def test_lazy_arrays_are_not_read_into_memory(tmp_path):
    for name in ("xarray", "dask.dataframe"):
        pytest.importorskip(name)
    for name, rows in (("small", 20_000), ("large", 600_000)):
        xr = pytest.importorskip("xarray")
        values = da.random.default_rng(0).standard_normal((rows, 50), chunks=(10_000, 50), dtype=np.float64)
        dataset = xr.Dataset({"X": (("row", "column"), values)})
        dataset.to_zarr(tmp_path / f"{name}.zarr", consolidated=False)
    done = subprocess.run([sys.executable, "-c", LAZY, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    grown = [float(line) for line in done.stdout.split()]
    assert max(grown) < 100, grown  # the array is 229 MiB
