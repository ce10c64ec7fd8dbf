"""An ingest that was killed goes on: the same bytes, nothing that was complete read again."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

import streamgp
from streamgp.errors import StoreError, TableError
from streamgp.persistence.lock import locked
from streamgp.tables import reader
from streamgp.tables.journal import Journal

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")

KILLS = [
    ("survey", "streamgp.tables.learn.survey_batch", 7),
    ("means", "streamgp.tables.means.MeansLearner.visit", 9),
    ("write", "streamgp.tables.run.encode_batch", 8),
    ("chunk", "streamgp.tables.store.PartWriter._store", 11),
    ("note", "streamgp.tables.journal.Journal.note", 13),
    ("close", "streamgp.tables.store.PartWriter.close", 2),
    ("appear", "streamgp.tables.journal.flush_tree", 1),
    ("appeared", "streamgp.tables.journal.flush", 1),
]
"""What is killed, at which function, at which of its calls."""
N_ROWS = 3000
OPTIONS = {"target": "late", "test": "20%", "rows_per_chunk": 173}

# Forks come before the first ingest: threads of pyarrow do not survive one.
SCRIPT = """
import json, os, signal, sys
import dask
import streamgp
from streamgp.tables import reader, run, write
from streamgp.tables.sources import Source
from importlib import import_module

dask.config.set(num_workers=2)  # with more threads the seventh batch may come before the first note
reader.BATCH_BYTES, write.REMEMBERED_BATCHES, reader.REMEMBERED_BATCHES = 2**14, 3, 3
source, folder, options, kills = json.loads(sys.argv[1])


def killed_at(name, call):
    module, _, function = name.rpartition(".")
    try:
        owner = import_module(module)
    except ModuleNotFoundError:
        module, _, cls = module.rpartition(".")
        owner = getattr(import_module(module), cls)
    inner, calls = getattr(owner, function), []

    def outer(*arguments):
        calls.append(0)
        if len(calls) >= call:
            os.kill(os.getpid(), signal.SIGKILL)
        return inner(*arguments)

    setattr(owner, function, outer)


for number, (_, name, call) in enumerate(kills):
    for shuffle in (False, True):
        child = os.fork()
        if child == 0:
            killed_at(name, call)
            streamgp.ingest(source, f"{folder}/{number}-{shuffle}.zarr", shuffle=shuffle, **options)
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL, (name, call)
"""


@pytest.fixture(scope="module")
def killed(parquet, tmp_path_factory):
    """A folder with what the kills left."""
    folder = tmp_path_factory.mktemp("killed")
    asked = json.dumps([str(parquet), str(folder), OPTIONS, KILLS])
    subprocess.run([sys.executable, "-c", SCRIPT, asked], check=True)
    return folder


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(reader, "BATCH_BYTES", 2**14)  # batches of 256 rows


def files(store):
    """All files of a store with their bytes."""
    return {
        str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()
    }


@pytest.mark.parametrize("shuffle", [False, True], ids=["in order", "shuffled"])
def test_a_killed_ingest_goes_on_to_the_same_bytes(
    shuffle, killed, parquet, tmp_path, small_batches, monkeypatch, caplog
):
    expected = tmp_path / "expected.zarr"
    streamgp.ingest(parquet, expected, shuffle=shuffle, **OPTIONS)
    read = {}
    visits = reader.Reader.in_order

    def counted(self, work, columns, label, row=0):
        read[label] = self.source.n_rows - (row - row % self.batch_rows)
        return visits(self, work, columns, label, row)

    monkeypatch.setattr(reader.Reader, "in_order", counted)
    caplog.set_level(logging.INFO, logger="streamgp")
    for number, (stage, _, call) in enumerate(KILLS):
        out = killed / f"{number}-{shuffle}.zarr"
        read.clear()
        caplog.clear()
        if stage == "appeared":
            assert files(out) == files(expected)
            continue
        assert not out.exists()
        journal = Journal(out.with_name(f".{out.name}.ingest"))
        known = known_rows(journal, shuffle)
        if journal.store.exists():  # as a kill in the middle of Zarr's writing leaves it
            (journal.store / "0.61dad.partial").write_bytes(b"half")
        streamgp.ingest(parquet, out, shuffle=shuffle, **OPTIONS)
        assert files(out) == files(expected), (stage, call)
        assert "goes on" in caplog.text
        assert read == {label: N_ROWS - row for label, row in known.items() if row < N_ROWS}, (stage, call)
        assert all(known[label] >= row for label, row in least_known(stage, shuffle).items()), (stage, call)
        assert not journal.folder.exists()


def known_rows(journal, shuffle):
    """The row from which on each reading has to go on, by what the kill left."""
    known = {label: (journal.recall(label) or (0,))[0] for label in ("survey", "means", "spill")}
    chunks = {part: journal.chunks(part) for part in ("", "test")}
    wanted = {"": 14, "test": 4}  # chunks of 173 of about 2400 and 600 rows
    origins = [
        (lines[-1].origin if lines else 0) for part, lines in chunks.items() if len(lines) < wanted[part]
    ]
    written = min(origins, default=N_ROWS)
    spilled = known.pop("spill")
    return {**known, "write": spilled if shuffle and origins else written}


def least_known(stage, shuffle):
    """What must be known at least, however fast threads were: rows of readings that were complete."""
    if stage == "survey":
        return {"survey": 3 * 256}  # at the seventh batch; batches in work come late, notes after every third
    if stage == "means":
        return {"survey": N_ROWS}
    everything = {"survey": N_ROWS, "means": N_ROWS}
    return (
        {**everything, "write": N_ROWS} if stage == "appear" or (shuffle and stage != "write") else everything
    )


def test_a_source_that_changed_is_named_and_starts_anew(frame, tmp_path, small_batches, caplog, monkeypatch):
    source, out = tmp_path / "flights.parquet", tmp_path / "out.zarr"
    frame.to_parquet(source, index=False)
    _interrupted(source, out, monkeypatch)
    frame[::-1].to_parquet(source, index=False)
    caplog.set_level(logging.INFO, logger="streamgp")
    streamgp.ingest(source, out, **OPTIONS)
    assert f"starts anew: {source} changed since" in caplog.text
    assert "known already" not in caplog.text
    streamgp.ingest(source, tmp_path / "whole.zarr", **OPTIONS)
    assert files(out) == files(tmp_path / "whole.zarr")


def test_other_options_are_named_and_start_anew(parquet, tmp_path, caplog, monkeypatch):
    out = tmp_path / "out.zarr"
    _interrupted(parquet, out, monkeypatch)
    streamgp.ingest(parquet, out, **{**OPTIONS, "test": "10%"})
    assert "starts anew: other test" in caplog.text


def _interrupted(source: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Ctrl-C leaves while rows are written."""

    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("streamgp.tables.run.encode_batch", stop)
        with pytest.raises(KeyboardInterrupt):
            streamgp.ingest(source, out, **OPTIONS)
    assert not out.exists()
    assert out.with_name(f".{out.name}.ingest").exists()


def test_damaged_notes_and_chunks_are_made_again(parquet, tmp_path, small_batches):
    expected = tmp_path / "expected.zarr"
    streamgp.ingest(parquet, expected, shuffle=False, **OPTIONS)
    left, out = tmp_path / ".out.zarr.ingest", tmp_path / "out.zarr"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("streamgp.tables.journal.flush_tree", _stop)
        with pytest.raises(KeyboardInterrupt):
            streamgp.ingest(parquet, out, shuffle=False, **OPTIONS)
    chunk = left / "store.zarr" / "X" / "c" / "3" / "0"
    chunk.write_bytes(b"torn" + chunk.read_bytes()[4:])
    (left / "means").write_bytes((left / "means").read_bytes()[:-9])
    with (left / "chunks").open("a") as file:
        file.write("0000")
    streamgp.ingest(parquet, out, shuffle=False, **OPTIONS)
    assert files(out) == files(expected)


def _stop(*arguments: object) -> None:
    raise KeyboardInterrupt


def test_a_refused_table_and_one_in_memory_leave_nothing(frame, parquet, tmp_path, monkeypatch):
    with pytest.raises(TableError, match="missing"):
        streamgp.ingest(parquet, tmp_path / "out.zarr", target="late", missing="refuse")
    monkeypatch.setattr("streamgp.tables.run.encode_batch", _stop)
    with pytest.raises(KeyboardInterrupt):
        streamgp.ingest(frame, tmp_path / "out.zarr", target="late")
    assert not list(tmp_path.iterdir())


def test_two_at_once_are_refused(parquet, tmp_path):
    folder = tmp_path / ".out.zarr.ingest"
    folder.mkdir()
    with locked(folder), pytest.raises(StoreError, match="is being written by process"):
        streamgp.ingest(parquet, tmp_path / "out.zarr", target="late")
    assert folder.exists()


def test_every_source_can_be_read_from_a_row_on(frame, tmp_path):
    """Also where pieces and rows do not meet."""
    import numpy as np
    import zarr

    from streamgp.tables.sources import open_source
    from tests.tables.test_ingest import SOURCES

    opened = [open_source(make(frame, tmp_path)) for make in SOURCES.values()]
    frame.to_parquet(tmp_path / "groups.parquet", row_group_size=300)
    columns = {"a": np.arange(3000), "X": np.arange(6000.0).reshape(3000, 2)}
    np.savez(tmp_path / "columns.npz", **columns)
    group = zarr.open_group(tmp_path / "columns.zarr", mode="w")
    for name, array in columns.items():
        group.create_array(name, data=array, chunks=(700, *array.shape[1:]))
    opened += [open_source(tmp_path / name) for name in ("groups.parquet", "columns.npz", "columns.zarr")]
    for source in opened:
        names = source.schema.names
        whole = source.pieces(names, 256, 0)
        expected = [row for piece in whole for row in piece.to_pylist()]
        for start in (1, 299, 300, 2999, 3000):
            found = [row for piece in source.pieces(names, 256, start) for row in piece.to_pylist()]
            assert str(found) == str(expected[start:]), (source.label, start)
