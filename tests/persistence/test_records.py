"""A record comes back bit for bit, and whatever is wrong with a file is said."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from streamgp.errors import ModelFileError
from streamgp.persistence import read_record, write_record
from streamgp.persistence.records import RECORD

DTYPES = st.sampled_from(
    ["float64", "float32", "float16", "int64", "int32", "int8", "uint64", "uint16", "bool", "U1", "U7", "U40"]
)
ARRAYS = DTYPES.flatmap(
    lambda dtype: nps.arrays(dtype, nps.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)
NAMES = st.from_regex(r"[a-z0-9][a-zA-Z0-9_.-]{0,5}(/[a-z0-9]{1,4}){0,2}", fullmatch=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
STRINGS = np.array([["", "ab\0c"], ["\ud800", "\U0001f600é"]])
TARGETS = pytest.mark.parametrize("name", ["model.zarr.zip", "model.zarr", "model.streamgp"])


def nested(names):
    """Whether one of the names lies inside of another."""
    return any(inner.startswith(f"{outer}/") for outer in names for inner in names)


def assert_same_bits(found, expected):
    assert type(found) is np.ndarray
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()
    assert found.flags.c_contiguous
    assert found.flags.writeable


@given(
    header=st.dictionaries(st.text(), JSON, max_size=3),
    arrays=st.dictionaries(NAMES, ARRAYS, max_size=3).filter(lambda arrays: not nested(arrays)),
    folder=st.booleans(),
)
def test_any_record_comes_back_bit_for_bit(tmp_path_factory, header, arrays, folder):
    path = tmp_path_factory.mktemp("record") / ("record.zarr" if folder else "record.zarr.zip")
    write_record(path, header, arrays, kind="model")
    found_header, found = read_record(path, kind="model")
    assert found_header == header
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert_same_bits(found[name], array)


@TARGETS
def test_unusual_bits_survive(tmp_path, name):
    payload = np.array([0x7FF0000000000001, 0xFFF8DEADBEEF0001, 0x8000000000000000], dtype=np.uint64)
    arrays = {
        "payloads": payload.view(np.float64),
        "signalling": payload[:1].view(np.float64).reshape(()),
        "single": np.array([0x7FA00001, 0x80000000], dtype=np.uint32).view(np.float32),
        "negative_zeros": np.full((50, 3), -0.0),
        "infinite": np.array([np.inf, -np.inf]),
        "fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        "strided": np.arange(20)[::-3],
        "strings": STRINGS,
        "string": np.array("one"),
        "no_strings": np.zeros((0, 2), dtype="U5"),
        "heads/0/projection": np.tri(3, dtype=bool),
        "heads/1/projection": np.array(True),
        "empty": np.zeros((3, 0), dtype=np.int32),
    }
    path = tmp_path / name
    write_record(path, {}, arrays, kind="model")
    assert path.is_dir() == (name == "model.zarr")
    _, found = read_record(path, kind="model")
    for key, array in arrays.items():
        assert_same_bits(found[key], array)


def test_big_endian_arrays_return_little_endian(tmp_path):
    write_record(tmp_path / "a.zip", {}, {"x": np.array([1.5, np.nan], dtype=">f8")}, kind="model")
    assert_same_bits(read_record(tmp_path / "a.zip", kind="model")[1]["x"], np.array([1.5, np.nan]))


def test_large_array_is_cut_into_chunks(tmp_path):
    array = np.arange(1_500_000.0).reshape(3, 500_000)
    write_record(tmp_path / "a.zarr", {}, {"x": array}, kind="model")
    assert zarr.open_group(tmp_path / "a.zarr", mode="r")["x"].nbytes_stored() > 0
    assert len(list((tmp_path / "a.zarr" / "x" / "c").rglob("*"))) > 4
    assert_same_bits(read_record(tmp_path / "a.zarr", kind="model")[1]["x"], array)


def test_tuples_return_as_lists_and_numpy_floats_as_floats(tmp_path):
    write_record(tmp_path / "a.zip", {"shape": (2, (3,)), "value": np.float64(0.1)}, {}, kind="model")
    assert read_record(tmp_path / "a.zip", kind="model")[0] == {"shape": [2, [3]], "value": 0.1}


def test_record_is_a_zarr_group_that_names_its_versions(tmp_path):
    write_record(tmp_path / "a.zarr.zip", {"depth": 3}, {"heads/0/x": np.ones(2)}, kind="model")
    with zarr.storage.ZipStore(tmp_path / "a.zarr.zip", mode="r") as store:
        group = zarr.open_group(store, mode="r")
        np.testing.assert_array_equal(group["heads/0/x"][:], 1)
        about = group.attrs[RECORD]
    assert about["schema"] == 1
    assert about["header"] == {"depth": 3}
    assert set(about["versions"]) == {"streamgp", "numpy", "python"}


@TARGETS
def test_replacing_leaves_only_the_new_record(tmp_path, name):
    path = tmp_path / name
    for value in range(3):
        write_record(path, {"value": value}, {f"x{value}": np.full(3, value)}, kind="model")
    header, arrays = read_record(path, kind="model")
    assert header == {"value": 2}
    assert list(arrays) == ["x2"]
    assert os.listdir(tmp_path) == [name]


@TARGETS
def test_failed_write_leaves_the_earlier_record(tmp_path, name, monkeypatch):
    path = tmp_path / name
    write_record(path, {"value": 1}, {"x": np.ones(3)}, kind="model")

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    for operation in ("replace", "fsync", "rename"):
        if operation == ("replace" if path.is_dir() else "rename"):
            continue  # zip files are not moved by rename, folders not by replace
        with monkeypatch.context() as patch:
            patch.setattr(os, operation, full)
            with pytest.raises(OSError, match="No space"):
                write_record(path, {"value": 2}, {"x": np.zeros(3)}, kind="model")
        assert read_record(path, kind="model")[0] == {"value": 1}
        assert os.listdir(tmp_path) == [name]


def test_folder_returns_when_its_successor_cannot_take_its_place(tmp_path, monkeypatch):
    path = tmp_path / "model.zarr"
    write_record(path, {"value": 1}, {}, kind="model")
    rename = os.rename

    def fail_for_new(source, target):
        if str(source).endswith(".unfinished"):
            raise OSError("no")
        rename(source, target)

    monkeypatch.setattr(os, "rename", fail_for_new)
    with pytest.raises(OSError, match="no"):
        write_record(path, {"value": 2}, {}, kind="model")
    assert read_record(path, kind="model")[0] == {"value": 1}


def test_folder_renamed_away_by_a_crash_is_named(tmp_path):
    path = tmp_path / "model.zarr"
    write_record(path, {"value": 1}, {}, kind="model")
    path.rename(tmp_path / ".model.zarr.0badcafe.replaced")
    with pytest.raises(ModelFileError, match=r"earlier version is complete: rename .*0badcafe\.replaced"):
        read_record(path, kind="model")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"a": [1, {"b": float("nan")}]}, r"header\.a\[1\]\.b is nan, which JSON cannot hold"),
        ({"a": float("-inf")}, r"header\.a is -inf"),
        ({"a": np.int64(3)}, r"header\.a is of type int64"),
        ({"a": np.zeros(2)}, r"header\.a is of type ndarray"),
        ({"a": {3: 4}}, r"header\.a has the key 3"),
        ({"a": {1, 2}}, r"header\.a is of type set"),
    ],
)
def test_header_that_json_would_change_is_refused(tmp_path, header, message):
    with pytest.raises(ModelFileError, match=message):
        write_record(tmp_path / "a.zip", header, {}, kind="model")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    "array",
    [
        np.array([None]),
        np.array([1j]),
        np.array([b"bytes"]),
        np.zeros(1, dtype="datetime64[s]"),
        np.zeros(1, dtype=[("a", "f8")]),
        np.array(["a"], dtype=np.dtypes.StringDType()),
        np.zeros(1, dtype=np.longdouble),
    ],
    ids=lambda array: str(array.dtype),
)
def test_arrays_that_are_not_plain_are_refused(tmp_path, array):
    with pytest.raises(ModelFileError, match=r"array 'x' is of type .* convert it to"):
        write_record(tmp_path / "a.zip", {}, {"x": array}, kind="model")


def test_what_is_no_array_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="'x' is of type list; give a NumPy array"):
        write_record(tmp_path / "a.zip", {}, {"x": [1.0]}, kind="model")


@pytest.mark.parametrize(
    "name", ["", "/", "a//b", "/a", "a/", "..", "a/../b", ".hidden", "a b", "a\\b", "a/zarr.json", "__a", 3]
)
def test_names_that_are_no_paths_are_refused(tmp_path, name):
    with pytest.raises(ModelFileError, match="cannot name an array; use letters"):
        write_record(tmp_path / "a.zip", {}, {name: np.zeros(1)}, kind="model")


def test_array_inside_of_an_array_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="'a/b/c' would lie inside of the array 'a/b'"):
        write_record(tmp_path / "a.zip", {}, {"a/b": np.zeros(1), "a/b/c": np.zeros(1)}, kind="model")


def test_places_that_cannot_be_written_are_refused(tmp_path):
    with pytest.raises(ModelFileError, match=r"there is no folder .*nowhere.*create it"):
        write_record(tmp_path / "nowhere" / "a.zip", {}, {}, kind="model")
    with pytest.raises(ModelFileError, match="is a folder; give the name of a file in it"):
        write_record(tmp_path, {}, {}, kind="model")
    with pytest.raises(ModelFileError, match="is not a local path"):
        write_record("s3://bucket/a.zip", {}, {}, kind="model")


def test_data_of_the_user_are_never_replaced(tmp_path):
    data = tmp_path / "data.zarr"
    zarr.create_group(data).create_array("X", data=np.ones(3))
    plain = tmp_path / "plain.zarr"
    plain.mkdir()
    (tmp_path / "file.zarr").write_text("text")
    for path in (data, plain, tmp_path / "file.zarr"):
        with pytest.raises(ModelFileError, match="not a folder that streamgp wrote; it is not replaced"):
            write_record(path, {}, {}, kind="model")
    np.testing.assert_array_equal(zarr.open_group(data, mode="r")["X"][:], 1)
    assert (tmp_path / "file.zarr").read_text() == "text"


def test_wrong_kind_is_refused(tmp_path):
    write_record(tmp_path / "a.zip", {}, {}, kind="checkpoint")
    with pytest.raises(ModelFileError, match="holds a checkpoint, not a model; give the path of a model"):
        read_record(tmp_path / "a.zip", kind="model")


def test_missing_file_is_named(tmp_path):
    with pytest.raises(ModelFileError, match=r"no file or folder .*absent\.zip.*check the path"):
        read_record(tmp_path / "absent.zip", kind="model")


def test_foreign_files_are_named(tmp_path):
    (tmp_path / "text.zip").write_text("not a zip file at all")
    with pytest.raises(ModelFileError, match=r"text\.zip' is not a zip file; give the path of a file saved"):
        read_record(tmp_path / "text.zip", kind="model")
    (tmp_path / "empty.zip").touch()
    with pytest.raises(ModelFileError, match="is empty"):
        read_record(tmp_path / "empty.zip", kind="model")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a.txt", "text")
    with pytest.raises(ModelFileError, match=r"other\.zip' is not a Zarr group"):
        read_record(tmp_path / "other.zip", kind="model")
    with pytest.raises(ModelFileError, match="is not a Zarr group"):
        read_record(tmp_path, kind="model")
    zarr.create_group(tmp_path / "data.zarr")
    with pytest.raises(ModelFileError, match="is a Zarr group, but not one saved by streamgp"):
        read_record(tmp_path / "data.zarr", kind="model")


def test_format_2_which_could_hold_pickled_objects_is_refused(tmp_path):
    group = zarr.create_group(tmp_path / "old.zarr", zarr_format=2)
    group.attrs[RECORD] = {"schema": 1, "kind": "model", "arrays": {}, "header": {}}
    with pytest.raises(ModelFileError, match="is not a Zarr group of format 3"):
        read_record(tmp_path / "old.zarr", kind="model")


def test_truncated_file_is_refused_at_any_length(tmp_path):
    path = tmp_path / "a.zip"
    write_record(path, {"a": 1}, {"x": np.arange(50.0)}, kind="model")
    whole = path.read_bytes()
    for length in range(4, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError, match="damaged or truncated zip file"):
            read_record(path, kind="model")


def test_zip_of_an_impossible_version_is_damaged(tmp_path):
    path = tmp_path / "a.zip"
    write_record(path, {}, {}, kind="model")
    whole = bytearray(path.read_bytes())
    whole[whole.rindex(b"PK\x01\x02") + 6] = 0xEB
    path.write_bytes(whole)
    with pytest.raises(ModelFileError, match=r"damaged or truncated zip file \(zip file version 23\.5"):
        read_record(path, kind="model")


@pytest.mark.parametrize("folder", [False, True])
def test_changed_byte_is_found_wherever_it_lies(tmp_path, generator, folder):
    """Either the record is refused, or the byte was padding and all content is the same."""
    path = tmp_path / ("a.zarr" if folder else "a.zip")
    expected = {"heads/0/x": generator.normal(size=40), "flags": np.tri(3, dtype=bool), "names": STRINGS}
    write_record(path, {"a": 1}, expected, kind="model")
    files = [file for file in path.rglob("*") if file.is_file()] if folder else [path]
    messages = []
    for _ in range(200):
        file = files[generator.integers(len(files))]
        whole = file.read_bytes()
        place = int(generator.integers(len(whole)))
        changed = bytearray(whole)
        changed[place] ^= 1 << int(generator.integers(8))
        file.write_bytes(changed)
        try:
            header, arrays = read_record(path, kind="model")
        except ModelFileError as error:
            messages.append(str(error))
        else:
            assert header == {"a": 1}
            assert arrays.keys() == expected.keys()
            for name, array in expected.items():
                assert_same_bits(arrays[name], array)
        file.write_bytes(whole)
    assert len(messages) > 50
    assert all(str(path) in message for message in messages)


def test_changed_data_are_named_by_array(tmp_path):
    path = tmp_path / "a.zarr"
    write_record(path, {}, {"good": np.ones(3), "heads/0/bad": np.arange(5)}, kind="model")
    zarr.open_group(path, mode="r+")["heads/0/bad"][2] = 7
    with pytest.raises(
        ModelFileError, match=r"'heads/0/bad' in .*a\.zarr.* is damaged \(its checksum differs"
    ):
        read_record(path, kind="model")


def test_lost_chunk_and_lost_array_are_named(tmp_path):
    path = tmp_path / "a.zarr"
    write_record(path, {}, {"x": np.arange(5), "y": np.ones(2)}, kind="model")
    (path / "x" / "c" / "0").unlink()
    with pytest.raises(ModelFileError, match=r"array 'x' .* misses its chunk \(0,\)"):
        read_record(path, kind="model")
    shutil.rmtree(path / "x")
    with pytest.raises(ModelFileError, match=r"array 'x' .* is missing; restore"):
        read_record(path, kind="model")


def test_undecodable_and_reshaped_arrays_are_named(tmp_path):
    path = tmp_path / "a.zarr"
    write_record(path, {}, {"x": np.arange(5)}, kind="model")
    whole = (path / "x" / "c" / "0").read_bytes()
    (path / "x" / "c" / "0").write_bytes(whole[:-3])
    with pytest.raises(ModelFileError, match=r"array 'x' .* cannot be decoded"):
        read_record(path, kind="model")
    zarr.open_group(path, mode="r+").create_array("x", data=np.zeros(3), overwrite=True)
    with pytest.raises(
        ModelFileError, match=r"array 'x' .* is float64 of shape \[3\], not int64 of shape \[5\]"
    ):
        read_record(path, kind="model")


def change_manifest(path: Path, signed: bool, **changes: object) -> None:
    document = json.loads((path / "zarr.json").read_text())
    manifest = document["attributes"][RECORD] | changes
    if signed:
        content = {key: value for key, value in manifest.items() if key != "sha256"}
        manifest["sha256"] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    document["attributes"][RECORD] = manifest
    (path / "zarr.json").write_text(json.dumps(document))


def test_newer_schema_is_refused_with_the_remedy(tmp_path):
    write_record(tmp_path / "a.zarr", {}, {}, kind="model")
    change_manifest(tmp_path / "a.zarr", signed=True, schema=3, versions={"streamgp": "9.1"})
    with pytest.raises(ModelFileError, match=r"streamgp 9\.1 in schema 3; .*upgrade it \(pip install -U"):
        read_record(tmp_path / "a.zarr", kind="model")


def test_changed_header_is_found(tmp_path):
    write_record(tmp_path / "a.zarr", {"n_active": 5}, {}, kind="model")
    change_manifest(tmp_path / "a.zarr", signed=False, header={"n_active": 6})
    with pytest.raises(ModelFileError, match=r"the header of .*a\.zarr' is damaged"):
        read_record(tmp_path / "a.zarr", kind="model")


def test_object_array_of_a_forged_record_is_never_decoded(tmp_path):
    write_record(tmp_path / "a.zarr", {}, {"x": np.zeros(1)}, kind="model")
    forged = {"x": {"dtype": "|O", "shape": [1], "sha256": "0"}}
    change_manifest(tmp_path / "a.zarr", signed=True, arrays=forged)
    with pytest.raises(ModelFileError, match="array 'x'"):
        read_record(tmp_path / "a.zarr", kind="model")
