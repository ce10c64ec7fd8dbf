"""Every benchmark runs, in its smallest size; ``python -m benchmarks`` and its README list all of them."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import record
from benchmarks.__main__ import listing, scripts
from benchmarks.datasets import split_of
from benchmarks.defaults.tables import sets_table, unseen_table
from benchmarks.harness import probability_scores, row_or_reason, scores
from benchmarks.papers import fitc_table1, pictures, tables
from benchmarks.peers.data import SETS
from benchmarks.peers.methods import RECIPES
from benchmarks.peers.table import _decades, full_table, summary
from benchmarks.peers.table import table as peers_table
from streamgp import StreamGPClassifier

ROOT = Path(__file__).parents[1]
SMOKE = {
    "benchmarks.limits.codecs": "--rows 600 --features 3 --chunk-rows 200 --repeats 1 --codecs zstd",
    "benchmarks.limits.ep_robustness": "--problems 4",
    "benchmarks.limits.cores": "--rows 4096 --features 3 --active 16 --repeats 1 --fit-rows 1000",
    "benchmarks.limits.fitc_convergence": "--synthetic --sets crabs usps4 --inducing 10",
    "benchmarks.limits.joint_convergence": "--synthetic --sets crabs usps --rows 100 --active 10",
    "benchmarks.limits.fitc_sweep": "--rows 64 --features 3 --inducing 16 --repeats 1",
    "benchmarks.limits.likelihood_sites": "--rows 40 --classes 3 --repeats 1",
    "benchmarks.limits.kernel_block": "--rows 64 --features 3 --active 16 --repeats 1",
    "benchmarks.limits.local_sweep": "--rows 40 --features 3 --inducing 16 --repeats 1",
    "benchmarks.limits.pass_throughput": "--rows 3000 --features 5 --active 20 --repeats 1",
    "benchmarks.papers.fitc_inducing": "--synthetic --sets raetsch_banana --selections gain --inducing 20",
    "benchmarks.papers.fitc_table1": "--synthetic --sets titanic --splits 1",
    "benchmarks.papers.fitc_targets": "--synthetic --sets uci_kin40k mnist9 --inducing 10",
    "benchmarks.papers.fitc_usps4": "--synthetic --inducing 10",
    "benchmarks.papers.fitc_xor": "--rows 40 --draws 1 --curves fitc",
    "benchmarks.papers.ivm2003_table1": "--synthetic --digits 9 --scale-active 0.01",
    "benchmarks.papers.ivm2006_pumadyn": "--synthetic --active 200 --splits 0",
    "benchmarks.papers.ivm2006_table1": "--synthetic --digits 4 --active 50",
    "benchmarks.papers.ivm2006_table2": "--synthetic --digits 9 --scale-active 0.01 --entries 8000",
    "benchmarks.papers.ivm2006_table3": "--synthetic --set usps --rows 120 --pairs 30",
    "benchmarks.papers.ivm2006_figure1": "--synthetic --strategies constant --rounds 1 --active 20",
    "benchmarks.papers.joint_targets": "--synthetic --sets usps --active 10",
    "benchmarks.papers.local_blocks": "--synthetic --sets uci_kin40k --block-rows 60 --inducing 9",
    "benchmarks.papers.local_targets": "--synthetic --sets uci_kin40k --rows 200 --inducing 9 --without",
    "benchmarks.papers.passgp_evidence": "--synthetic --p-inc 0.6 --most-active 200 --accurate --full",
    "benchmarks.papers.passgp_figure2": "--synthetic --digits 2 --active 20 --methods ivm rsvm",
    "benchmarks.papers.passgp_ijcnn": "--synthetic --active 20 --peers",
    "benchmarks.papers.passgp_initial": "--synthetic --active 20 --seeds 0 1",
    "benchmarks.papers.passgp_mnist": "--synthetic --active 30",
    "benchmarks.papers.passgp_representer": "--synthetic --digits 3 --active 60",
    "benchmarks.papers.passgp_usps": "--synthetic --rows 150 --active 30 --methods pass fpass-paper",
    "benchmarks.papers.reject_curve": "--synthetic --active 30",
    "benchmarks.papers.streaming_greedy": "--synthetic --active 40 --seeds 0 1",
    "benchmarks.papers.virtual_rows": "--synthetic --rows 150 --active 20 --methods ivm pass",
    "benchmarks.robustness.files": "--mutations 10",
    "benchmarks.defaults": "--cases plain --rows 40",
    "benchmarks.defaults.shared_sets": "--synthetic --sets ripley_synth",
    "benchmarks.defaults.unseen": "--sets chile --methods linear constant --again",
    "benchmarks.peers": "--synthetic --sets usps4 uci_kin40k --methods LightGBM SVM --rows 100",
    "benchmarks.peers.default": "--synthetic --sets uci_kin40k",
    "benchmarks.peers.reliability": "--synthetic --set usps4 --methods SVM --rows 100",
    "benchmarks.scale.cluster": "--cases workers latency --rows 2000 --features 5 --active 10 --repeats 1",
    "benchmarks.scale.headline": "--synthetic --rows 500 --active 10 --no-cap --methods streamgp nystroem",
    "benchmarks.scale.headline_flights": "--synthetic --rows 600 --splits last --methods inducing --active 9",
    "benchmarks.scale.headline_teacher": "--rows 1000 --active 20 --test-rows 500 --no-cap",
    "benchmarks.scale.ingest": "--rows 3000 --shuffle",
    "benchmarks.scale.ivm_scaling": "--rows 2000 --active 20 40 --features 5 --test-rows 500",
    "benchmarks.scale.joint_classes": "--rows 300 --classes 3 4 --active 10",
    "benchmarks.scale.laws": "--laws rows --rows 1000 2000 --at-active 20 --at-features 3",
    "benchmarks.scale.local_flights": "--synthetic --fold --rows 600 --inducing 20 --block-rows 200",
    "benchmarks.scale.local_scale": "--rows 1500 --inducing 20 --block-rows 300 --test-rows 200",
    "benchmarks.scale.pass_sweep": "--rows 40000 --features 5 --active 20 --memory-budget 32MiB",
}
NOT_RUN = {
    "benchmarks.robustness.disk": "mounts; tests/test_faults.py calls it where that is allowed",
    "benchmarks.robustness.kills": "forks; tests/test_kills.py runs it as a command",
    "benchmarks.robustness.memory": "measures processes; tests/test_memory_budget.py does so in small",
}
"""Benchmarks that no small run can stand for, and why."""
COMMANDS = {"benchmarks.limits.pass_throughput"}
"""Run as users do, processes and all; the others here, where everything is imported already."""
FIT = {
    *("rows", "features", "active", "log_loss", "calibration_error"),
    *("seconds", "peak_bytes", "fit_bytes", "within_budget"),
}
SAFETY_NET = "tests.safety_net"  # compares two trees and prints a table


def test_every_benchmark_is_run_or_excused():
    assert set(scripts()) == SMOKE.keys() | NOT_RUN.keys()
    assert not SMOKE.keys() & NOT_RUN.keys()
    assert all(about.endswith(".") and len(about) < 120 for about in scripts().values())


def test_the_readme_lists_them():
    assert listing() in (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")


def module_of(name):
    """The module that ``python -m name`` runs: a package has one for that."""
    module = importlib.import_module(name)
    return importlib.import_module(f"{name}.__main__") if hasattr(module, "__path__") else module


def documented_commands():
    """Commands of benchmarks in README files and docstrings, with their options."""
    texts = [
        path.read_text(encoding="utf-8") for path in (ROOT / "README.md", ROOT / "benchmarks" / "README.md")
    ]
    texts += [str(module_of(name).__doc__) for name in scripts()]
    found = re.findall(r"(benchmarks\.\w+\.\w+)((?: --?[\w.-]+| [\w.+-]+(?=[ `\n]))*)", "\n".join(texts))
    return {(name, options) for name, options in found if name in scripts() and " --" in options}


def test_documented_options_exist():
    commands = documented_commands()
    assert len(commands) > 20
    for name, options in commands:
        module_of(name).SCRIPT.parsed(options.split())


def in_process(name, options, capsys, monkeypatch):
    """What a script prints; what it would do in a process of its own, it does here."""
    module = module_of(name)
    monkeypatch.setattr(module, "in_own_process", lambda work, *arguments: work(*arguments), raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # tiny problems need not converge
        module.SCRIPT.main(options)
    return capsys.readouterr().out


def as_command(name, options):
    done = subprocess.run([sys.executable, "-m", name, *options], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", SMOKE)
def test_benchmark_prints_json_lines(name, capsys, monkeypatch):
    options = [*SMOKE[name].split(), "--no-save"]
    out = as_command(name, options) if name in COMMANDS else in_process(name, options, capsys, monkeypatch)
    rows = [json.loads(line) for line in out.splitlines()]
    assert rows
    assert all(row["benchmark"] == name.rpartition(".")[2] and row["commit"] for row in rows)
    fits = [row for row in rows if "fit_bytes" in row and "kernel" in row]
    assert all(row.keys() >= FIT and row.keys() & {"error_percent", "rmse"} for row in fits)
    assert all(row["ratio"] > 0 for row in rows if name in COMMANDS)


def test_tables_of_the_papers_are_made_of_the_last_records(tmp_path, monkeypatch):
    lines = [
        {"digit": 9, "active": 3900, "error_percent": 0.6, "log_loss": 0.02, "paper_error_percent": 0.74},
        {"digit": 9, "mean_active": 3900, "error_percent": 0.55, "log_likelihood": -0.016},
        {"digit": 8, "active": 3600, "error_percent": 0.4, "nlp": 0.011},
    ]
    (tmp_path / "ivm2006_table2.jsonl").write_text(
        "\n".join(json.dumps({"date": "a day", "commit": "a tree", **line}) for line in lines)
    )
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    assert tables.write_tables() == [
        *("", "`ivm2006_table2`:", ""),
        "| digit | active | error_percent | log_loss | paper_error_percent |",
        "|---|---|---|---|---|",
        "| 9 | 3900 | 0.55 | 0.016 | – |",
        "| 8 | 3600 | 0.4 | 0.011 | – |",
    ]
    told = {line.split(" | ")[0]: line for line in tables.write_commands()}
    assert told["| [IVM2006] table 2"].endswith("| 3 | a day, a tree |")
    assert told["| [IVM2006] table 3"].endswith("| 0 | not run |")


def test_runs_of_several_seeds_are_averaged_too(tmp_path, monkeypatch):
    named = {"set": "usps", "method": "ivm", "plain": False, "active": 9, "log_loss": 0.1, "date": "a day"}
    lines = [{**named, "seed": seed, "error_percent": error} for seed, error in enumerate((3.0, 9.0, 4.0))]
    lines.append(lines[1] | {"error_percent": 5.0})  # measured again
    (tmp_path / "virtual_rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    assert tables.write_tables()[-1] == "| usps | ivm | 9 | mean of 3 | 4 | 0.1 |"


def test_every_figure_that_has_records_is_drawn_and_shown():
    for name, (_, panels) in pictures.FIGURES.items():
        if any(panel.curves for panel in panels()):
            page = pictures.FOLDER / f"{name.split('_')[0].rstrip('0123456789')}.md"
            assert (pictures.FOLDER / f"{name}.svg").exists()
            assert f"]({name}.svg)" in page.read_text(encoding="utf-8"), name


def test_the_evidence_chooses_among_starts_and_units(monkeypatch):
    options = fitc_table1.SCRIPT.parsed(["--synthetic", "--starts", "2"])
    split = split_of(fitc_table1.arrays_for("synth", options))
    split = split.mapped(lambda features: features * np.array([1.0, 20.0]))
    deviations = {units: fitc_table1.in_units(split, units).X_train.std(axis=0) for units in options.units}
    assert np.allclose(deviations["own"], 1.0)
    assert 10 < np.divide(*deviations["common"][::-1]) < 40

    def fitted(split, n_active, options, **parameters):
        widths.append(float(split.X_train.std(axis=0).max()))
        return {"log_evidence": -len(widths) % 3, "seconds": 1.0, "error_percent": len(widths)}

    widths = []
    monkeypatch.setattr(fitc_table1, "fit_and_score", fitted)
    row = fitc_table1.favoured(split, 4, options)
    assert len(widths) == row["seconds"] == 4  # two units, two starts
    assert (row["error_percent"], row["units"]) == (1, "own")


def test_peers_are_scored_as_our_models_are():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((400, 2))
    y = X[:, 0] + generator.standard_normal(400) > 0
    model = StreamGPClassifier(20, random_state=0, selection="ivm").fit(X, y)
    ours = scores(model.evaluate_stream((X, y)))
    theirs = probability_scores(model.predict_proba(X), y.astype(int))
    assert theirs == {name: pytest.approx(ours[name], abs=2e-4) for name in theirs}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="there is no history to compare with")
def test_safety_net_compares_with_a_commit():
    case = "real/random/adf/off"
    command = [sys.executable, "-m", SAFETY_NET, "--baseline", "HEAD", "--only", case, "--verbose"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert f"\n{case} " in done.stdout, done.stderr
    assert "select: random > calibrate" in done.stdout
    assert "1 cases: " in done.stdout


def test_what_was_measured_holds_while_the_library_is_the_same(monkeypatch):
    record.unchanged_since.cache_clear()
    asked = []

    def run(command, **more):
        asked.append(command)
        return subprocess.CompletedProcess(command, returncode=int(command[3] != "abc1234"))

    monkeypatch.setattr(record.subprocess, "run", run)
    assert record.unchanged_since("abc1234")
    assert not record.unchanged_since("abc9999")
    assert asked[0] == ["git", "diff", "--quiet", "abc1234", "--", "streamgp"]
    assert not record.unchanged_since("abc1234+")  # the work tree had changes
    assert not record.unchanged_since("unknown")
    assert len(asked) == 2
    record.unchanged_since.cache_clear()


def test_cells_of_fewer_rows_or_made_up_data_do_not_stand_for_real_ones(monkeypatch):
    peers = importlib.import_module("benchmarks.peers.__main__")
    monkeypatch.setattr(peers, "unchanged_since", lambda commit: commit == "same")
    cell = {"set": "usps", "method": "LightGBM", "seed": 0}
    row = {**cell, "log_loss": 0.1, "error_percent": 1.0, "commit": "other"}
    assert peers._is_there([row], cell)
    for limit in ({"limited_rows": 100}, {"synthetic": True}):
        assert not peers._is_there([row | limit], cell)
        assert not peers._is_there([row], cell | limit)
        assert peers._is_there([row | limit], cell | limit)
        found = summary([row, row | limit | {"log_loss": 9.0}])
        assert found["usps", "LightGBM"]["log_loss"] == 0.1
    ours = cell | {"method": "streamgp"}
    assert not peers._is_there([row | ours], ours)
    assert peers._is_there([row | ours | {"commit": "same"}], ours)
    assert record.limits(SimpleNamespace(rows=None, synthetic=False)) == {}
    assert record.limits(SimpleNamespace(rows=9), usual_rows=9) == {}
    assert record.limits(SimpleNamespace(rows=9, synthetic=True)) == {"synthetic": True, "limited_rows": 9}


def quits(how):
    """What a cell may do instead of giving a row."""
    if how == "raises":
        raise ValueError("singular\nindeed")
    if how == "dies":
        os._exit(3)
    if how == "sleeps":
        time.sleep(600)
    return {"log_loss": 0.5}


@pytest.mark.parametrize(
    ("how", "seconds", "row"),
    [
        ("works", 300, {"log_loss": 0.5}),
        ("raises", 300, {"absent": "ValueError: singular"}),
        ("dies", 300, {"absent": "its process died (3)"}),
        ("sleeps", 0.01, {"absent": "not done in 0 s"}),
    ],
)
def test_a_cell_that_fails_says_why(how, seconds, row):
    assert row_or_reason(seconds, quits, how) == row


def test_what_failed_is_not_tried_again_unless_it_was_not_installed():
    peers = importlib.import_module("benchmarks.peers.__main__")
    cell = {"set": "usps", "method": "SVGP", "seed": 0}
    row = {**cell, "commit": "other"}
    assert peers._is_there([row | {"absent": "not done in 3600 s"}], cell)
    assert not peers._is_there([row | {"absent": "gpytorch is not installed"}], cell)


def test_sets_that_rules_were_chosen_on_are_marked():
    row = {"seed": 0, "method": "LightGBM", "error_percent": 1.0, "log_loss": 0.1, "cpu_seconds": 1.0}
    row |= {"rows": 10, "rows_used": 10, "commit": "abc", "fit_bytes": 2_000_000}
    cells = [row | {"set": "usps", "method": method} for method in ("LightGBM", "SVM")]
    assert "| usps ‡ |" in peers_table(cells)
    assert "| usps ‡ | SVM | 1 | 1.00 % | 0.1000 | – | – | 1 | – | 2 |" in full_table(cells)
    others = row | {"line_log_loss": 0.2, "chosen": "linear model", "half": "reported on"}
    for name, half in (("raetsch_titanic", "chosen on"), ("raetsch_heart", "reported on")):
        assert f"| {name} | {half} |" in sets_table([others | {"case": name}])


def test_real_targets_are_compared_as_normals():
    row = {"set": "ames", "seed": 0, "rows": 9, "rmse": 0.5, "cpu_seconds": 1.0, "commit": "abc"}
    ours = row | {"method": "streamgp", "log_loss": 0.1, "log_loss_as_normal": 0.4}
    told = unseen_table([ours, row | {"method": "LightGBM", "log_loss": 0.3}], ["streamgp", "LightGBM"])
    assert "| 0.400 (0.100), 0.500, 1 s | **0.300**, 0.500, 1 s |" in told


def test_the_axis_of_seconds_holds_all_points():
    assert _decades([0.0, 3.0, 2500.0]) == pytest.approx((0.1, 10_000.0))
    assert _decades([20.0, 30.0]) == pytest.approx((10.0, 100.0))


def test_every_set_of_the_comparison_has_a_named_recipe():
    assert set(RECIPES) == set(SETS)
