"""One sweep of predictive selection over a store, against one pass of marginals plus its EP runs.

    python -m benchmarks.scale.pass_sweep --rows 1000000 --features 20 --active 500

A synthetic store on disk; hyperparameters stay as they are. The sweep's own time is what its blocks took,
reading and scoring included; blocks of the sample in memory, which come first, are told apart. ``ratio`` is
the time of the sweep over that of one pass of marginals with the final model plus that of exchanges and EP.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.papers.binary import show, warm_up
from benchmarks.record import add_save_option, record
from streamgp import StreamGPClassifier
from streamgp.budget import parse_size
from streamgp.data import open_rows, synthetic
from streamgp.kernels import RBF
from streamgp.passes import PassSettings, Reading, run_pass
from streamgp.passes.marginals import TotalMarginals
from streamgp.passes.run import available_threads
from streamgp.selection import FPASS, PASS
from streamgp.training.plan import Demand, make_plan

COLUMNS = (
    "selection",
    "rows",
    "active",
    "sweep_seconds",
    "read_seconds",
    "pass_seconds",
    "ratio",
    "error_percent",
)


def pass_seconds(model: StreamGPClassifier, path: Path, budget: str) -> float:
    """Time of one pass of marginals with the model, the best of two."""
    snapshot = model.model_.snapshot
    rows = open_rows(path)
    n_active = len(snapshot.active_inputs)
    plan = make_plan(Demand(rows, snapshot.kernel, n_active, 1, 8), parse_size(budget), available_threads())
    reading = Reading(model.model_.standardizer, model.model_.targets, snapshot.dtype)
    settings = PassSettings(plan.rows_per_block, plan.tasks_at(snapshot.dtype.itemsize))
    seconds = []
    for _ in range(2):
        begun = time.perf_counter()
        run_pass(rows.cut(plan.span_rows), TotalMarginals(), settings, reading=reading, snapshot=snapshot)
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--active", type=int, default=500)
    parser.add_argument("--memory-budget", default="256MiB")
    add_save_option(parser)
    options = parser.parse_args()
    warm_up()
    table = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.zarr"
        synthetic.write_store(path, options.rows, n_features=options.features)
        for name, selection in (
            ("fpass", FPASS(n_pass=1)),
            ("pass", PASS(n_pass=1, n_init=options.active // 2)),
        ):
            model = StreamGPClassifier(
                options.active,
                selection=selection,
                kernel=RBF(30.0, float(np.sqrt(options.features))),
                learn_hyperparameters=False,
                memory_budget=options.memory_budget,
                random_state=0,
            ).fit_stream(path)
            blocks = [entry for entry in model.history_ if entry["stage"] == "select: exchange"]
            streamed = [entry for entry in blocks if entry["from_disk"]]
            sweep, read = (sum(entry[key] for entry in streamed) for key in ("seconds", "read_seconds"))
            one_pass = pass_seconds(model, path, options.memory_budget)
            row = {
                "selection": name,
                "rows": options.rows,
                "features": options.features,
                "active": len(model.active_rows_),
                "blocks": len(streamed),
                "sweep_seconds": round(sweep, 2),
                "read_seconds": round(read, 2),
                "pass_seconds": round(one_pass, 2),
                "ratio": round(sweep / (one_pass + sweep - read), 3),
                "sample_seconds": round(sum(entry["seconds"] for entry in blocks) - sweep, 2),
                "error_percent": round(100 * model.evaluate_stream(path).error, 3),
            }
            record("pass_sweep", [row], save=not options.no_save)
            table.append(row)
    show("One sweep against one pass of marginals plus the EP runs", COLUMNS, table)


if __name__ == "__main__":
    main()
