"""Local blocks on a teacher of known Bayes error: error, time, memory and disk against the number of rows.

    python -m benchmarks.scale.local_scale --rows 100000 1000000
    python -m benchmarks.scale.local_scale --rows 10000000 --memory-budget 2GiB --folder teacher
    python -m benchmarks.scale.local_scale --rows 100000 --peers

With ``--folder`` an interrupted run goes on where it stopped when the same command is given again: stores,
checkpoint and scratch folder stay there until their row is printed. ``stage_seconds`` are those of all
stages, of earlier runs too; ``seconds`` and ``cpu_seconds`` those of the last one.

Stores of ``benchmarks.scale.make_teacher``, 8 features, two classes; every fit in a process of its own, after
a tiny one that compiles. ``disk_bytes`` is the most that lay in the scratch folder, looked at every second,
``planned_bytes`` what the plan said, ``disk_share`` the one by the other. ``--peers``: a linear model and 500
Nystroem features (the best of three widths by the test rows, which flatters it) with logistic regression on
at most 100,000 rows.
"""

import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import zarr
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from benchmarks.harness import (
    Options,
    Row,
    Rows,
    Script,
    Stores,
    defaults,
    in_own_process,
    measured,
    option,
    told,
)
from benchmarks.scale.make_teacher import Teacher, write_teacher
from streamgp import StreamGPClassifier
from streamgp.data import open_rows
from streamgp.settings import Local, fit_settings
from streamgp.training.fit_memory import plan_fit

TEST_START = 10**9
"""Number of the first test row: no store is so large."""
PEER_ROWS = 100_000


@contextmanager
def watched(folder: Path) -> Iterator[list[int]]:
    """The most bytes that a folder held meanwhile, as the only element of a list."""
    most, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(1.0):  # by another process: thousands of files would keep our threads waiting
            found = subprocess.run(["du", "-s", "-B1", folder], capture_output=True, check=False).stdout
            most[0] = max(most[0], int((found.split() or [0])[0]))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()


def fit_row(stores: Stores, folder: Path, checkpoint: Path | None, options: Options) -> Row:
    """In a process of its own: one fit, and its scores on new rows."""
    block_rows = options.block_rows or "auto"
    model = StreamGPClassifier(
        options.inducing,
        kernel=options.kernel,
        inference=Local(block_rows, options.neighbours),
        memory_budget=options.memory_budget,
        random_state=options.seed,
        scratch=folder,
        checkpoint=checkpoint,
    )
    planned = plan_fit(open_rows(stores.train), fit_settings(model.get_params(deep=False), 0))
    begun = time.process_time()
    with watched(folder) as most:
        row = measured(model, stores)
    return {
        **row,
        "cpu_seconds": round(time.process_time() - begun, 1),
        "stage_seconds": round(sum(entry["seconds"] for entry in model.history_), 1),
        "left_out_log_density": round(told(model, "infer: local")[-1]["left_out_log_density"], 5),
        "peak_mb": round(row["peak_bytes"] / 1e6),
        "disk_bytes": most[0],
        "planned_bytes": planned.scratch_bytes,
        "disk_share": round(most[0] / planned.scratch_bytes, 3),
        "stages": [[entry["stage"], round(entry["seconds"], 1)] for entry in model.history_],
    }


def peer_rows(stores: Stores) -> Rows:
    """A linear model, and Nystroem features of several widths: error in percent on the test rows."""
    train, test = (zarr.open_group(path, mode="r") for path in stores)
    rows = min(PEER_ROWS, train["X"].shape[0])
    X, y = train["X"][:rows], train["y"][:rows]
    models = {"linear": [LogisticRegression()]}
    models["nystroem"] = [
        make_pipeline(Nystroem(gamma=gamma, n_components=500, random_state=0), LogisticRegression(C=10.0))
        for gamma in (0.03, 0.1, 0.3)
    ]
    for name, tried in models.items():
        errors = [np.mean(model.fit(X, y).predict(test["X"][:]) != test["y"][:]) for model in tried]
        yield {"method": name, "rows": rows, "error_percent": round(100 * float(min(errors)), 3)}


@contextmanager
def working_folder(chosen: str | None) -> Iterator[Path]:
    """The folder that was asked for, which stays, or one that is removed in the end."""
    if chosen is not None:
        Path(chosen).mkdir(parents=True, exist_ok=True)
        yield Path(chosen)
        return
    with tempfile.TemporaryDirectory(prefix="streamgp-bench-") as name:
        yield Path(name)


def rows(options: Options) -> Rows:
    teacher = Teacher(noise=options.noise)
    with working_folder(options.folder) as folder:
        test = folder / f"test-{options.test_rows}.zarr"
        found = write_teacher(test, teacher, options.test_rows, TEST_START)
        bayes = {
            "bayes_percent": round(100 * found["bayes_error"], 3),
            "bayes_log_loss": round(found["bayes_log_loss"], 4),
        }
        for n_rows in sorted(options.rows):
            own = folder / f"fit-{n_rows}"
            (own / "scratch").mkdir(parents=True, exist_ok=True)
            stores = Stores(own / "train.zarr", test)
            write_teacher(stores.train, teacher, n_rows)  # chunks that are there stay
            checkpoint = None if options.folder is None else own / "checkpoint"
            row = in_own_process(fit_row, stores, own / "scratch", checkpoint, options)
            yield {"method": "local blocks", **row, **bayes}
            if options.peers:
                yield from ({**row, **bayes} for row in peer_rows(stores))
            shutil.rmtree(own)


OPTIONS = (
    option("--folder", None, "where everything is kept until its row is printed"),
    option("--peers", False, "a linear model and Nystroem features too"),
    option("--block-rows", None, "rows of a block", type=int),
    option("--kernel", None, "family of the kernel, which is chosen else"),
    *defaults(rows=[100_000, 1_000_000], inducing=300, neighbours=2, noise=0.25),
    *defaults(test_rows=20_000, memory_budget="2GiB", seed=0),
)
SCRIPT = Script("local_scale", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
