"""The tables and the picture of the comparison, made of recorded cells: README's, and benchmarks/README's.

CPU seconds are what cells have in common that were measured beside other work or on another number of
cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.defaults.chosen import CHOSEN_ON
from benchmarks.defaults.tables import write as write_marked
from benchmarks.harness import Row
from benchmarks.peers.data import SETS
from benchmarks.peers.methods import METHODS
from benchmarks.record import is_whole

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "peers.svg"
BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"
CAPTION = "Error or RMSE, log loss of the test rows, CPU seconds to fit with tuning; best log loss bold."
DRAWN = "† learned from 300,000 rows."
CHOSEN = "‡ a rule of the default was chosen on this set."
PICTURE_LINE = "![Log loss of the test rows against CPU seconds to fit](docs/peers.svg)"
COLOURS = ("#d1495b", "#f0892b", "#2b8cbe", "#6baed6", "#41a05a", "#8c6bb1", "#b59a00", "#7a7a7a")
MARKS = "o*ssD^vP"
INK = "#808080"
"""Grey that can be read on white and on black."""


def write(cells: Sequence[Row]) -> None:
    """Put the tables between their marks in both READMEs, and the picture into docs/."""
    text = README.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    rows = table(cells)
    caption = f"{CAPTION} {_draws(summary(cells))}" + (f"\n{DRAWN}" if "†" in rows else "")
    caption += f"\n{CHOSEN}" if "‡" in rows else ""
    between = "\n\n".join([caption, rows, PICTURE_LINE])
    README.write_text(f"{head}{BEGIN}\n{between}\n{END}{tail}", encoding="utf-8")
    write_marked("peers", full_table(cells))
    draw(cells, PICTURE)


def summary(cells: Sequence[Row]) -> dict[tuple[str, str], Row]:
    """For each set and method, the means over seeds of the last cell of each seed."""
    whole = [row for row in cells if "log_loss" in row and is_whole(row)]
    last = {(row["set"], row["method"], row["seed"]): row for row in whole}
    found: dict[tuple[str, str], Row] = {}
    for name, method in dict.fromkeys((key[0], key[1]) for key in last):
        rows = [row for key, row in last.items() if key[:2] == (name, method)]
        columns = [key for key, value in rows[0].items() if isinstance(value, float | int)]
        means = {key: float(np.mean([row[key] for row in rows if key in row])) for key in columns}
        found[name, method] = {**means, "seeds": len(rows)}
    return found


def _draws(found: dict[tuple[str, str], Row]) -> str:
    counts = sorted(int(row["seeds"]) for row in found.values()) or [0]
    if counts[-1] == 1:
        return "One seed."
    return (
        f"Means of {counts[0]} to {counts[-1]} seeds."
        if counts[0] < counts[-1]
        else f"Means of {counts[0]} seeds."
    )


def compared(found: dict[tuple[str, str], Row]) -> list[str]:
    """The sets on which there are rivals to compare with."""
    return [name for name in SETS if sum(key[0] == name for key in found) > 1]


def table(cells: Sequence[Row]) -> str:
    """A row for each set, a column for each method: error or RMSE, log loss (the best bold), CPU seconds."""
    found = summary(cells)
    methods = [method for method in METHODS if any(key[1] == method for key in found)]
    lines = ["| | " + " | ".join(methods) + " |", "|---" * (len(methods) + 1) + "|"]
    for name in compared(found):
        here = {method: found[name, method] for method in methods if (name, method) in found}
        best = min(row["log_loss"] for row in here.values())
        told = (_told(here.get(method), best) for method in methods)
        mark = " ‡" if name in CHOSEN_ON else ""
        lines.append(f"| {name.removeprefix('uci_')}{mark} | " + " | ".join(told) + " |")
    return "\n".join(lines)


FULL = {
    "seeds": "{:.0f}",
    "error_percent": "{:.2f} %",
    "rmse": "{:.4f}",
    "log_loss": "{:.4f}",
    "calibration_error": "{:.4f}",
    "auc": "{:.4f}",
    "cpu_seconds": "{:.0f}",
    "seconds": "{:.0f}",
    "fit_mb": "{:.0f}",
}
"""Columns of the full table, and how each is written; error and RMSE share one."""


def full_table(cells: Sequence[Row]) -> str:
    """A row for each set and method that was measured, with all that was measured."""
    names = ["set", "method", "seeds", "error or RMSE", "log loss", "calibration", "AUC", "CPU s", "s", "MB"]
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    found = summary(cells)
    for name, method in [(name, method) for name in SETS for method in METHODS if (name, method) in found]:
        row = found[name, method]
        row["fit_mb"] = row["fit_bytes"] / 1e6
        absent = "error_percent" if "rmse" in row else "rmse"
        told = [form.format(row[key]) if key in row else "–" for key, form in FULL.items() if key != absent]
        mark = " ‡" if name in CHOSEN_ON else ""
        lines.append(f"| {name.removeprefix('uci_')}{mark} | {method} | " + " | ".join(told) + " |")
    return "\n".join(lines)


def _told(row: Row | None, best: float) -> str:
    if row is None:
        return "–"
    error = f"{row['error_percent']:.2f} %" if "error_percent" in row else f"{row['rmse']:.3f}"
    loss = f"{row['log_loss']:.3f}"
    loss = f"**{loss}**" if row["log_loss"] == best else loss
    drawn = "†" if row["rows_used"] < row["rows"] else ""
    return f"{error}, {loss}, {row['cpu_seconds']:.0f} s{drawn}"


def draw(cells: Sequence[Row], path: Path) -> None:
    """Log loss against CPU seconds, a panel for each set, a point for each method."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = summary(cells)
    sets = compared(found)
    wide = min(3, len(sets))
    tall = -(-len(sets) // wide)
    figure, axes = pyplot.subplots(tall, wide, figsize=(3.2 * wide, 2.5 * tall + 0.7), squeeze=False)
    for panel, name in zip(axes.flat, sets, strict=False):
        _panel(panel, name, found)
    for panel in axes.flat[len(sets) :]:
        panel.set_visible(False)
    handles = [
        pyplot.Line2D([], [], color=COLOURS[place], marker=MARKS[place], linestyle="", label=method)
        for place, method in enumerate(METHODS)
        if any(key[1] == method for key in found)
    ]
    figure.legend(handles=handles, loc="lower center", ncols=4, frameon=False, fontsize=8, labelcolor=INK)
    figure.supxlabel("CPU seconds to fit, tuning included", color=INK, fontsize=9, y=0.09)
    figure.supylabel("log loss of the test rows", color=INK, fontsize=9)
    figure.tight_layout(rect=(0.02, 0.09, 1, 1))
    with matplotlib.rc_context({"svg.hashsalt": "streamgp"}):  # the same cells give the same file
        figure.savefig(path, transparent=True, metadata={"Date": None})
    pyplot.close(figure)


def _decades(seconds: Sequence[float]) -> tuple[float, float]:
    """Powers of ten around all seconds, the same for every panel: no point lies outside."""
    positive = np.log10(np.maximum(seconds, 0.1))
    return 10.0 ** np.floor(positive.min()), 10.0 ** np.ceil(positive.max())


def _panel(panel: Any, name: str, found: dict[tuple[str, str], Row]) -> None:
    for place, method in enumerate(METHODS):
        if (name, method) in found:
            row = found[name, method]
            panel.plot(
                *(row["cpu_seconds"], row["log_loss"]), MARKS[place], color=COLOURS[place], markersize=7
            )
    panel.set_xscale("log")
    panel.set_xlim(*_decades([row["cpu_seconds"] for row in found.values()]))
    panel.margins(y=0.15)
    if panel.get_ylim()[0] < 0 < panel.get_ylim()[1]:
        panel.axhline(
            0.0, color=INK, linewidth=0.8, linestyle="--"
        )  # densities may exceed one: below is better
    panel.set_title(name.removeprefix("uci_"), color=INK, fontsize=10)
    panel.tick_params(colors=INK, which="both", labelsize=7)
    panel.grid(color=INK, alpha=0.25, linewidth=0.5)
    panel.patch.set_alpha(0)
    for spine in panel.spines.values():
        spine.set_color(INK)
