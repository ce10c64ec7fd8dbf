from __future__ import annotations

import contextlib
import io
import shlex
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from benchmarks.walkthrough import PAGE, Done, commands, with_transcript, write_tables
from streamgp.cli import main
from tests.conftest import SHARED_DATA

ROWS = 20_000


def run_here(command, folder):
    """Run a command in this process: starting six costs more than they do."""
    text = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        code = main(shlex.split(command)[1:])
    return Done(command, text.getvalue(), code, 0.0, 0.0)


@pytest.fixture(scope="module")
def transcript(tmp_path_factory):
    """All commands of the page, run in an empty folder on a part of the flights, or on made-up ones."""
    folder = tmp_path_factory.mktemp("walkthrough")
    write_tables(folder, ROWS, str(SHARED_DATA), synthetic=not (SHARED_DATA / "flights3m.npz").exists())
    # A small model is enough to see that every command works.
    small = "--selection ivm --n-active 100"
    lines = [command.replace("--max-seconds 300", small) for command in commands(PAGE.read_text())]
    return folder, [run_here(command, folder) for command in lines]


def test_every_command_of_the_walkthrough_works(transcript):
    folder, done = transcript
    verbs = [each.command.split()[1] for each in done]
    assert verbs == ["ingest", "plan", "fit", "evaluate", "predict", "report"]
    for each in done:
        assert each.code == 0, each.printed
        assert "Traceback" not in each.printed
    predictions = parquet.read_table(folder / "predictions.parquet")
    assert predictions.column_names == ["label", "p_no", "p_yes"]
    assert predictions.num_rows == parquet.read_table(folder / "new_flights.parquet").num_rows
    assert np.ptp(predictions["p_yes"].to_numpy()) > 0.01
    page = (folder / "report.html").read_text()
    assert "Reliability diagram" in page
    assert "distance" in page


def test_no_message_is_one_that_nobody_can_act_on(transcript):
    _, done = transcript
    assert not [each.printed for each in done if "warning:" in each.printed.lower()]


def test_the_page_is_renewed_in_place(transcript):
    _, done = transcript
    once = with_transcript(PAGE.read_text(), done)
    assert with_transcript(once, done) == once
    assert commands(once) == commands(PAGE.read_text())
    assert Path(PAGE).parent.name == "examples"
