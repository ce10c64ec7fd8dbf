"""What a fit of rows that are not there would take: sums of its stages, at rates that are remembered."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import pytest

from streamgp import StreamGPClassifier
from streamgp.cli import imagine
from streamgp.cli.main import main
from streamgp.data.imagined import imagined_rows
from streamgp.data.synthetic import write_store
from streamgp.errors import NotConvergedWarning
from streamgp.inference.inducing.held import held_bytes
from streamgp.kernels import RBF
from streamgp.passes.progress import Progress
from streamgp.passes.run import limited_threads
from streamgp.settings import FITC, fit_settings
from streamgp.training import rates as measuring
from streamgp.training.fit_memory import plan_fit
from streamgp.training.forecast import PASSES_BY_PARTS, Question, forecast
from streamgp.training.infer.parts import parts_of, steps_ahead
from streamgp.training.rates import Rates, rates

RATES = Rates(
    row=1e-7,
    output=1e-8,
    entry=1e-9,
    feature=1e-11,
    latent=1e-10,
    look=1e-7,
    value=1e-9,
    nearest=1e-9,
    packing=1e-9,
    whitening=1e-11,
    moments=2e-11,
    held=1e-10,
    byte=1e-9,
    begin=1e-3,
    task=1e-3,
)
SETTINGS = fit_settings(StreamGPClassifier(memory_budget="256MiB").get_params(deep=False), 0)
FREE = replace(RATES, begin=0.0, task=0.0)
LARGE = Question(rows=2**23, features=20, active=500, classes=3, chunk_rows=1024)


def test_a_pass_is_reading_kernel_and_latent_values():
    found = forecast(LARGE, SETTINGS, FREE)
    a_row = 80 * 1e-9 + 1e-7 + 3e-8 + 500 * (1e-9 + 20 * 1e-11 + 3 * 1e-10)
    assert found.pass_seconds == pytest.approx(2**23 * a_row)
    assert (found.passes, found.rows_are_held) == (PASSES_BY_PARTS, False)
    assert found.seconds == pytest.approx(sum(found.stages.values()))
    assert found.stages["infer"] > 3 * found.pass_seconds
    assert found.store_bytes == 2**23 * 81


def test_rows_and_workers_have_their_share():
    one, twice, many = (
        forecast(question, SETTINGS, FREE)
        for question in (LARGE, LARGE._replace(rows=2**24), LARGE._replace(workers=8))
    )
    assert twice.pass_seconds == pytest.approx(2 * one.pass_seconds)
    assert many.pass_seconds == pytest.approx(one.pass_seconds / 8)
    assert many.stages["learn"] == one.stages["learn"]  # done once, here


def test_tasks_and_steps_cost_and_cores_without_a_task_wait():
    rows = imagined_rows(LARGE.rows, LARGE.features, chunk_rows=LARGE.chunk_rows)
    parts = parts_of(rows.cut(LARGE.chunk_rows), LARGE.active)
    free, costly = (forecast(LARGE, SETTINGS, rates) for rates in (FREE, RATES))
    tasks = LARGE.rows // LARGE.chunk_rows
    assert costly.pass_seconds - free.pass_seconds == pytest.approx(1e-3 * (len(parts) + tasks), rel=0.01)
    # Tasks of the steps under way: more workers find nothing to do.
    most = (steps_ahead(len(parts)) + 1) * len(parts[0])
    many, more = (
        forecast(LARGE._replace(workers=workers), SETTINGS, FREE).pass_seconds for workers in (most, 4 * most)
    )
    assert more == many
    known = forecast(LARGE, SETTINGS, RATES, passes=9)
    assert known.passes == 9
    assert known.seconds > costly.seconds


def test_memory_is_that_of_the_plan_and_few_rows_are_held():
    found = forecast(LARGE._replace(rows=20_000), SETTINGS, RATES)
    assert found.rows_are_held
    how = {"multiclass": "joint", "n_active": 500, "size_is_open": False, "method_is_open": False}
    plan = plan_fit(imagined_rows(20_000, 20), replace(SETTINGS, **how), 3)
    held = held_bytes(20_000, 500, 4)
    assert found.memory_bytes == pytest.approx(plan.total_bytes + held, rel=0.2)
    packed = forecast(LARGE._replace(rows=100_000), SETTINGS, RATES)
    assert packed.rows_are_held
    assert packed.memory_bytes < plan.total_bytes + held_bytes(100_000, 500, 4)


@pytest.mark.parametrize(
    ("rows", "active", "budget"), [(3000, 20, "64MiB"), (40_000, 300, "48MiB"), (40_000, 100, "48MiB")]
)
def test_rows_read_and_whether_rows_are_held_are_those_of_a_fit(tmp_path, rows, active, budget):
    write_store(tmp_path / "rows.zarr", rows, n_features=4, chunk_rows=8192, labels=(0, 1))
    how = {"selection": "kmeans", "inference": FITC(), "multiclass": "joint", "learn_hyperparameters": False}
    progress = Progress(False)
    model = StreamGPClassifier(active, **how, memory_budget=budget, random_state=0, kernel=RBF(4.0, 2.0))
    settings = fit_settings(model.get_params(deep=False), 0)
    with limited_threads(2), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        model.set_params(progress=progress).fit_stream(tmp_path / "rows.zarr")
        question = Question(rows, 4, active, threads=2, chunk_rows=8192)
        found = forecast(question, settings, RATES)
    [mode] = [entry for entry in model.history_ if entry["stage"] == "infer: mode"]
    assert found.rows_are_held == (mode["passes"] < 2)
    if found.rows_are_held:
        assert found.passes == mode["passes"]
        assert found.rows_read == progress.rows_read
    else:  # how many passes there are, the data decide
        assert forecast(question, settings, RATES, mode["passes"]).rows_read == progress.rows_read


def test_rates_are_measured_once_and_again_where_asked_for(tmp_path, monkeypatch):
    measured = []
    monkeypatch.setattr(measuring, "_measured", lambda: measured.append(1) or RATES)
    assert rates(tmp_path) == RATES
    assert rates(tmp_path) == RATES
    assert len(measured) == 1
    rates(tmp_path, again=True)
    assert len(measured) == 2
    saved = json.loads((tmp_path / measuring.FILE).read_text())
    (tmp_path / measuring.FILE).write_text(json.dumps({**saved, "machine": "another one"}))
    rates(tmp_path)
    assert len(measured) == 3


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", "nan", "no-latent", "more", "\x00\x00"])
def test_damaged_files_of_rates_are_measured_anew(tmp_path, monkeypatch, text):
    measured = []
    monkeypatch.setattr(measuring, "_measured", lambda: measured.append(1) or RATES)
    rates(tmp_path)
    saved = json.loads((tmp_path / measuring.FILE).read_text())
    damaged = {
        "nan": {**saved, "row": float("nan")},
        "no-latent": {name: value for name, value in saved.items() if name != "latent"},
        "more": {**saved, "more": 1.0},
    }
    (tmp_path / measuring.FILE).write_text(json.dumps(damaged[text]) if text in damaged else text)
    assert rates(tmp_path) == RATES
    assert len(measured) == 2
    assert rates(tmp_path) == RATES
    assert len(measured) == 2


def test_whoever_dies_while_rates_are_written_leaves_the_old_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "_measured", lambda: RATES)
    rates(tmp_path)

    def dies(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", dies)
    with pytest.raises(KeyboardInterrupt):
        rates(tmp_path, again=True)
    assert measuring._remembered(tmp_path / measuring.FILE) == RATES


def test_rates_of_more_threads_are_others(tmp_path, monkeypatch):
    measured = []
    monkeypatch.setattr(measuring, "_measured", lambda: measured.append(1) or RATES)
    for threads in (1, 3):
        with limited_threads(threads):
            rates(tmp_path)
    assert len(measured) == 2


def test_what_is_measured_is_positive(monkeypatch):
    monkeypatch.setattr(measuring, "ROWS", 512)
    monkeypatch.setattr(measuring, "TASKS", 4)
    monkeypatch.setattr(measuring, "INDUCING", 64)
    found = vars(measuring._measured())
    assert min(found.values()) >= 0.0
    assert all(found[name] > 0.0 for name in ("row", "entry", "nearest", "whitening", "held", "byte", "task"))


def test_the_command_tells_it(monkeypatch, capsys):
    monkeypatch.setattr(imagine, "rates", lambda again: RATES)
    shape = [
        "--rows",
        str(2**23),
        "--chunk-rows",
        "1024",
        "--features",
        "20",
        "--active",
        "500",
        "--classes",
        "3",
        "--workers",
        "2",
    ]
    assert main(["plan", *shape, "--memory-budget", "256MiB", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    expected = forecast(LARGE._replace(workers=2), SETTINGS, RATES)
    assert told["pass_seconds"] == expected.pass_seconds
    assert main(["plan", *shape]) == 0
    assert "the whole fit" in capsys.readouterr().out


@pytest.mark.parametrize(
    "wrong", [["--rows", "1e6"], [], ["--rows", "10", "--features", "2", "--classes", "1"]]
)
def test_what_is_missing_is_told(wrong, capsys):
    assert main(["plan", *wrong]) == 2
    assert "--" in capsys.readouterr().err
