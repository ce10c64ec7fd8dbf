from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import zarr

from streamgp.data import open_rows
from streamgp.data.columns import load
from streamgp.data.rows import COMPLETE
from streamgp.errors import (
    ArrayNotFoundError,
    ChunkReadError,
    DataWarning,
    StoreError,
    UnsupportedDtypeError,
)


def read_all(rows):
    """Features and targets of all spans, in order."""
    pieces = [rows.pieces(span) for span in rows.spans()]

    def value(piece):
        return piece.compute() if hasattr(piece, "compute") else load(piece)

    return np.concatenate([value(x) for x, _ in pieces]), np.concatenate([value(y) for _, y in pieces])


@pytest.fixture
def arrays(generator):
    return generator.standard_normal((257, 3)).astype(np.float32), generator.integers(0, 3, 257)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("chunk_rows", [1, 50, 1000])
def test_stores_of_both_formats_give_back_their_rows(arrays, make_store, zarr_format, chunk_rows):
    path = make_store(*arrays, chunk_rows=chunk_rows, zarr_format=zarr_format)
    rows = open_rows(path).cut(64)
    assert rows.span_rows % min(chunk_rows, 257) == 0
    for expected, found in zip(arrays, read_all(rows), strict=True):
        np.testing.assert_array_equal(expected, found)


def test_every_kind_of_store_is_accepted(arrays, make_store):
    X, y = arrays
    path = make_store(X, y)
    group = zarr.open_group(path, mode="r")
    lazy = (da.from_array(X, chunks=(50, 3)), da.from_array(y, chunks=(80,)))
    stores = (path, str(path), path.as_uri(), group, (X, y), (group["X"], group["y"]), lazy, (X, lazy[1]))
    for store in stores:
        found = read_all(open_rows(store).cut(60))
        np.testing.assert_array_equal(found[0], X)
        np.testing.assert_array_equal(found[1], y)


def test_sharded_arrays_are_read_by_inner_chunks(arrays, make_store):
    path = make_store(*arrays, chunks=(20, 3), shards=(100, 3))
    rows = open_rows(path)
    assert rows.features.chunk_rows == 20
    np.testing.assert_array_equal(read_all(rows)[0], arrays[0])


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "float16", "float64", "bool"])
def test_any_number_type_is_read(dtype, make_store):
    X = (np.arange(60).reshape(30, 2) % 2).astype(dtype)
    assert read_all(open_rows(make_store(X, np.arange(30))))[0].dtype == np.dtype(dtype)


def test_string_labels_come_back(make_store):
    y = np.array(["ja", "nein", "vielleicht"] * 10)
    rows = open_rows(make_store(np.ones((30, 2)), y))
    assert read_all(rows)[1].tolist() == y.tolist()


def test_missing_array_lists_those_there(arrays, make_store):
    with pytest.raises(ArrayNotFoundError, match=r"no array 'Z'.*'X', 'y'"):
        open_rows(make_store(*arrays), x="Z")


def test_missing_group_says_so(tmp_path):
    with pytest.raises(StoreError, match="no Zarr group"):
        open_rows(tmp_path / "nothing.zarr")


@pytest.mark.parametrize(
    ("store", "error", "message"),
    [
        ((np.ones((3, 2)), np.ones(4)), StoreError, r"3 rows, but 'y' has 4"),
        ((np.ones(3), np.ones(3)), StoreError, "two axes"),
        ((np.ones((3, 2)), np.ones((3, 1))), StoreError, "one axis"),
        ((np.ones((0, 2)), np.ones(0)), StoreError, "empty"),
        ((np.ones((3, 0)), np.ones(3)), StoreError, "empty"),
        ((np.ones((3, 2), complex), np.ones(3)), UnsupportedDtypeError, "complex128"),
        ((np.ones((3, 2), object), np.ones(3)), UnsupportedDtypeError, "object"),
        ((np.ones((3, 2)), np.ones(3, complex)), UnsupportedDtypeError, "complex128"),
        (17, StoreError, "cannot read rows from int"),
    ],
)
def test_bad_stores_are_refused(store, error, message):
    with pytest.raises(error, match=message):
        open_rows(store)


def test_unknown_dask_chunks_name_the_remedy():
    X = da.ones((10, 2), chunks=(5, 2))
    with pytest.raises(StoreError, match="compute_chunk_sizes"):
        open_rows((X[X[:, 0] > 0], np.ones(10)))


def test_split_feature_axis_works_and_warns(arrays, make_store):
    path = make_store(*arrays, chunks=(100, 2))
    with pytest.warns(DataWarning, match=r"chunks=\(100, 3\)"):
        rows = open_rows(path)
    np.testing.assert_array_equal(read_all(rows)[0], arrays[0])
    with pytest.warns(DataWarning, match="rechunk"):
        rows = open_rows((da.from_array(arrays[0], chunks=(100, 2)), arrays[1]))
    np.testing.assert_array_equal(read_all(rows.cut(100))[0], arrays[0])


def test_a_corrupt_chunk_is_named(arrays, make_store):
    path = make_store(*arrays)
    (path / "X" / "c" / "1" / "0").write_bytes(b"not a chunk")
    rows = open_rows(path)
    features, _ = rows.pieces(list(rows.spans())[1])
    with pytest.raises(ChunkReadError, match=r"array 'X': chunk 1 \(rows 100 to 199\)"):
        load(features)


def test_absent_chunks_are_told_by_number_and_refused_where_they_had_been_written(arrays, make_store):
    path = make_store(*arrays)
    assert open_rows(path).features.absent_chunks().numbers.size == 0
    (path / "X" / "c" / "1" / "0").unlink()
    assert open_rows(path).features.absent_chunks().numbers.tolist() == [1]
    with pytest.raises(ChunkReadError, match=r"missing where targets were written: chunk 1 of 'X'"):
        open_rows(path).check_chunks()
    zarr.open_group(path).attrs[COMPLETE] = True
    with pytest.raises(ChunkReadError, match=r"written completely.*chunk 1 of 'X'"):
        open_rows(path).check_chunks()
    absent, _ = open_rows(path, allow_missing_chunks=True).check_chunks()
    assert absent.numbers.tolist() == [1]
