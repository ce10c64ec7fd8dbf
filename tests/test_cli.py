from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest
import zarr
from pyarrow import csv, parquet

import streamgp
from streamgp.cli import main
from streamgp.cli.values import value
from streamgp.data.synthetic import write_store
from streamgp.kernels import RBF, Linear
from streamgp.settings import FPASS

SMALL = [
    "--n-active",
    "64",
    "--selection",
    "ivm",
    "--learn-hyperparameters",
    "false",
    "--kernel",
    "RBF(4.0, 2.0)",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two stores and a model that the command line has made of the first."""
    path = tmp_path_factory.mktemp("cli")
    write_store(path / "train.zarr", 3000, seed=0)
    write_store(path / "test.zarr", 500, seed=1)
    assert main(["fit", str(path / "train.zarr"), "-o", str(path / "model.zip"), "--quiet", *SMALL]) == 0
    return path


def told(capsys, *arguments):
    capsys.readouterr()
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_demo_learns_and_scores(tmp_path, capsys):
    result = told(capsys, "demo", "--rows", "20000", "--n-active", "200", "--folder", tmp_path / "d")
    assert result["n_active"] == 200
    assert result["best_possible_error"] < result["test_error"] + 0.01 < 0.2
    assert result["best_possible_log_loss"] < result["test_log_loss"] < 0.4
    assert result["calibration_error"] < 0.05
    assert zarr.open_group(tmp_path / "d" / "predictions.zarr", mode="r")["label"].shape == (2000,)


BARE = """
import sys
for name in ("pyarrow", "pandas", "polars", "xarray", "matplotlib", "jinja2", "fsspec", "obstore"):
    sys.modules[name] = None  # as if it were not installed
from streamgp.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "command", ["demo --rows 3000 --n-active 30 --quiet", "plan --rows 3000 --features 3", "fit --help"]
)
def test_the_command_line_needs_no_extra(command):
    done = subprocess.run([sys.executable, "-c", BARE, *command.split()], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_fit_shows_plan_recipe_and_stages(folder, capsys):
    assert main(["fit", str(folder / "train.zarr"), "-o", str(folder / "again.zip"), *SMALL]) == 0
    shown = capsys.readouterr()
    assert "recipe: select: ivm -> calibrate" in shown.err
    assert "budget" in shown.err
    assert [line.split()[0] for line in shown.out.splitlines()[:2]] == ["stage", "select:"]
    assert not (folder / "again.zip.checkpoint").exists()
    first, again = (streamgp.load(folder / name) for name in ("model.zip", "again.zip"))
    np.testing.assert_array_equal(first.active_rows_, again.active_rows_)
    assert first.about_["rows"] == 3000
    assert first.history_[0]["rows_read"] >= 0


def test_plan_tells_the_recipe_of_the_fit(folder, capsys):
    found = told(capsys, "plan", folder / "train.zarr", *SMALL)
    assert found["recipe"] == streamgp.load(folder / "model.zip").recipe_
    assert found["n_active"] == 64
    assert 0 < found["total_bytes"] <= found["budget_bytes"]
    assert main(["plan", str(folder / "train.zarr")]) == 0
    assert "active set" in capsys.readouterr().out


def test_evaluate_is_what_the_library_says(folder, capsys):
    found = told(capsys, "evaluate", folder / "model.zip", folder / "test.zarr")
    score = streamgp.load(folder / "model.zip").evaluate_stream(folder / "test.zarr").to_dict()
    assert {name: found[name] for name in score} == score
    assert {"error", "log_loss", "auc", "baseline"} <= found.keys()
    assert main(["evaluate", str(folder / "model.zip"), str(folder / "test.zarr")]) == 0
    assert "baseline" in capsys.readouterr().out


@pytest.mark.parametrize("ending", ["parquet", "csv", "zarr"])
def test_predictions_have_names(folder, tmp_path, ending):
    out = tmp_path / f"predictions.{ending}"
    assert main(["predict", str(folder / "model.zip"), str(folder / "test.zarr"), "-o", str(out)]) == 0
    model = streamgp.load(folder / "model.zip")
    expected = model.predict_proba(zarr.open_group(folder / "test.zarr", mode="r")["X"][:])
    if ending == "zarr":
        group = zarr.open_group(out, mode="r")
        assert group.attrs["classes"] == model.classes_.tolist()
        found = group["probability"][:]
    else:
        table = parquet.read_table(out) if ending == "parquet" else csv.read_csv(out)
        assert table.column_names == ["label", "p_no", "p_yes"]
        assert set(table["label"].to_pylist()) <= {"no", "yes"}
        found = np.column_stack([table["p_no"], table["p_yes"]])
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_info_tells_models_and_stores(folder, capsys):
    assert told(capsys, "info", folder / "model.zip")["classes"] == ["no", "yes"]
    assert told(capsys, "info", folder / "test.zarr")["rows"] == 500


def test_report_writes_a_page(folder, capsys):
    page = folder / "report.html"
    told(capsys, "report", folder / "model.zip", "--data", folder / "test.zarr", "-o", page)
    assert "ROC curve" in page.read_text()


def test_a_dry_run_predicts_seconds(folder, capsys):
    found = told(capsys, "fit", folder / "train.zarr", "--sample", "40%", *SMALL)
    assert found["sample_rows"] == 1200
    assert found["predicted_seconds"] > 0
    assert not (folder / "train.model.zip").exists()


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A Parquet file with strings and gaps, and a store and a model that the command line makes of it."""
    folder, generator = tmp_path_factory.mktemp("table"), np.random.default_rng(0)
    size, town = generator.standard_normal(900), generator.choice(["Rome", "Oslo", None], 900)
    late = np.where(size + (town == "Rome") > 0.3, "late", "in time")
    columns = {"size": pa.array(size, mask=size > 2), "town": pa.array(town), "late": pa.array(late)}
    parquet.write_table(pa.table(columns), folder / "trips.parquet")
    return folder


def test_a_table_is_ingested_by_its_verb(table, capsys):
    command = ["ingest", table / "trips.parquet", table / "trips.zarr", "--target", "late", "--test", "20%"]
    found = told(capsys, *command, "--shuffle")
    assert found["rows"] + found["test_rows"] == 900
    raw = told(capsys, "info", table / "trips.parquet")
    assert raw == {
        "kind": "table",
        "rows": 900,
        "columns": {"size": "double", "town": "string", "late": "string"},
    }
    store = told(capsys, "info", table / "trips.zarr")
    assert store["target"] == "late"
    assert "town=Rome" in store["feature_names"]
    assert main([*map(str, command)]) == 3  # it exists
    assert "trips.zarr" in capsys.readouterr().err


def test_a_fit_of_a_table_keeps_a_cache_and_raw_columns_are_read_again(table, capsys):
    trips, model = table / "trips.parquet", table / "model.zip"
    command = ["fit", str(trips), "--target", "late", "-o", str(model), "--n-active", "40"]
    fixed = ["--selection", "ivm", "--learn-hyperparameters", "false", "--kernel", "RBF(4.0, 2.0)"]
    assert main([*command, *fixed]) == 0
    assert "is ingested to" in capsys.readouterr().err
    assert main([*command, *fixed]) == 0
    assert "is read from its cache" in capsys.readouterr().err
    assert (table / "trips.parquet.streamgp.zarr").exists()
    assert told(capsys, "evaluate", model, trips)["error"] < 0.2
    told(capsys, "predict", model, trips, "-o", table / "predictions.csv")
    predictions = csv.read_csv(table / "predictions.csv")
    assert predictions.column_names == ["label", "p_in time", "p_late"]
    assert predictions.num_rows == 900
    told(capsys, "report", model, "--data", trips, "-o", table / "report.html")
    assert "town=Rome" in (table / "report.html").read_text()
    assert main(["fit", str(trips), "--quiet"]) == 2
    assert "--target" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["demo", "--rows", "1000", "--memory-budget", "1kB"], 4, "memory_budget="),
        (["fit", "{}/train.zarr", "--n-active", "0"], 2, "n_active"),
        (["fit", "{}/train.zarr", "--sample", "two"], 2, "1%"),
        (["fit", "{}/train.zarr", "--sample", "1%"], 2, "33.3%"),
        (["fit", "{}/train.zarr", "--target", "a"], 2, "--y"),
        (["fit", "{}/absent.zarr"], 3, "absent.zarr"),
        (["evaluate", "{}/train.zarr", "{}/test.zarr"], 3, "train.zarr"),
        (["predict", "{}/model.zip", "{}/test.zarr", "-o", "{}/out.txt"], 2, ".parquet"),
        (["predict", "{}/model.zip", "{}/test.zarr", "-o", "{}/none/out.csv"], 2, "none"),
        (["report", "{}/model.zip", "-o", "{}/none/report.html"], 2, "none"),
        (["fit", "{}/train.zarr", "-o", "{}/none/model.zip"], 2, "none"),
    ],
)
def test_errors_are_told_in_one_line(folder, capsys, arguments, code, words):
    assert main([part.format(folder) for part in arguments] + ["--quiet"]) == code
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("streamgp: error: ")
    assert words in line


def test_debug_shows_where(folder):
    with pytest.raises(streamgp.errors.StreamGPError):
        main(["fit", str(folder / "absent.zarr"), "--debug"])


@pytest.mark.parametrize("arguments", [["dance"], ["fit", "a.zarr", "--kernel", "Wrong(2)"], []])
def test_a_wrong_call_is_refused(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "error:" in line
    assert "--help" in line


@pytest.mark.parametrize("verb", ["demo", "plan", "ingest", "fit", "predict", "evaluate", "report", "info"])
def test_every_verb_has_help_with_an_example(capsys, verb):
    with pytest.raises(SystemExit) as stop:
        main([verb, "--help"])
    assert stop.value.code == 0
    assert f"example:\n  streamgp {verb} " in capsys.readouterr().out


def test_a_cache_is_of_the_file_as_it_is_now(table, tmp_path, capsys):
    """Also where another file takes its name that is older than the cache."""
    kept, trips = parquet.read_table(table / "trips.parquet"), tmp_path / "a.2001.parquet"
    parquet.write_table(kept.slice(0, 300), tmp_path / "older.parquet")
    parquet.write_table(kept, trips)
    command = ["fit", str(trips), "--target", "late", "--n-active", "9", "--selection", "ivm", "--json"]
    fixed = [*command, "--learn-hyperparameters", "false", "--kernel", "RBF(4.0, 2.0)"]
    assert main(fixed) == 0
    assert (tmp_path / "a.2001.model.zip").exists()
    assert main(["fit", str(trips), "--target", "nothing"]) == 3  # the cache stays as it is
    capsys.readouterr()
    assert main(fixed) == 0
    assert "is read from its cache" in capsys.readouterr().err
    (tmp_path / "older.parquet").replace(trips)
    capsys.readouterr()
    assert main(fixed) == 0
    assert "is ingested to" in capsys.readouterr().err
    assert told(capsys, "info", tmp_path / "a.2001.parquet.streamgp.zarr")["rows"] == 300


def test_an_interrupted_ingest_says_how_to_go_on(table, tmp_path, capsys, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    command = ["ingest", str(table / "trips.parquet"), str(tmp_path / "trips.zarr"), "--target", "late"]
    with monkeypatch.context() as patched:
        patched.setattr("streamgp.tables.run.encode_batch", stop)
        assert main(command) == 130
    assert "run the same command again to go on" in capsys.readouterr().err.splitlines()[-1]
    assert main(command) == 0
    assert "goes on" in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["trips.zarr"]


def test_values_are_words_numbers_and_settings():
    assert value("none") is None
    assert value("0.5") == 0.5
    assert value("pass") == "pass"
    assert value("FPASS(p_exc=0.1)") == FPASS(p_exc=0.1)
    assert value("RBF") == RBF()
    assert value("RBF(1.0, 2.0) + Linear()") == RBF(1.0, 2.0) + Linear()
    assert value("[RBF, RBF(1.0, 2.0)]") == [RBF(), RBF(1.0, 2.0)]
    assert value("[3, 4]") == [3, 4]
    assert value("[three, 4]") == "[three, 4]"


def test_an_interrupted_fit_goes_on_where_it_stopped(tmp_path):
    write_store(tmp_path / "train.zarr", 4000, seed=0)
    output = tmp_path / "model.zip"
    command = [sys.executable, "-m", "streamgp", "fit", str(tmp_path / "train.zarr"), "-o", str(output)]
    running = subprocess.Popen(
        [*command, "--n-active", "60", "--selection", "ivm"], stderr=subprocess.PIPE, text=True
    )
    while not (tmp_path / "model.zip.checkpoint" / "LATEST").exists() and running.poll() is None:
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate()
    assert running.returncode == 130
    assert "run the same command again to go on" in errors.splitlines()[-1]
    assert not output.exists()
    done = subprocess.run(
        [*command, "--n-active", "60", "--selection", "ivm"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "resumed at step" in done.stderr
    assert output.exists()
    assert not (tmp_path / "model.zip.checkpoint").exists()


def test_the_module_runs():
    done = subprocess.run([sys.executable, "-m", "streamgp", "--version"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.strip()
