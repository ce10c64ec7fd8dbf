"""A teacher of known Bayes error by hundreds of millions of rows: error, time and memory in a fixed budget.

    python -m benchmarks.scale.headline_teacher --rows 1000000
    python -m benchmarks.scale.headline_teacher --rows 100000000 --folder scratch

Stores of ``benchmarks.scale.make_teacher``, two classes, float32 (10^8 rows of 10 features are 4 GB). Each
fit is in a process of its own that may allocate ``--memory-budget`` and an eighth of it, and no more.
``local`` needs disk for a second copy of the rows and the rows beside each block; ``above_bayes`` is
in points.
"""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import (
    Options,
    Row,
    Rows,
    Script,
    defaults,
    in_own_process,
    option,
    peak_bytes,
    restart_peak,
    scores,
    warm_up,
)
from benchmarks.scale.headline import bytes_read, cap_memory
from benchmarks.scale.make_teacher import Teacher, write_teacher
from streamgp import StreamGPClassifier
from streamgp.budget import parse_size

TEST_START = 10**9
"""Number of the first test row: no store is so large."""
METHODS: dict[str, dict[str, Any]] = {
    "inducing": {"selection": "kmeans", "inference": "fitc", "multiclass": "joint"},
    "local": {"inference": "local", "n_active": 300},
}


def fit_row(method: str, folder: Path, options: Options) -> Row:
    """In a process of its own: one fit under its cap, and its scores on new rows."""
    warm_up()
    budget = parse_size(options.memory_budget)
    how = {"n_active": options.active, **METHODS[method]}
    if method == "local":
        how["scratch"] = folder
    model = StreamGPClassifier(memory_budget=budget, random_state=0, progress=False, **how)
    if not options.no_cap:
        cap_memory(budget + budget // 8)
    before, read, begun = restart_peak(), bytes_read(), time.perf_counter()
    model.fit_stream(folder / "train.zarr")
    seconds = time.perf_counter() - begun
    return {
        **scores(model.evaluate_stream(folder / "test.zarr")),
        "seconds": round(seconds, 1),
        "fit_mb": round((peak_bytes() - before) / 1e6),
        "rows_read": model.about_["rows_read"],
        "bytes_read": bytes_read() - read,
        "stages": {entry["stage"]: round(entry["seconds"], 1) for entry in model.history_},
        "kernel": repr(model.kernel_),
    }


def rows(options: Options) -> Rows:
    teacher = Teacher(features=options.features, noise=options.noise)
    with tempfile.TemporaryDirectory(prefix="streamgp-bench-", dir=options.folder) as name:
        folder = Path(name)
        bayes = write_teacher(folder / "test.zarr", teacher, options.test_rows, TEST_START)
        for n_rows in options.rows:
            write_teacher(folder / "train.zarr", teacher, n_rows)
            for method in options.methods:
                row = in_own_process(fit_row, method, folder, options)
                above = row["error_percent"] - 100 * bayes["bayes_error"]
                yield {
                    "method": method,
                    "rows": n_rows,
                    "features": options.features,
                    "active": options.active,
                    "bayes_percent": round(100 * bayes["bayes_error"], 3),
                    "bayes_log_loss": round(bayes["bayes_log_loss"], 4),
                    "above_bayes": round(above, 3),
                    **row,
                }
            shutil.rmtree(folder / "train.zarr")


OPTIONS = (
    option("--methods", ["inducing"], "which of them", choices=list(METHODS)),
    option("--folder", None, "where the stores are written"),
    option("--no-cap", False, "no limit of the system to the memory of a fit"),
    *defaults(rows=[1_000_000], features=10, active=2000, noise=0.25),
    *defaults(test_rows=20_000, memory_budget="2GiB"),
)
SCRIPT = Script("headline_teacher", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
