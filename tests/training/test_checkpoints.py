"""Interrupted fits: killed at any moment and resumed, they end at the same model, bit for bit."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import streamgp
from streamgp.data.synthetic import write_store
from streamgp.errors import CheckpointError

SCRIPT = """
import sys
import streamgp
model = streamgp.fit_stream(
    sys.argv[1], n_active=120, selection="ivm", memory_budget="12MiB", random_state=5, checkpoint=sys.argv[2]
)
model.save(sys.argv[3])
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data") / "train.zarr"
    write_store(path, 15_000, n_features=4, chunk_rows=2000)
    return path


def start(store: Path, folder: Path) -> subprocess.Popen[bytes]:
    arguments = [str(store), str(folder / "checkpoint"), str(folder / "model.zip")]
    return subprocess.Popen([sys.executable, "-c", SCRIPT, *arguments])


def same_model(one: Path, other: Path) -> None:
    first, second = (streamgp.load(path / "model.zip").model_.to_record() for path in (one, other))
    assert first[0] == second[0]
    for name, array in first[1].items():
        np.testing.assert_array_equal(array, second[1][name], err_msg=name)


def test_killed_and_resumed_fits_give_the_same_model(store, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    assert start(store, whole).wait() == 0
    steps_seen = set()
    for kill_after in (1, 3, 6, 9):
        process = start(store, broken)
        pointer = broken / "checkpoint" / "LATEST"
        target = len(steps_seen) + kill_after
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if pointer.exists():
                steps_seen.add((pointer.read_text(), pointer.stat().st_mtime_ns))
            if len(steps_seen) >= target:
                process.kill()
            time.sleep(0.005)
        process.wait()
    assert start(store, broken).wait() == 0
    same_model(whole, broken)


def test_several_stages_and_rounds_are_in_the_history(store, tmp_path):
    model = streamgp.fit_stream(
        store, n_active=120, memory_budget="12MiB", random_state=5, checkpoint=tmp_path / "c", selection="ivm"
    )
    stages = [entry["stage"] for entry in model.history_]
    assert stages[0] == "learn: start"
    assert stages.count("select: ivm") >= 2
    assert stages[-1] == "calibrate"
    assert all(entry["seconds"] >= 0 and entry["peak_memory"] > 0 for entry in model.history_)
    # A finished fit is found finished: nothing is done again.
    again = streamgp.fit_stream(
        store, n_active=120, memory_budget="12MiB", random_state=5, checkpoint=tmp_path / "c", selection="ivm"
    )
    assert again.history_ == model.history_


def test_a_checkpoint_of_another_fit_is_refused_with_the_difference(store, tmp_path, generator):
    settings = {
        "n_active": 20,
        "selection": "ivm",
        "random_state": 0,
        "learn_hyperparameters": False,
        "checkpoint": tmp_path,
    }
    streamgp.fit_stream(store, **settings)
    with pytest.raises(CheckpointError, match="n_active: '20' then, '30' now"):
        streamgp.fit_stream(store, **{**settings, "n_active": 30})
    X = generator.standard_normal((500, 4))
    with pytest.raises(CheckpointError, match="rows: 15000 then, 500 now"):
        streamgp.fit_stream((X, np.where(X[:, 0] > 0, "yes", "no")), **settings)
