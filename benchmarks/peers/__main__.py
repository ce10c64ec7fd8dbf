"""Peers side by side: the same rows, the same split, a process for each cell, tuning included in the seconds.

    python -m benchmarks.peers --sets usps ijcnn1 --seeds 0
    python -m benchmarks.peers --write

Cells are recorded one by one in ``results/peers.jsonl``; what is there already (ours: of this commit) is not
measured again, unless ``--again`` says so. ``--write`` only makes the README's table and picture of them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence

from benchmarks.harness import DATA, Options, Row, Rows, Script, defaults, in_own_process, option
from benchmarks.peers.cells import cell
from benchmarks.peers.data import SETS, task_of
from benchmarks.peers.methods import METHODS
from benchmarks.peers.table import write
from benchmarks.record import metadata, recorded

TIMES_OURS = 4.0
"""A rival that could go on for ever may take so many times the seconds of our default."""
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
                if options.again or not _is_there(recorded("peers"), name, method, seed):
                    yield {
                        "set": name,
                        "method": method,
                        "seed": seed,
                        **_measured(name, method, seed, options),
                    }


def _measured(name: str, method: str, seed: int, options: Options) -> Row:
    way, task = METHODS[method], task_of(name, options)
    n_rows, n_features = task.split.X_train.shape
    if importlib.util.find_spec(way.module) is None:
        return {"absent": f"{way.module} is not installed"}
    if n_rows > way.most_rows or n_rows * n_features > way.most_cells:
        return {"absent": "too many rows"}
    if options.synthetic:
        return in_own_process(cell, name, method, seed, options, 1.0)
    ours = [row for row in recorded("peers") if _is(row, name, "streamgp", seed) and "seconds" in row]
    seconds = TIMES_OURS * ours[-1]["seconds"] if ours else WITHOUT_OURS
    return in_own_process(cell, name, method, seed, options, seconds)


def _is(row: Row, name: str, method: str, seed: int) -> bool:
    return (row["set"], row["method"], row["seed"]) == (name, method, seed)


def _is_there(cells: Sequence[Row], name: str, method: str, seed: int) -> bool:
    """Whether a cell is recorded; one of ours only where it is of this commit."""
    mine = METHODS[method].module == "streamgp" and method.startswith("streamgp")
    found: Iterator[Row] = (row for row in cells if _is(row, name, method, seed) and "absent" not in row)
    return any(not mine or row["commit"] == metadata()["commit"] for row in found)


OPTIONS = (
    *DATA,
    option("--sets", list(SETS), choices=list(SETS)),
    option("--methods", list(METHODS), choices=list(METHODS)),
    option("--again", False, "measure cells that are recorded already"),
    option("--write", False, "only write the README's table and picture from recorded cells"),
    *defaults(seeds=[0], memory_budget="1GiB"),
)
SCRIPT = Script("peers", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
