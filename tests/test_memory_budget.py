"""Peak memory of whole fits, each in a process of its own: inside the budget, whatever the number of rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from streamgp.data.synthetic import write_store

MEBIBYTE = 2**20

SCRIPT = """
import json, sys
import numpy as np
from streamgp import StreamGPClassifier
from streamgp.budget import peak_memory

X = np.random.default_rng(0).standard_normal((5000, 8))
StreamGPClassifier(20, precision="float32", random_state=0).fit(X, X[:, 0] > 0).predict(X)
baseline = peak_memory()
model = StreamGPClassifier(200, memory_budget=sys.argv[2], random_state=0).fit_stream(sys.argv[1])
model.evaluate_stream(sys.argv[1])
print(json.dumps({"baseline": baseline, "peak": peak_memory()}))
"""


def peaks(store: Path, budget: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(store), budget], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read as Linux tells it")
def test_peak_memory_stays_inside_the_budget_and_is_flat_in_the_rows(tmp_path):
    small, large = tmp_path / "small.zarr", tmp_path / "large.zarr"
    write_store(small, 100_000, chunk_rows=20_000)
    write_store(large, 1_000_000, chunk_rows=20_000)
    few, many = (peaks(store, "48MiB") for store in (small, large))
    for result in (few, many):
        assert result["peak"] <= result["baseline"] + 48 * MEBIBYTE
    assert many["peak"] - few["peak"] < 20 * MEBIBYTE
