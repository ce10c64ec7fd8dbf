"""Peak memory of whole fits, each in a process of its own: inside the budget, whatever the number of rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streamgp.data.synthetic import write_store

SCRIPT = """
import json, sys
import numpy as np
from streamgp import StreamGPClassifier
from streamgp.budget import peak_memory

X = np.random.default_rng(0).standard_normal((1500, 8))
settings = {"random_state": 0, **json.loads(sys.argv[3])}
StreamGPClassifier(**{**settings, "n_active": 20, "precision": "float32"}).fit(X, X[:, 0] > 0).predict(X)
baseline = peak_memory()
settings = {"n_active": 200, **settings}
model = StreamGPClassifier(memory_budget=sys.argv[2], **settings).fit_stream(sys.argv[1])
model.evaluate_stream(sys.argv[1])
print(json.dumps({"baseline": baseline, "peak": peak_memory()}))
"""


def memory_of_a_fit(store: Path, budget: str, **settings: Any) -> float:
    """Peak memory of a fit beyond that of a process that has run a tiny one, in MiB."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(store), budget, json.dumps(settings)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    return (found["peak"] - found["baseline"]) / 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read as Linux tells it")
def test_peak_memory_stays_inside_the_budget_and_is_flat_in_the_rows(tmp_path):
    small, large = tmp_path / "small.zarr", tmp_path / "large.zarr"
    write_store(small, 50_000, chunk_rows=10_000)
    write_store(large, 500_000, chunk_rows=10_000)
    few, many = (memory_of_a_fit(store, "48MiB") for store in (small, large))
    assert few <= 48
    assert many <= 48
    assert many - few < 20


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read as Linux tells it")
def test_rows_and_chunks_that_are_wide_stay_inside_the_budget(tmp_path):
    store = tmp_path / "wide.zarr"
    write_store(store, 40_000, 200, chunk_rows=10_000)  # chunks of 8 MB, a third of the rows in memory
    assert memory_of_a_fit(store, "128MiB") <= 128


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read as Linux tells it")
@pytest.mark.parametrize(("learning", "n_rows"), [(True, 60_000), ("passes", 6_000)])
def test_inference_over_all_rows_stays_inside_the_budget(tmp_path, learning, n_rows):
    store = tmp_path / "train.zarr"
    write_store(store, n_rows, chunk_rows=n_rows // 6)
    assert memory_of_a_fit(store, "48MiB", inference="fitc", learn_hyperparameters=learning) <= 48


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read as Linux tells it")
def test_whitened_rows_that_are_held_stay_inside_the_budget(tmp_path):
    store = tmp_path / "train.zarr"
    write_store(store, 190_000, chunk_rows=4096)
    joint = {"selection": "kmeans", "inference": "fitc", "multiclass": "joint", "n_active": 500}
    assert memory_of_a_fit(store, "256MiB", learn_hyperparameters=False, **joint) <= 256


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read as Linux tells it")
def test_local_blocks_stay_inside_the_budget_and_are_flat_in_the_rows(tmp_path):
    found = []
    for n_rows in (5_000, 25_000):
        store = tmp_path / f"{n_rows}.zarr"
        write_store(store, n_rows, chunk_rows=2_500)
        found.append(memory_of_a_fit(store, "96MiB", inference="local", learn_hyperparameters=False))
    few, many = found
    assert few <= 96
    assert many <= 96
    assert many - few < 20
