"""The table of sets that no rule was made for, in benchmarks/README.md, made of recorded cells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.defaults.unseen_sets import SETS
from benchmarks.harness import Row

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- unseen: begin -->", "<!-- unseen: end -->"


def write(cells: Sequence[Row], methods: Sequence[str]) -> None:
    """Put the table between its marks."""
    head, rest = README.read_text(encoding="utf-8").split(BEGIN)
    README.write_text(f"{head}{BEGIN}\n{table(cells, methods)}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def table(cells: Sequence[Row], methods: Sequence[str]) -> str:
    """A row for each set: log loss and error (percent, or RMSE) of each method, means over seeds."""
    last = {(row["set"], row["method"], row["seed"]): row for row in cells if "log_loss" in row}
    lines = ["| set | half | rows | " + " | ".join(methods) + " |", "|---" * (len(methods) + 3) + "|"]
    for name, source in SETS.items():
        here = {method: [row for key, row in last.items() if key[:2] == (name, method)] for method in methods}
        if not any(here.values()):
            continue
        losses = {method: _mean(found, "log_loss") for method, found in here.items() if found}
        best, size = min(losses.values()), max(row["rows"] for found in here.values() for row in found)
        told = (_told(here[method], losses.get(method), best) for method in methods)
        lines.append(f"| {name} | {source.half} | {size} | " + " | ".join(told) + " |")
    return "\n".join(lines)


def _mean(found: Sequence[Row], column: str) -> float:
    return float(np.mean([row[column] for row in found]))


def _told(found: Sequence[Row], loss: float | None, best: float) -> str:
    if loss is None:
        return "–"
    percent = "error_percent" in found[0]
    error = f"{_mean(found, 'error_percent'):.1f} %" if percent else f"{_mean(found, 'rmse'):.3f}"
    shown = f"**{loss:.3f}**" if loss == best else f"{loss:.3f}"
    return f"{shown}, {error}, {_mean(found, 'seconds'):.0f} s"
