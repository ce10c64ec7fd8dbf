from __future__ import annotations

import numpy as np

import streamgp
from streamgp.passes.progress import Progress
from streamgp.training.history import by_stage, held_out_log_density, log_evidence, n_active


def test_a_fit_has_one_bar_and_bars_of_passes_inside(generator, capsys):
    X = generator.standard_normal((3000, 2))
    y = np.where(X[:, 0] + X[:, 1] ** 2 > 1, 1, 0)
    progress = Progress(show=True)
    fixed = {"selection": "ivm", "learn_hyperparameters": False, "random_state": 0}
    model = streamgp.StreamGPClassifier(40, progress=progress, memory_budget="24MiB", **fixed).fit(X, y)
    shown = capsys.readouterr().err
    assert "select: ivm:" in shown
    assert "40 active rows" in shown
    assert "row/s" in shown
    assert "fit: 100%" in shown
    assert progress.rows_read == model.about_["rows_read"] >= 6000  # the summary and the sample
    assert 0 < progress.pass_seconds < model.about_["seconds"]
    assert sum(entry["rows_read"] for entry in model.history_) <= progress.rows_read


def test_nothing_is_shown_where_there_is_no_terminal(generator, capsys):
    X = generator.standard_normal((100, 2))
    streamgp.StreamGPClassifier(20, selection="ivm", learn_hyperparameters=False).fit(X, X[:, 0] > 0)
    assert capsys.readouterr().err == ""


def test_steps_of_a_stage_are_told_together():
    history = [
        {"stage": "learn", "seconds": 1.0, "log_evidence": [-3.0, -4.0], "peak_memory": 10},
        {"stage": "learn", "seconds": 2.0, "log_density": -0.5, "rows_read": 7, "peak_memory": 20},
        {"stage": "select", "seconds": 4.0, "n_active": [3, 5], "validation": [{"log_density": -0.25}]},
    ]
    learn, select = by_stage(history)
    assert (learn["steps"], learn["seconds"], learn["rows_read"]) == (2, 3.0, 7)
    assert (learn["log_density"], learn["peak_memory_bytes"]) == (-0.5, 20)
    assert (select["n_active"], select["log_density"]) == (5, -0.25)
    assert log_evidence(history[0]) == -7.0
    assert held_out_log_density(history[0]) is None
    assert n_active(history[0]) is None
