from __future__ import annotations

import json
import subprocess
import sys

import pytest
import zarr

from streamgp.cli import main


def test_demo_learns_and_reports(tmp_path, capsys):
    assert (
        main(["demo", "--rows", "20000", "--n-active", "200", "--folder", str(tmp_path / "d"), "--json"]) == 0
    )
    result = json.loads(capsys.readouterr().out)
    assert result["test_error"] < 0.25
    assert result["test_log_loss"] < 0.52
    assert result["calibration_error"] < 0.1
    assert zarr.open_group(tmp_path / "d" / "predictions.zarr", mode="r")["label"].shape == (2000,)


def test_errors_are_told_in_one_line(capsys):
    assert main(["demo", "--rows", "1000", "--memory-budget", "1kB"]) == 1
    assert "memory_budget=" in capsys.readouterr().err


def test_a_wrong_call_is_refused(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["dance"])
    assert stop.value.code == 2


def test_the_module_runs():
    done = subprocess.run([sys.executable, "-m", "streamgp", "--version"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.strip()
