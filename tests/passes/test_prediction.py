from __future__ import annotations

import numpy as np
import pytest
import zarr

from streamgp.data import Standardizer, open_rows
from streamgp.data.rows import COMPLETE
from streamgp.errors import ChunkReadError, StoreError
from streamgp.inference import Sites, head_from_sites
from streamgp.kernels import RBF
from streamgp.passes import PassSettings, PredictionWriter, Reading, run_pass
from streamgp.passes.prediction import IDENTITY, output_group
from streamgp.posterior import Snapshot

COLUMNS = {"mean": ((1,), np.dtype(float)), "variance": ((1,), np.dtype(float))}


def predict(marginals):
    return marginals._asdict()


def write(store, out, snapshot, client=None, span_rows=60):
    rows = open_rows(store, y=None).cut(span_rows)
    reading = Reading(Standardizer(np.zeros(2), np.ones(2)), None, np.dtype(float))
    settings = PassSettings(33, 2, client)
    with output_group(out, rows, COLUMNS, {IDENTITY: "1"}) as output:
        writer = PredictionWriter(predict, output.arrays)
        run_pass(rows, writer, settings, reading=reading, snapshot=snapshot, spans=output.spans)


@pytest.fixture
def snapshot(generator):
    kernel, inputs = RBF(1.0, 1.0), generator.standard_normal((10, 2))
    sites = Sites(np.ones(10), generator.standard_normal(10))
    return Snapshot(kernel, inputs, (head_from_sites(kernel.gram(inputs), sites),))


def test_predictions_of_every_row_are_written(generator, make_store, tmp_path, snapshot, client):
    X = generator.standard_normal((250, 2))
    path = make_store(X, np.zeros(250), chunk_rows=20)
    write(path, tmp_path / "out.zarr", snapshot, client)
    group = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert group.attrs[COMPLETE]
    np.testing.assert_allclose(group["mean"][:], snapshot.marginals(X).mean)
    np.testing.assert_allclose(group["variance"][:], snapshot.marginals(X).variance)
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_a_group_in_memory_is_filled_too(generator, snapshot):
    X = generator.standard_normal((100, 2))
    group = zarr.group(zarr.storage.MemoryStore())
    write(X, group, snapshot)
    np.testing.assert_allclose(group["mean"][:], snapshot.marginals(X).mean)
    assert group.attrs[COMPLETE]


def test_a_failed_pass_leaves_nothing_behind(make_store, tmp_path, snapshot, client):
    path = make_store(np.ones((250, 2)), np.zeros(250), chunk_rows=50)
    (path / "X" / "c" / "3" / "0").write_bytes(b"garbage")
    with pytest.raises(ChunkReadError):
        write(path, tmp_path / "out" / "p.zarr", snapshot, client)
    assert list((tmp_path / "out").glob("*")) == []


def test_nothing_is_overwritten(make_store, tmp_path, snapshot):
    path = make_store(np.ones((10, 2)), np.zeros(10))
    with pytest.raises(StoreError, match="exists already"):
        write(path, path, snapshot)
