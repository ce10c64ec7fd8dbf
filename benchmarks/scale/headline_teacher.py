"""A teacher of known Bayes error by hundreds of millions of rows: error, time and memory in a fixed budget.

    python -m benchmarks.scale.headline_teacher --rows 1000000 --peers
    python -m benchmarks.scale.headline_teacher --rows 100000000 --folder scratch
    python -m benchmarks.scale.headline_teacher --store teacher.zarr

Stores of ``benchmarks.scale.make_teacher``, two classes, float32 (10^8 rows of 10 features are 4 GB): a
function of all features, and a rougher one of ``--rough-features`` of them. Each fit is in a process of its
own that may allocate ``--memory-budget`` and an eighth of it, and no more. ``above_bayes`` is in points.
``inducing`` is the mode of all rows, by steps of parts of the store, with a kernel learned before: one fit of
the first ``--kernel-rows`` rows for each of ``--kernel-seeds``, which differ in the rows that judge kernels,
and the best of them by 50,000 rows of the store that none of them has seen; ``seconds`` count that. ``local``
needs disk for a second copy of the rows and the rows beside each block. ``--peers``: a linear model and 500
Nystroem features on the first 100,000 rows, as in ``benchmarks.scale.local_scale``.
"""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import zarr

from benchmarks.harness import (
    Options,
    Row,
    Rows,
    Script,
    Stores,
    defaults,
    in_own_process,
    option,
    peak_bytes,
    restart_peak,
    scores,
    warm_up,
)
from benchmarks.scale.headline import bytes_read, cap_memory
from benchmarks.scale.local_scale import TEST_START, peer_rows
from benchmarks.scale.make_teacher import Teacher, write_teacher
from streamgp import StreamGPClassifier
from streamgp.budget import parse_size
from streamgp.kernels import Kernel

JUDGES = 50_000
METHODS: dict[str, dict[str, Any]] = {
    "inducing": {"selection": "kmeans", "inference": "fitc", "multiclass": "joint"},
    "local": {"inference": "local", "n_active": 300},
}


def fit_row(method: str, stores: Stores, options: Options) -> Row:
    """In a process of its own: one fit under its cap, and its scores on new rows."""
    warm_up()
    budget = parse_size(options.memory_budget)
    fixed = {"memory_budget": budget, "random_state": options.seed, "progress": False}
    how = {"n_active": options.active, **METHODS[method]}
    if method == "local":
        how["scratch"] = stores.test.parent
    if not options.no_cap:
        cap_memory(budget + budget // 8)
    before, read, cpu, begun = restart_peak(), bytes_read(), time.process_time(), time.perf_counter()
    if method == "inducing":
        how |= {"kernel": learned_kernel(stores.train, options), "learn_hyperparameters": False}
    learned = time.perf_counter() - begun
    model = StreamGPClassifier(**fixed, **how).fit_stream(stores.train)
    seconds = time.perf_counter() - begun
    return {
        "active": model.get_params()["n_active"],
        "seconds": round(seconds, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "peak_mb": round(peak_bytes() / 1e6),
        "fit_mb": round((peak_bytes() - before) / 1e6),
        "rows_read": model.about_["rows_read"],
        "bytes_read": bytes_read() - read,
        "kernel_seconds": round(learned, 1),
        "stages": {entry["stage"]: round(entry["seconds"], 1) for entry in model.history_},
        "passes": next((entry["passes"] for entry in model.history_ if "passes" in entry), None),
        **scores(model.evaluate_stream(stores.test)),
        "kernel": repr(model.kernel_),
    }


def learned_kernel(store: Path, options: Options) -> Kernel:
    """Of fits of the store's first rows, the kernel of the one that predicts the rows after them best."""
    group = zarr.open_group(store, mode="r")
    few = min(options.kernel_rows, 3 * group["X"].shape[0] // 4)
    first, after = (
        tuple(group[name][place] for name in ("X", "y")) for place in (slice(few), slice(few, few + JUDGES))
    )
    active, budget = min(options.active, options.kernel_active), parse_size(options.memory_budget) // 2
    fits = [
        StreamGPClassifier(
            active, memory_budget=budget, random_state=seed, progress=False, **METHODS["inducing"]
        ).fit_stream(first)
        for seed in options.kernel_seeds
    ]
    return min(fits, key=lambda fit: fit.evaluate_stream(after).log_loss).kernel_


def beside_bayes(row: Row, bayes: dict[str, float]) -> Row:
    """The row, with what no model can avoid."""
    best = 100 * bayes["bayes_error"]
    return {
        **row,
        "bayes_percent": round(best, 3),
        "bayes_log_loss": round(bayes["bayes_log_loss"], 4),
        "above_bayes": round(row["error_percent"] - best, 3),
    }


def rows(options: Options) -> Rows:
    rough = {"rough_features": options.rough_features, "rough_lengthscale": options.rough_lengthscale}
    teacher = Teacher(features=options.features, noise=options.noise, **rough)
    with tempfile.TemporaryDirectory(prefix="streamgp-bench-", dir=options.folder) as name:
        test, own = Path(name) / "test.zarr", Path(name) / "train.zarr"
        bayes = write_teacher(test, teacher, options.test_rows, TEST_START)
        for n_rows in options.rows if options.store is None else [None]:
            if n_rows is not None:
                write_teacher(own, teacher, n_rows, chunk_rows=options.chunk_rows)
            stores = Stores(own if n_rows is not None else Path(options.store), test)
            n_read, features = zarr.open_group(stores.train, mode="r")["X"].shape
            for method in options.methods:
                row = in_own_process(fit_row, method, stores, options)
                yield beside_bayes({"method": method, "rows": n_read, "features": features, **row}, bayes)
            if options.peers:
                yield from (beside_bayes(row, bayes) for row in peer_rows(stores))
            shutil.rmtree(own, ignore_errors=True)


OPTIONS = (
    option("--methods", ["inducing"], "which of them", choices=list(METHODS)),
    option("--folder", None, "where the stores are written"),
    option("--store", None, "a store of make_teacher that is there already, of the same teacher"),
    option("--peers", False, "a linear model and Nystroem features too"),
    option("--no-cap", False, "no limit of the system to the memory of a fit"),
    *defaults(rows=[1_000_000], features=10, active=2000, noise=0.25, seed=0, chunk_rows=16_384),
    *defaults(kernel_rows=300_000, kernel_active=1000, kernel_seeds=[0, 1, 2]),
    *defaults(rough_features=2, rough_lengthscale=0.5, test_rows=50_000, memory_budget="2GiB"),
)
SCRIPT = Script("headline_teacher", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
