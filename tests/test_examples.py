from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_is_short(path):
    assert len(path.read_text().splitlines()) < 40
    done = subprocess.run([sys.executable, "-W", "error", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout
