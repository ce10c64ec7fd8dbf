"""Processes killed at named moments: resumed they give the same bits, and nothing stays behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_kills_at_eight_named_points():
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.robustness.kills", "--points", "--no-save"]
    done = subprocess.run([*command, "--rows", "800"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    [total] = [row for row in rows if row["case"] == "all"]
    assert total["kills"] == 8
    assert total["different"] == 0, rows
    assert total["left"] == 0, rows
    [predicted] = [row for row in rows if row["case"] == "predict_stream"]
    assert predicted["rows_read_again"] < 2 * 800  # what was written is not read again
