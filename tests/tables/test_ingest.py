"""From raw columns to a store: every source alike, in any pieces, nothing leaked, nothing half done."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import zarr

import streamgp
from streamgp.errors import BudgetError, ChunkReadError, ParameterError, StoreError, TableError
from streamgp.tables import encodings, keys, reader, store
from streamgp.tables.chunks import rows_per_chunk
from streamgp.tables.survey import NumberFacts


def contents(path):
    """All that a store says, as plain values."""
    group = zarr.open_group(path, mode="r")
    parts = [group, *(member for _, member in group.groups())]
    return [(part["X"][:], np.asarray(part["y"][:]).tolist(), part.attrs["feature_names"]) for part in parts]


def assert_same_stores(first, second):
    for (X, y, names), (X2, y2, names2) in zip(contents(first), contents(second), strict=True):
        np.testing.assert_array_equal(X, X2)
        assert y == y2
        assert names == names2


def ingested(source, path, **options):
    streamgp.ingest(source, path, **{"target": "late", "test": "20%", "shuffle": True, **options})
    return path


@pytest.fixture(scope="module")
def expected(parquet, tmp_path_factory):
    return ingested(parquet, tmp_path_factory.mktemp("expected") / "flights.zarr")


def csv(frame, tmp_path):
    frame.to_csv(tmp_path / "flights.csv", index=False)
    return tmp_path / "flights.csv"


def packed_csv(frame, tmp_path):
    path = tmp_path / "flights.csv.gz"
    path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
    return path


def feather(frame, tmp_path):
    pyarrow.feather.write_feather(frame, tmp_path / "flights.feather", chunksize=700)
    return tmp_path / "flights.feather"


def arrow_stream(frame, tmp_path):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    with pa.ipc.new_stream(tmp_path / "flights.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=900)
    return tmp_path / "flights.arrow"


def small_row_groups(frame, tmp_path):
    frame.to_parquet(tmp_path / "flights.parquet", index=False, row_group_size=333)
    return tmp_path / "flights.parquet"


def folder_of_parquet(frame, tmp_path):
    for number, start in enumerate(range(0, len(frame), 1100)):
        (tmp_path / "all" / f"day={number}").mkdir(parents=True)
        path = tmp_path / "all" / f"day={number}" / "part.parquet"
        frame.iloc[start : start + 1100].to_parquet(path, index=False)
    return tmp_path / "all"


def list_of_files(frame, tmp_path):
    frame[:1000].to_parquet(tmp_path / "a.parquet", index=False)
    frame[1000:].to_csv(tmp_path / "b.csv", index=False)
    return [tmp_path / "a.parquet", tmp_path / "b.csv"]


def dask_frame(frame, tmp_path):
    import dask.dataframe

    return dask.dataframe.from_pandas(frame, npartitions=4)


SOURCES = {
    "pandas": lambda frame, tmp_path: frame,
    "polars": lambda frame, tmp_path: polars.from_pandas(frame),
    "pyarrow": lambda frame, tmp_path: pa.Table.from_pandas(frame, preserve_index=False),
    "categories": lambda frame, tmp_path: frame.astype({"carrier": "category", "late": "category"}),
    **{
        make.__name__: make
        for make in (csv, packed_csv, feather, arrow_stream, small_row_groups, list_of_files, dask_frame)
    },
}


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_every_source_gives_the_same_store(make, frame, expected, tmp_path, out):
    assert_same_stores(ingested(make(frame, tmp_path), out()), expected)


def test_folders_that_say_values_are_columns(frame, expected, tmp_path, out):
    folder = folder_of_parquet(frame, tmp_path)
    assert_same_stores(ingested(folder, out(), drop=["day"]), expected)
    [(X, _, names), _] = contents(ingested(folder, out(), shuffle=False))
    assert sorted(set(X[:, names.index("day")])) == [0, 1, 2]


def test_arrays_and_zarr_columns_give_the_same_store(generator, tmp_path, out):
    X, y = generator.standard_normal((900, 3)), generator.integers(0, 2, 900)
    np.savez_compressed(tmp_path / "a.npz", X=X, y=y)
    np.save(tmp_path / "a.npy", np.column_stack([X, y]))
    group = zarr.open_group(tmp_path / "columns.zarr", mode="w")
    for place in range(3):
        group.create_array(f"X{place}", data=X[:, place], chunks=(100,))
    group.create_array("y", data=y, chunks=(100,))
    first = ingested(tmp_path / "a.npz", out(), target="y")
    assert_same_stores(ingested(tmp_path / "columns.zarr", out(), target="y"), first)
    assert_same_stores(
        ingested({"X0": X[:, 0], "X1": X[:, 1], "X2": X[:, 2], "y": y}, out(), target="y"), first
    )
    whole = contents(ingested(tmp_path / "a.npy", out(), target="x3", task="classification"))
    np.testing.assert_array_equal(whole[0][0], contents(first)[0][0])
    assert whole[0][1] == contents(first)[0][1]


def test_batches_and_chunks_change_only_the_chunks(parquet, expected, out, monkeypatch):
    path = ingested(parquet, out(), rows_per_chunk=100, memory_budget="400MiB")
    assert zarr.open_group(path)["X"].chunks[0] == 100
    assert_same_stores(path, expected)
    monkeypatch.setattr(reader, "BATCH_BYTES", 2**14)  # 256 rows; sums of the survey may differ by rounding
    for (X, y, _), (X2, y2, _) in zip(contents(ingested(parquet, out())), contents(expected), strict=True):
        np.testing.assert_allclose(X, X2, rtol=1e-6)
        assert y == y2


def test_split_and_shuffle_keep_every_row_once(frame, parquet, expected, out):
    train, test = contents(expected)
    assert 0.15 < len(test[1]) / len(frame) < 0.25
    place = train[2].index("distance")
    both = np.concatenate([train[0][:, place], test[0][:, place]])
    np.testing.assert_allclose(np.sort(both), np.sort(frame["distance"]), rtol=1e-6)
    [(ordered, *_), _] = contents(ingested(parquet, out(), shuffle=False))
    shuffled = train[0][:, place]
    assert sorted(shuffled) == sorted(ordered[:, place])
    assert abs(np.corrcoef(np.arange(len(shuffled)), np.argsort(np.argsort(shuffled)))[0, 1]) < 0.1
    in_test = keys.RowDraws(0, 0.2).in_test(0, len(frame))
    np.testing.assert_array_equal(ordered[:, place], frame["distance"][~in_test].astype("f4"))
    other = contents(ingested(parquet, out(), random_state=1))
    assert other[1][1] != test[1]


def test_draws_of_rows_do_not_depend_on_where_a_piece_starts():
    draws = keys.RowDraws(3, 0.1)
    whole = draws.order(0, 1000)
    assert len(set(whole.tolist())) == 1000
    np.testing.assert_array_equal(np.concatenate([draws.order(0, 17), draws.order(17, 1000)]), whole)
    assert abs(draws.in_test(0, 100_000).mean() - 0.1) < 0.005
    assert abs(np.bincount(draws.folds(0, 100_000)) / 100_000 - 0.2).max() < 0.01
    assert abs(np.corrcoef(draws.folds(0, 10_000), draws.in_test(0, 10_000))[0, 1]) < 0.04


def test_columns_are_encoded_as_documented(frame, parquet, out):
    summary = streamgp.ingest(parquet, out(), target="late")
    X, y, names = contents(summary.out)[0]
    column = dict(zip(names, X.T, strict=True))
    assert y == frame["late"].tolist()
    absent = frame["weight"].isna()
    np.testing.assert_array_equal(column["weight missing"], absent)
    np.testing.assert_allclose(column["weight"][absent], frame["weight"].mean(), rtol=1e-5)
    np.testing.assert_array_equal(column["carrier=Ć, D"], frame["carrier"] == "Ć, D")
    np.testing.assert_array_equal(column["night"], frame["night"])
    when = frame["when"]
    hours = when.dt.hour + when.dt.minute / 60 + when.dt.second / 3600
    np.testing.assert_allclose(column["when day sin"], np.sin(2 * np.pi * hours / 24), atol=1e-6)
    np.testing.assert_allclose(
        column["when week cos"], np.cos(2 * np.pi * when.dt.day_of_week / 7), atol=1e-6
    )
    days = (when - when.min().floor("D")) / pd.Timedelta("1D")
    np.testing.assert_allclose(column["when days"], days, rtol=1e-6)
    assert "airport=P00" not in names
    told = {entry["name"]: entry for entry in json.loads(json.dumps(summary.to_dict()))["columns"]}
    assert told["airport"]["done"] == "target-mean"
    assert told["airport"]["categories"] == 40
    assert told["airport"]["missing"] == int(frame["airport"].isna().sum())
    assert "airport: target-mean of 40 categories" in repr(summary)


def test_target_means_are_those_of_other_folds(frame, out):
    """The plain version: for every row, the mean over training rows of other folds."""
    path = ingested(frame, out(), shuffle=False)
    draws = keys.RowDraws(0, 0.2)
    in_test, folds = draws.in_test(0, len(frame)), draws.folds(0, len(frame))
    late, airport = (frame["late"] == "yes").to_numpy(float), frame["airport"].fillna("").to_numpy()
    means = []
    for row in range(len(frame)):
        others = ~in_test & (in_test[row] | (folds != folds[row]))
        here = others & (airport == airport[row])
        overall = late[others].mean()
        known = airport[row] != ""
        means.append((late[here].sum() + 20 * overall) / (here.sum() + 20) if known else overall)
    (X, _, names), (X_test, _, _) = contents(path)
    place = names.index("airport mean")
    np.testing.assert_allclose(X[:, place], np.array(means)[~in_test], rtol=1e-6)
    np.testing.assert_allclose(X_test[:, place], np.array(means)[in_test], rtol=1e-6)


@pytest.mark.parametrize("kind", ["classes", "real"])
def test_a_random_column_of_many_categories_tells_nothing(kind, generator, out):
    n = 20_000
    noise = generator.standard_normal(n) if kind == "real" else np.where(generator.random(n) < 0.3, "a", "b")
    table = {"key": [f"k{number}" for number in generator.integers(0, 5000, n)], "late": noise}
    path = ingested(table, out(), test=None)
    [(X, y, _)] = contents(path)
    target = np.array(y) if kind == "real" else np.array(y) == "b"
    assert abs(np.corrcoef(X[:, 0], target)[0, 1]) < 4 / np.sqrt(n)


def test_many_classes_have_a_mean_each(generator, out):
    n = 2000
    city = generator.integers(0, 30, n)
    y = np.where(generator.random(n) < 0.7, city % 3, generator.integers(0, 3, n))
    table = {"city": [f"c{number}" for number in city], "y": y}
    [(X, stored, names)] = contents(ingested(table, out(), target="y", test=None, shuffle=False))
    assert names == ["city mean 0", "city mean 1", "city mean 2"]
    np.testing.assert_allclose(X.sum(axis=1), 1, rtol=1e-5)
    assert np.mean(np.argmax(X, axis=1) == stored) > 0.6
    coarse = ingested(table, out(), target="y", test=None, categorical=50)
    assert len(contents(coarse)[0][2]) == 30


def test_numbers_can_be_named_as_categories(frame, out):
    [(X, _, names)] = contents(ingested(frame, out(), test=None, categorical={"stops": "one-hot"}))
    chosen = [name for name in names if name.startswith("stops")]
    assert chosen == ["stops=0", "stops=1", "stops=2", "stops=3"]
    assert set(X[:, [names.index(name) for name in chosen]].sum(axis=1)) == {1.0}


def test_numbers_that_float32_would_blur_are_kept(out):
    big = 1e9 + np.arange(2000.0)
    path = ingested({"t": big, "late": np.arange(2000) % 2}, out(), test=None, shuffle=False)
    [(X, _, _)] = contents(path)
    assert X.dtype == np.float64
    np.testing.assert_array_equal(X[:, 0], big)


def test_text_in_a_late_row_decides_the_type_of_a_csv_column(tmp_path, out, monkeypatch):
    from streamgp.tables import files

    monkeypatch.setattr(files, "_CSV_BLOCK", 2000)
    lines = [f"{row},{row}.5,2024-01-{1 + row % 28:02d},{row % 2}" for row in range(1000)]
    lines[990] = '"n, a",7,,1'
    lines[991] = "12,,2024-02-01,0"
    (tmp_path / "a.csv").write_text("\n".join(["code,number,day,y", *lines]))
    summary = streamgp.ingest(tmp_path / "a.csv", out(), target="y")
    kinds = {column.name: (column.type, column.done, column.missing) for column in summary.columns}
    assert kinds["code"] == ("string", "target-mean", 0)
    assert kinds["number"] == ("double", "number", 1)
    assert kinds["day"] == ("timestamp[us]", "date", 1)


def test_rows_without_a_target_are_left_out(frame, out):
    gaps = frame.assign(late=frame["late"].where(frame.index % 10 != 0))
    summary = streamgp.ingest(gaps, out(), target="late")
    assert summary.rows_without_target == 300
    assert summary.rows == 2700
    with pytest.raises(TableError, match="target 'late' is missing in 300 rows"):
        streamgp.ingest(gaps, out(), target="late", missing="refuse", features=["distance"])


def test_targets_keep_their_type(frame, out):
    options = {"target": "y", "features": ["distance"], "test": None, "shuffle": False}

    def stored(values, **more):
        return zarr.open_group(ingested(frame.assign(y=values), out(), **options, **more))["y"]

    assert stored(frame["stops"]).dtype == np.int64
    assert stored(frame["night"]).dtype == bool
    assert stored(frame["distance"] / 3).dtype == np.float64
    assert stored(frame["stops"], task="regression").dtype == np.float64
    assert stored(frame["stops"].astype(float), task="classification").dtype == np.int64
    with pytest.raises(TableError, match=r"no integers.*task='regression'"):
        stored(frame["distance"], task="classification")
    with pytest.raises(TableError, match="holds strings"):
        stored(frame["carrier"], task="regression")


def test_columns_are_refused_by_name(frame, out):
    bad = frame[["distance", "carrier", "late"]].assign(
        bound=np.where(frame.index == 7, np.inf, 1.0), parts=[[1, 2]] * len(frame), gap=frame["weight"]
    )
    with pytest.raises(TableError, match=r"'bound': it holds infinity.*'parts': its type is list.*drop="):
        streamgp.ingest(bad, out(), target="late")
    plain = bad.drop(columns=["bound", "parts"])
    with pytest.raises(TableError, match=r"'gap': \d+ of its values are missing"):
        streamgp.ingest(plain, out(), target="late", missing="refuse")
    with pytest.raises(TableError, match="'carrier': it holds 3 categories"):
        streamgp.ingest(plain, out(), target="late", categorical="refuse")
    many = plain.assign(late=frame["airport"])
    with pytest.raises(TableError, match=r"'carrier'.*40 classes"):
        streamgp.ingest(many, out(), target="late", categorical="target-mean")
    with pytest.raises(TableError, match=r"no column 'nothing', 'never'"):
        streamgp.ingest(plain, out(), target="nothing", drop=["never"])
    with pytest.raises(TableError, match="the same name: 'gap missing'"):
        streamgp.ingest(plain.assign(**{"gap missing": 1.0}), out(), target="late")


def test_columns_that_say_nothing_are_dropped_and_told(frame, out):
    table = frame[["distance", "late"]].assign(none=None, same="x")
    summary = streamgp.ingest(table, out(), target="late")
    assert summary.feature_names == ["distance"]
    assert [column.done for column in summary.columns[1:]] == [
        "dropped: no value in the training rows",
        "dropped: the same category in all training rows",
    ]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"test": "110%"}, ParameterError, "'10%' or 0.1"),
        ({"test": "ten"}, ParameterError, "'10%' or 0.1"),
        ({"missing": "drop"}, ParameterError, "'impute' or 'refuse'"),
        ({"categorical": "hash"}, ParameterError, "one of"),
        ({"task": "ranking"}, ParameterError, "'classification'"),
        ({"rows_per_chunk": 0}, ParameterError, "at least 1"),
        ({"memory_budget": "1MiB"}, BudgetError, "larger memory_budget"),
        ({"random_state": None}, ParameterError, "an integer"),
    ],
)
def test_wrong_calls_are_refused(options, error, message, frame, out):
    with pytest.raises(error, match=message):
        streamgp.ingest(frame, out(), target="late", **options)


def test_sources_that_cannot_be_read_are_refused(tmp_path, out, frame):
    (tmp_path / "a.parquet").write_bytes(b"not Parquet at all")
    (tmp_path / "a.txt").write_text("a b")
    (tmp_path / "empty").mkdir()
    frame[:0].to_parquet(tmp_path / "none.parquet")
    np.savez(tmp_path / "a.npz", X=np.ones((3, 2)), y=np.ones(4))
    other = frame.rename(columns={"weight": "mass"})
    for source, message in {
        tmp_path / "a.parquet": "cannot be read as .parquet",
        tmp_path / "a.txt": "no known ending",
        tmp_path / "empty": "holds no file",
        tmp_path / "none.parquet": "has no rows",
        tmp_path / "a.npz": "not the same number of rows",
        tmp_path / "absent.csv": "there is no file",
    }.items():
        with pytest.raises(TableError, match=message):
            streamgp.ingest(source, out(), target="late")
    with pytest.raises(TableError, match="'mass', 'weight' only in one"):
        streamgp.ingest([frame, other], out(), target="late")
    with pytest.raises(TableError, match="cannot read columns from int"):
        streamgp.ingest(3, out(), target="late")


def test_files_that_end_early_or_change_their_columns_are_refused(tmp_path, out, frame):
    (tmp_path / "short.csv").write_text("a,late\n1,x\n2\n3,y\n")
    with pytest.raises(TableError, match="Expected 2 columns, got 1"):
        streamgp.ingest(tmp_path / "short.csv", out(), target="late")
    packed = gzip.compress(frame.to_csv(index=False).encode())
    (tmp_path / "cut.csv.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(TableError, match=r"cut\.csv\.gz"):
        streamgp.ingest(tmp_path / "cut.csv.gz", out(), target="late")
    np.save(tmp_path / "a.npy", np.ones((100, 3)))
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-100])
    with pytest.raises(TableError, match="ends before its last row"):
        streamgp.ingest(tmp_path / "a.npy", out(), target="x0")


def test_chunks_are_several_for_small_data_and_large_for_large():
    assert rows_per_chunk(20_000, 80) == 2500
    assert rows_per_chunk(100, 80) == 100
    assert 8e6 < rows_per_chunk(10**8, 80) * 80 <= 16e6


def test_the_manifest_finds_a_changed_chunk(parquet, out):
    path = ingested(parquet, out())
    assert store.verify(path) + store.verify(path / "test") == 3000
    group = zarr.open_group(path)
    group["X"][5, 0] = 1e6
    with pytest.raises(ChunkReadError, match="chunk 0 of 'X'"):
        store.verify(path)


def test_an_existing_store_is_not_touched(parquet, out):
    path = out()
    path.mkdir()
    with pytest.raises(StoreError, match="exists already"):
        streamgp.ingest(parquet, path, target="late")


SLOW = """
import sys, time, streamgp
from streamgp.tables import write
encode = write.encode_batch
def slow(*arguments):
    print("writing", flush=True)
    time.sleep(0.2)
    return encode(*arguments)
from streamgp.tables import run
run.encode_batch = slow
streamgp.ingest(sys.argv[1], sys.argv[2], target="late", test="20%", shuffle=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_an_interrupted_call_leaves_no_store_and_the_next_makes_it(how, parquet, expected, out):
    path = out()
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(parquet), str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout.readline() == "writing\n"
    process.send_signal(how)
    process.communicate()
    assert not path.exists()
    assert_same_stores(ingested(parquet, path), expected)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_source_that_changes_meanwhile_is_noticed(frame, out, monkeypatch):
    from streamgp.tables import run

    def learned_then_shorter(reader_, *arguments):
        result = learn(reader_, *arguments)
        shorter = run.open_source(frame[:2000])
        object.__setattr__(reader_.source, "pieces", shorter.pieces)
        return result

    learn = run.learn_recipe
    monkeypatch.setattr(run, "learn_recipe", learned_then_shorter)
    path = out()
    with pytest.raises(StoreError, match="changed meanwhile"):
        streamgp.ingest(frame, path, target="late")
    assert not path.exists()


def test_without_pyarrow_the_extra_is_named(frame, out, monkeypatch):
    from streamgp.tables import formats

    monkeypatch.setattr(formats.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'streamgp\[ingest\]'"):
        streamgp.ingest(frame, out(), target="late")


def test_merged_facts_are_those_of_all_values(generator):
    values = generator.standard_normal(1000) * 5 + 100
    values[::7] = np.nan
    parts = [NumberFacts.of(part) for part in np.array_split(values, 9)]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part)
    assert merged.mean == pytest.approx(np.nanmean(values))
    assert merged.squares / merged.count == pytest.approx(np.nanvar(values))
    assert (merged.low, merged.high) == (np.nanmin(values), np.nanmax(values))
    assert merged.missing == 143


def test_times_and_zones_follow_the_local_clock():
    array = pa.array([0, 86400 * 200 + 3600], pa.timestamp("s", tz="Europe/Rome"))
    out = np.empty((2, 3))
    encodings.Date("t", 0.0, 0.0, ("day",)).fill(array, out)
    hours = np.array([1.0, 3.0])  # Rome is one hour ahead in winter, two in summer
    np.testing.assert_allclose(out[:, 1], np.sin(2 * np.pi * hours / 24), atol=1e-9)


MEMORY = """
import sys, streamgp
from streamgp.budget import peak_memory
settings = {"target": "y", "test": "10%", "shuffle": True, "memory_budget": "128MiB"}
streamgp.ingest(sys.argv[1], sys.argv[3] + "/a.zarr", **settings)
before = peak_memory()
streamgp.ingest(sys.argv[2], sys.argv[3] + "/b.zarr", **settings)
print(before, peak_memory())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read as Linux tells it")
def test_memory_is_bounded_whatever_the_rows(tmp_path):
    from benchmarks.scale.ingest import write_parquet

    write_parquet(tmp_path / "small.parquet", 1000)
    write_parquet(tmp_path / "large.parquet", 1_000_000)
    paths = [str(tmp_path / name) for name in ("small.parquet", "large.parquet")]
    command = [sys.executable, "-c", MEMORY, *paths, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    before, peak = map(int, done.stdout.split())
    assert peak - before <= 128 * 2**20


def test_flights_are_written_as_raw_columns(tmp_path):
    from benchmarks.make_flights import main

    main([str(tmp_path / "a.parquet"), str(tmp_path / "new.parquet"), "--rows", "2000", "--synthetic"])
    table, new = (pq.read_table(tmp_path / name) for name in ("a.parquet", "new.parquet"))
    assert len(table) + len(new) == 2000
    assert table["origin"].null_count
    summary = streamgp.ingest(tmp_path / "a.parquet", tmp_path / "a.zarr", target="late")
    assert {column.name: column.done for column in summary.columns} == {
        "departure": "date",
        "distance": "number",
        "origin": "target-mean",
        "destination": "target-mean",
    }
