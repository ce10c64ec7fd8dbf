"""Reliability of probabilities: how often the predicted class is right, against how sure a method is of it.

    python -m benchmarks.peers.reliability --set ijcnn1
    python -m benchmarks.peers.reliability --write

A method that says 0.8 should be right in 80 of 100 such rows. The same rows and tuning as in
``benchmarks.peers``, a process for each method; ``--write`` only draws ``docs/reliability.svg`` from the last
record of each method.
"""

from __future__ import annotations

import importlib.util
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.datasets import Array
from benchmarks.harness import DATA, Options, Row, Rows, Script, defaults, in_own_process, option, warm_up
from benchmarks.peers.data import SETS, task_of
from benchmarks.peers.methods import METHODS, Request
from benchmarks.peers.scoring import scored
from benchmarks.peers.table import COLOURS, INK, MARKS, ROOT
from benchmarks.record import RESULTS

PICTURE = ROOT / "docs" / "reliability.svg"
SHOWN = ("streamgp", "Nystroem 500", "LightGBM")
BINS = 10
FEWEST_ROWS = 30
"""Bins of fewer rows are not drawn: their share is chance."""


def rows(options: Options) -> Rows:
    """One row for each method that is installed."""
    if options.write:
        draw(PICTURE)
        return
    for method in options.methods:
        if importlib.util.find_spec(METHODS[method].module) is not None:
            yield {"set": options.set, "method": method, **in_own_process(reliability, method, options)}


def reliability(method: str, options: Options) -> Row:
    """Fit one method and count its test rows by confidence."""
    task = task_of(options.set, options)
    warm_up()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rivals' optimisers need not converge
        predict = METHODS[method].fit(Request(options.set, task, options.seed, options.memory_budget, 120.0))
        found = predict(task.split.X_test)
    assert not isinstance(found, tuple), "real targets have no confidence"
    return {
        "rows": len(task.split.y_train),
        **scored(found, task.split.y_test),
        "reliability": by_confidence(np.asarray(found), task.split.y_test),
    }


def by_confidence(probabilities: Array, targets: Array) -> list[list[float]]:
    """For each bin of confidence from 1/classes to 1: mean confidence, share of right rows, rows."""
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == targets
    lowest = 1.0 / probabilities.shape[1]
    bins = np.clip(((confidence - lowest) / (1 - lowest) * BINS).astype(int), 0, BINS - 1)
    return [
        [round(float(confidence[here].mean()), 5), round(float(right[here].mean()), 5), int(here.sum())]
        for here in (bins == number for number in range(BINS))
        if here.any()
    ]


def draw(path: Path) -> None:
    """The last record of each method as one curve."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    lines = (RESULTS / "reliability.jsonl").read_text().splitlines()
    last = {row["method"]: row for row in map(json.loads, lines)}
    figure, panel = pyplot.subplots(figsize=(4.4, 3.6))
    panel.plot([0.5, 1], [0.5, 1], color=INK, linewidth=0.8, linestyle=":")
    for place, method in enumerate(METHODS):
        if method in last:
            _curve(panel, last[method], COLOURS[place], MARKS[place])
    panel.set_xlabel("confidence in the predicted class", color=INK, fontsize=9)
    panel.set_ylabel("share of rows where it is right", color=INK, fontsize=9)
    panel.tick_params(colors=INK, labelsize=8)
    panel.legend(frameon=False, fontsize=8, labelcolor=INK)
    panel.patch.set_alpha(0)
    for spine in panel.spines.values():
        spine.set_color(INK)
    figure.tight_layout()
    with matplotlib.rc_context({"svg.hashsalt": "streamgp"}):  # the same records give the same file
        figure.savefig(path, transparent=True, metadata={"Date": None})
    pyplot.close(figure)


def _curve(panel: Any, row: Row, colour: str, mark: str) -> None:
    points = np.array([point for point in row["reliability"] if point[2] >= FEWEST_ROWS])
    label = f"{row['method']}: {row['error_percent']:.1f} %, {row['log_loss']:.3f} nats"
    panel.plot(points[:, 0], points[:, 1], color=colour, marker=mark, markersize=5, linewidth=1, label=label)


OPTIONS = (
    *DATA,
    option("--set", "ijcnn1", choices=list(SETS)),
    option("--methods", list(SHOWN), choices=list(METHODS)),
    option("--write", False, "only draw docs/reliability.svg from recorded rows"),
    *defaults(seed=0, memory_budget="1GiB"),
)
SCRIPT = Script("reliability", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
