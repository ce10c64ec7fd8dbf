"""Peers side by side: the same rows, the same split, a process for each cell, tuning included in the seconds.

    python -m benchmarks.peers --sets usps ijcnn1 --seeds 0
    python -m benchmarks.peers --write

Cells are recorded one by one in ``results/peers.jsonl``; what is there already (ours: with the library as it
is now) is not measured again, unless ``--again`` says so. Cells of ``--rows`` or ``--synthetic`` stand for
themselves only, and are in no table. What fails, or takes more than ``--most-seconds``, is recorded as
absent, with the reason. ``--write`` only makes the README's table and picture of the others.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from benchmarks.harness import (
    DATA,
    Options,
    Row,
    Rows,
    Script,
    defaults,
    in_own_process,
    option,
    row_or_reason,
)
from benchmarks.peers.cells import cell
from benchmarks.peers.data import SETS, task_of
from benchmarks.peers.methods import METHODS
from benchmarks.peers.table import write
from benchmarks.record import LIMITS, limits, recorded, unchanged_since

TIMES_OURS = 4.0
"""A rival that could go on for ever may take so many times the seconds of our default."""
NOT_INSTALLED = "is not installed"
WITHOUT_OURS = 120.0
"""Its seconds where ours are not recorded yet."""


def rows(options: Options) -> Rows:
    """The cells that are asked for and not there yet."""
    if options.write:
        write(recorded("peers"))
        return
    for name in options.sets:
        for seed in options.seeds:
            for method in options.methods:
                wanted = {"set": name, "method": method, "seed": seed, **limits(options)}
                if options.again or not _is_there(recorded("peers"), wanted):
                    yield {**wanted, **_measured(name, method, seed, options)}


def _measured(name: str, method: str, seed: int, options: Options) -> Row:
    way, task = METHODS[method], task_of(name, options)
    n_rows, n_features = task.split.X_train.shape
    if importlib.util.find_spec(way.module) is None:
        return {"absent": f"{way.module} {NOT_INSTALLED}"}
    if n_rows > way.most_rows or n_rows * n_features > way.most_cells:
        return {"absent": "too many rows"}
    if options.synthetic:
        return in_own_process(cell, name, method, seed, options, 1.0)
    wanted = {"set": name, "method": "streamgp", "seed": seed, **limits(options)}
    ours = [row for row in recorded("peers") if _is(row, wanted) and "seconds" in row]
    seconds = TIMES_OURS * ours[-1]["seconds"] if ours else WITHOUT_OURS
    return row_or_reason(options.most_seconds, cell, name, method, seed, options, seconds)


def _is(row: Row, wanted: Row) -> bool:
    """Whether a row is of this cell: the same set, method and seed, of as many rows."""
    return all(row.get(key) == wanted.get(key) for key in ("set", "method", "seed", *LIMITS))


def _is_there(cells: Sequence[Row], wanted: Row) -> bool:
    """Whether a cell is recorded, or why it failed; ours only where the library has not changed since."""
    mine = METHODS[wanted["method"]].module == "streamgp" and wanted["method"].startswith("streamgp")
    found = (row for row in cells if _is(row, wanted) and not str(row.get("absent")).endswith(NOT_INSTALLED))
    return any(not mine or unchanged_since(row["commit"]) for row in found)


OPTIONS = (
    *DATA,
    option("--sets", list(SETS), choices=list(SETS)),
    option("--methods", list(METHODS), choices=list(METHODS)),
    option("--most-seconds", 3600.0, "that a cell may take, predictions among them; then it is absent"),
    option("--again", False, "measure cells that are recorded already"),
    option("--write", False, "only write the README's table and picture from recorded cells"),
    *defaults(seeds=[0], memory_budget="1GiB"),
)
SCRIPT = Script("peers", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
