"""Models and checkpoints that somebody else wrote: checked before they are believed, one error always."""

from __future__ import annotations

import json
import tracemalloc
import zipfile

import numpy as np
import pytest

from benchmarks.robustness import files
from streamgp import load
from streamgp.errors import ModelFileError
from streamgp.persistence import LargeArray, read_record, write_record
from streamgp.persistence.layout import BELIEVED_BYTES, unpacked_bytes


def test_mutants_are_refused_or_predict_the_same(tmp_path):
    found = list(files.mutations(tmp_path, 60, seed=1))
    assert [outcome for _, outcome in found if outcome.startswith("wrong")] == []
    assert len({kind for kind, _ in found}) == 9
    refused = [kind for kind, outcome in found if outcome == "refused"]
    assert {"bits", "truncated", "packed", "shape", "header"} <= set(refused)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    [path, *_], *_ = list(files.models(tmp_path_factory.mktemp("models")))
    return path


def repacked(saved, target, change, packing=zipfile.ZIP_STORED):
    """A copy of a model whose members were changed."""
    with zipfile.ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(target, "w", packing) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target


def refused_within_64_mib(path):
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError) as raised:
            load(path)
        assert tracemalloc.get_traced_memory()[1] < BELIEVED_BYTES
    finally:
        tracemalloc.stop()
    return str(raised.value)


def test_a_deflate_bomb_is_not_unpacked(saved, tmp_path):
    def bomb(members):
        members["shift/c/0"] = bytes(300 * 2**20)

    path = repacked(saved, tmp_path / "bomb.zip", bomb, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 2**20
    assert "packed" in refused_within_64_mib(path)


def test_a_frame_that_would_unpack_to_more_is_not_unpacked(saved, tmp_path):
    from numcodecs import Zstd

    frame = bytes(Zstd(level=1).encode(np.zeros(2**25)))
    assert unpacked_bytes(frame) == 2**28

    def bomb(members):
        members["shift/c/0"] = frame

    told = refused_within_64_mib(repacked(saved, tmp_path / "bomb.zip", bomb))
    assert f"a chunk of {2**28} bytes at (0,), not 24" in told


def test_a_shape_that_the_file_cannot_hold_is_not_allocated(saved, tmp_path):
    def edit(members):
        manifest = files._manifest(members)
        manifest["arrays"]["shift"]["shape"] = [10**11]
        files._store_manifest(members, manifest)

    assert "would unpack to" in refused_within_64_mib(repacked(saved, tmp_path / "large.zip", edit))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("calibrations", 0, 0), 1.9),
        (("calibrations", 0), [1.0, 2.0]),
        (("calibrations", 0, 2), -1.0),
        (("residuals", 0), 7.0),
        (("residuals",), "x"),
        (("columns", 0), [0, 10**9]),
        (("columns", 0, 1), 1.5),
        (("kernel", "terms", 0, "variance"), 3.7),
        (("kernel", "terms", 0, "lengthscale"), "long"),
        (("kernel",), None),
        (("likelihoods", 0, "bias"), 1.25),
        (("likelihoods",), []),
        (("history",), 3),
        (("recipe",), {}),
        (("parameters", "n_active"), -4),
        (("parameters", "selection"), {"settings": "Popen", "fields": {}}),
        (("parameters", "unheard_of"), 1),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_an_edited_header_is_refused_although_its_checksum_is_right(saved, tmp_path, path, value):
    def edit(members):
        manifest = files._manifest(members)
        part = manifest["header"]
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = value
        files._store_manifest(members, manifest)

    with pytest.raises(ModelFileError):
        load(repacked(saved, tmp_path / "edited.zip", edit))


@pytest.fixture(scope="module")
def saved_blocks(tmp_path_factory):
    return list(files.models(tmp_path_factory.mktemp("models")))[-1][0]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("calibrations", 0, 0), 1.9),
        (("kernel", "terms", 0, "variance"), 3.7),
        (("kernel", "terms", 0, "lengthscale"), 0.9),
        (("likelihoods", 0, "bias"), 1.25),
        (("local", "neighbours"), 1),
        (("local", "jitter"), -1.0),
        (("local",), {}),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_an_edited_model_of_local_blocks_is_refused_too(saved_blocks, tmp_path, path, value):
    test_an_edited_header_is_refused_although_its_checksum_is_right(saved_blocks, tmp_path, path, value)


def test_blocks_outside_of_the_stored_rows_are_refused(saved_blocks, tmp_path):
    header, arrays = read_record(saved_blocks, kind="model")
    arrays = {name: array[:] for name, array in arrays.items()}
    large = [name for name in arrays if name.startswith("blocks/")]
    for name, value in (("table/starts", 10**9), ("table/counts", 10**12), ("table/halo_starts", -1)):
        changed = arrays | {name: np.full_like(arrays[name], value)}
        changed |= {each: LargeArray(changed[each], header["local"]["group_rows"]) for each in large}
        write_record(tmp_path / "edited.zarr.zip", header, changed, kind="model")
        with pytest.raises(ModelFileError, match="outside of the rows that are stored"):
            load(tmp_path / "edited.zarr.zip")


def test_what_packs_too_well_is_written_as_it_is(tmp_path):
    """Nobody's own records are taken for bombs."""
    arrays = {"zeros": np.zeros((3000, 3000)), "few": np.arange(5.0)}
    write_record(tmp_path / "r.zarr.zip", {}, arrays, kind="test")
    _, found = read_record(tmp_path / "r.zarr.zip", kind="test")
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def test_links_in_a_folder_are_not_followed(tmp_path):
    write_record(tmp_path / "r.zarr", {}, {"a": np.arange(5.0)}, kind="test")
    chunk = tmp_path / "r.zarr" / "a" / "c" / "0"
    chunk.unlink()
    chunk.symlink_to("/dev/zero")
    with pytest.raises(ModelFileError, match="neither a file nor a folder"):
        read_record(tmp_path / "r.zarr", kind="test")


def test_nothing_in_a_record_is_pickled(saved):
    with zipfile.ZipFile(saved) as archive:
        assert all(json.loads(archive.read(name)) for name in archive.namelist() if name.endswith(".json"))
        assert not any(name.endswith((".pkl", ".pickle")) for name in archive.namelist())
