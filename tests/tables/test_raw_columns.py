"""A model fitted to an ingested store predicts from raw columns, before and after it was saved."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
import zarr

import streamgp
from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.errors import StoreError, TableError
from tests.tables.conftest import make_frame


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("raw")


@pytest.fixture(scope="module")
def model(frame, place):
    """Fitted, saved and read again; its store has the rows in their order."""
    streamgp.ingest(frame, place / "train.zarr", target="late", test="20%")
    fitted = streamgp.fit_stream(
        place / "train.zarr", n_active=30, learn_hyperparameters=False, random_state=0
    )
    fitted.save(place / "model.zip")
    return streamgp.load(place / "model.zip")


@pytest.fixture(scope="module")
def new_rows():
    """Rows of another draw: some with categories and gaps that the training rows do not have."""
    frame = make_frame(400, seed=1)
    frame.loc[3, "airport"] = "NEW"
    frame.loc[4, "carrier"] = "??"
    frame.loc[5, ["distance", "carrier", "when"]] = None
    return frame


def test_raw_columns_give_the_features_of_the_store(model, frame, place):
    from streamgp.tables.again import encoded
    from streamgp.tables.keys import RowDraws

    stored = zarr.open_group(place / "train.zarr")["test/X"][:]
    test = frame[RowDraws(0, 0.2).in_test(0, len(frame))]
    np.testing.assert_array_equal(encoded(model.model_.column_recipe, test), stored)
    np.testing.assert_array_equal(model.predict_proba(test), model.predict_proba(stored))
    from_store, from_frame = (model.evaluate_stream(s) for s in (place / "train.zarr" / "test", test))
    assert from_store.error == from_frame.error
    # Chunks of a store and rows of a frame are summed in other parts.
    assert from_store.log_loss == pytest.approx(from_frame.log_loss, rel=1e-12)
    assert model.score(test, test["late"]) == pytest.approx(1 - from_frame.error)


def test_every_form_of_raw_columns_gives_the_same_predictions(model, new_rows, tmp_path):
    import dask.dataframe

    expected = model.predict_proba(new_rows)
    assert expected.shape == (400, 2)
    new_rows.to_parquet(tmp_path / "new.parquet")
    new_rows.to_csv(tmp_path / "new.csv.gz", index=False)
    shuffled_columns = new_rows[sorted(new_rows.columns)].assign(unused=1)
    for form in (
        polars.from_pandas(new_rows),
        pa.Table.from_pandas(new_rows),
        dask.dataframe.from_pandas(new_rows, npartitions=3),
        shuffled_columns,
        tmp_path / "new.parquet",
        str(tmp_path / "new.csv.gz"),
    ):
        np.testing.assert_array_equal(model.predict_proba(form), expected)
    labels = model.predict(new_rows.drop(columns="late"))
    assert set(labels) <= {"yes", "no"}
    np.testing.assert_array_equal(model.classes_[expected.argmax(axis=1)], labels)


def test_streams_of_raw_columns(model, new_rows, tmp_path):
    new_rows.to_parquet(tmp_path / "new.parquet")
    model.predict_stream(tmp_path / "new.parquet", tmp_path / "out.zarr")
    written = zarr.open_group(tmp_path / "out.zarr")["probability"][:]
    np.testing.assert_allclose(written, model.predict_proba(new_rows), rtol=1e-5, atol=1e-7)
    gaps = new_rows.assign(late=new_rows["late"].where(new_rows.index >= 100))
    assert model.evaluate_stream(gaps).rows == 300
    renamed = new_rows.rename(columns={"late": "delayed"})
    assert model.evaluate_stream(renamed, y="delayed").rows == 400
    assert not list(tmp_path.glob("streamgp-columns-*"))


def test_unseen_and_missing_values_have_documented_features(model, new_rows):
    from streamgp.tables.again import encoded

    features = pd.DataFrame(encoded(model.model_.column_recipe, new_rows), columns=model.feature_names_in_)
    overall = model.model_.column_recipe["columns"][5]["means"][-1][0]
    assert features.loc[3, "airport mean"] == pytest.approx(overall)
    assert features.loc[3, "airport missing"] == 0
    carriers = [name for name in features if name.startswith("carrier=")]
    assert features.loc[[4, 5], carriers].to_numpy().sum() == 0
    assert np.isfinite(features.to_numpy()).all()
    assert features.loc[5, "when day sin"] == 0


def test_wrong_raw_columns_are_refused_by_name(model, new_rows):
    with pytest.raises(TableError, match=r"no column 'stops', 'when'"):
        model.predict(new_rows.drop(columns=["stops", "when"]))
    with pytest.raises(TableError, match=r"column 'distance': its values are of type .*string, not numbers"):
        model.predict(new_rows.assign(distance="far"))
    with pytest.raises(TableError, match="column 'distance': it holds infinity"):
        model.predict(new_rows.assign(distance=np.inf))
    with pytest.raises(TableError, match="has no rows"):
        model.predict(new_rows[:0])


def test_names_of_features_survive(model, place, frame, tmp_path):
    names = list(model.feature_names_in_)
    assert names == zarr.open_group(place / "train.zarr").attrs["feature_names"]
    plain = frame[["distance", "stops", "night"]].astype(float)
    regressor = StreamGPRegressor(20, learn_hyperparameters=False, random_state=0)
    regressor.fit(plain, frame["distance"] / 100)
    regressor.save(tmp_path / "model.zip")
    loaded = streamgp.load(tmp_path / "model.zip")
    assert list(loaded.feature_names_in_) == list(plain.columns)
    np.testing.assert_array_equal(loaded.predict(plain[:5]), regressor.predict(plain[:5]))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(plain.rename(columns={"stops": "halts"}))
    regressor.fit_stream((plain.to_numpy(), frame["distance"].to_numpy()))
    assert not hasattr(regressor, "feature_names_in_")
    regressor.fit_stream((plain, frame["distance"].to_numpy()))
    assert list(regressor.feature_names_in_) == list(plain.columns)


def test_missing_values_stay_refused_where_the_store_refused_them(frame, tmp_path):
    whole = frame[["distance", "carrier", "late"]]
    streamgp.ingest(whole, tmp_path / "a.zarr", target="late", missing="refuse")
    model = StreamGPClassifier(20, learn_hyperparameters=False, random_state=0).fit_stream(
        tmp_path / "a.zarr"
    )
    model.predict(whole[:10])
    with pytest.raises(TableError, match="column 'carrier': values are missing"):
        model.predict(whole.assign(carrier=None)[:10])


def test_raw_columns_without_a_recipe_say_what_to_do(frame, parquet):
    with pytest.raises(StoreError, match=r"streamgp\.ingest\('.*flights\.parquet', 'new\.zarr', target="):
        streamgp.fit_stream(parquet, y="late")
    X = frame[["distance", "stops"]].to_numpy(float)
    model = StreamGPClassifier(20, learn_hyperparameters=False, random_state=0).fit(X, frame["late"])
    with pytest.raises(TableError, match=r"not fitted to a store that streamgp\.ingest made"):
        model.predict_stream(parquet, "never.zarr")
    with pytest.raises(TableError, match=r"not fitted to a store that streamgp\.ingest made"):
        model.predict(str(parquet))


def test_a_report_of_raw_columns_moves_times_of_day_and_names_the_target(model, frame, tmp_path):
    pytest.importorskip(
        "matplotlib", reason="reports are drawn by matplotlib, which the extra 'report' brings"
    )
    model.report(tmp_path / "report.html", frame[:300])
    text = (tmp_path / "report.html").read_text()
    assert "<h1>A model of 2 classes: late</h1>" in text
    assert "Effect of when " in text
    assert "when day sin on p(" not in text
    assert "the day<" in text or "the week" in text or "the year<" in text
