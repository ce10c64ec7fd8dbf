"""Tables of benchmarks/README.md about the default, made of recorded rows: written by ``--write``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.defaults.chosen import CHOSEN_ON
from benchmarks.defaults.unseen_sets import SETS
from benchmarks.harness import Row
from benchmarks.record import is_whole

README = Path(__file__).parents[1] / "README.md"
OBVIOUS = ("constant", "line", "exact")
REST = ("CPU s", "chosen", "commit")


def write(name: str, text: str, path: Path = README) -> None:
    """Put a table between its marks."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    head, rest = path.read_text(encoding="utf-8").split(begin)
    path.write_text(f"{head}{begin}\n{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")


def unseen_table(cells: Sequence[Row], methods: Sequence[str]) -> str:
    """A row for each set: log loss, error (percent, or RMSE) and CPU seconds by method, means over seeds.

    Real targets: every method is compared as a normal, what our own density has follows in brackets.
    """
    whole = [row for row in cells if "log_loss" in row and is_whole(row)]
    last = {(row["set"], row["method"], row["seed"]): row for row in whole}
    lines = _head(["set", "half", "rows", *methods])
    for name, source in SETS.items():
        here = {method: [row for key, row in last.items() if key[:2] == (name, method)] for method in methods}
        if not any(here.values()):
            continue
        losses = {method: _mean(found, _loss_of(found)) for method, found in here.items() if found}
        best, size = min(losses.values()), max(row["rows"] for found in here.values() for row in found)
        told = (_told(here[method], losses.get(method), best) for method in methods)
        lines.append(_line([name, source.half, size, *told]))
    return "\n".join(lines)


def generated_table(rows: Sequence[Row]) -> str:
    """A row for each case and size: the best possible beside ours and the obvious, means over seeds."""
    lines = _head(["case", "rows", "seeds", "best error", "ours", "best log loss", "ours", *OBVIOUS, *REST])
    for (case, size), found in _by([row for row in rows if "best_error" in row], "case", "rows"):
        scale, unit = (1, "") if "rmse" in found[0] else (100, " %")
        error = scale * _mean(found, "best_error")
        errors = [f"{error:.3g}{unit}", f"{_mean(found, _error_of(found[0])):.3g}{unit}"]
        losses = [_shown(found, f"{name}log_loss") for name in ("best_", "", *(f"{one}_" for one in OBVIOUS))]
        lines.append(_line([case, size, len(found), *errors, *losses, *_rest(found)]))
    return "\n".join(lines)


def sets_table(rows: Sequence[Row]) -> str:
    """A row for each shared set: those that rules were chosen on first, then the others; means over seeds."""
    lines = _head(["set", "half", "seeds", "error or RMSE", "log loss", *OBVIOUS, *REST])
    halves = [
        # A set that a rule was chosen on since it was measured is one of those.
        {**row, "half": "chosen on"} if row["case"] in CHOSEN_ON else row
        for row in rows
        if "half" in row and is_whole(row)
    ]
    for (half, name), found in sorted(_by(halves, "half", "case"), key=lambda one: one[0][0]):
        unit = "" if "rmse" in found[0] else " %"
        losses = [_shown(found, f"{one}log_loss") for one in ("", *(f"{one}_" for one in OBVIOUS))]
        error = f"{_mean(found, _error_of(found[0])):.3g}{unit}"
        lines.append(_line([name, half, len(found), error, *losses, *_rest(found)]))
    return "\n".join(lines)


def _by(rows: Sequence[Row], *columns: str) -> list[tuple[tuple[str, ...], list[Row]]]:
    """The last row of each seed, by the values of some columns."""
    last = {(tuple(row[name] for name in columns), row["seed"]): row for row in rows}
    groups: dict[tuple[str, ...], list[Row]] = {}
    for (group, _), row in last.items():
        groups.setdefault(group, []).append(row)
    return list(groups.items())


def _rest(found: Sequence[Row]) -> list[str]:
    chosen, commits = (", ".join(sorted({str(row[key]) for row in found})) for key in ("chosen", "commit"))
    return [f"{_mean(found, 'cpu_seconds'):.0f}", chosen, commits]


def _error_of(row: Row) -> str:
    return "rmse" if "rmse" in row else "error_percent"


def _shown(found: Sequence[Row], column: str) -> str:
    values = [row[column] for row in found if row.get(column) is not None]
    return f"{np.mean(values):.4f}" if values else "–"


def _head(columns: Sequence[str]) -> list[str]:
    return [_line(columns), "|---" * len(columns) + "|"]


def _line(cells: Sequence[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _mean(found: Sequence[Row], column: str) -> float:
    return float(np.mean([row[column] for row in found]))


def _loss_of(found: Sequence[Row]) -> str:
    """What all methods have: the log loss of a normal, where it is not the only one."""
    return "log_loss_as_normal" if all("log_loss_as_normal" in row for row in found) else "log_loss"


def _told(found: Sequence[Row], loss: float | None, best: float) -> str:
    if loss is None:
        return "–"
    percent = "error_percent" in found[0]
    error = f"{_mean(found, 'error_percent'):.1f} %" if percent else f"{_mean(found, 'rmse'):.3f}"
    shown = f"**{loss:.3f}**" if loss == best else f"{loss:.3f}"
    own = f" ({_mean(found, 'log_loss'):.3f})" if _loss_of(found) != "log_loss" else ""
    return f"{shown}{own}, {error}, {_mean(found, 'cpu_seconds'):.0f} s"
