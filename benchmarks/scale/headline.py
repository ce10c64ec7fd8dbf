"""Ten digits by millions: a fit of a store larger than its memory, then the test set of MNIST as it is.

    python -m benchmarks.scale.headline --rows 600000
    python -m benchmarks.scale.headline --rows 8100000 --folder scratch
    python -m benchmarks.scale.headline --rows 60000 600000 --methods nystroem --folder scratch

Stores of ``benchmarks.scale.make_digits``; the first 60,000 rows are MNIST's own. Every fit is in a process
of its own, after a tiny one that compiles, and from there on the process may use ``--memory-budget`` and an
eighth of it (threads, readers) beyond what it had: more is refused by the system (RLIMIT_DATA).
``bytes_read`` are those of stored chunks, from the file system or its cache. ``nystroem``: standardised
features of as many points and averaged SGD, streamed over the same store in ``--epochs`` epochs; width of the
kernel, length of steps and penalty are those of least log loss on 5000 rows held out of 20,000.
"""

import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from benchmarks.datasets import Array, Arrays, load_arrays
from benchmarks.harness import (
    SET,
    Options,
    Row,
    Rows,
    Script,
    defaults,
    in_own_process,
    option,
    peak_bytes,
    probability_scores,
    restart_peak,
    warm_up,
)
from benchmarks.scale.make_digits import write_digits
from streamgp import StreamGPClassifier
from streamgp.budget import parse_size
from streamgp.selection import Kmeans

TARGET = {"target_error": 0.01, "target_log_loss": 0.035, "target_seconds": 2700}
PEER_ROWS = 20_000
"""Rows by which the settings of the rival are chosen, a quarter of them held out."""
TUNING_POINTS = 500
WIDTHS, STEPS, PENALTIES = (0.35, 0.5, 0.7), (4.0, 16.0, 32.0), (1e-7, 1e-5)
"""Of its kernel, in median distances; of its steps, for features of length one; of its weights."""


def digits(options: Options) -> Arrays:
    """Images and labels of MNIST, or made-up ones of the same shape."""
    return load_arrays("mnist", options)


def cap_memory(beyond: int) -> None:
    """From here on the process may allocate so many bytes more, and no others."""
    if sys.platform == "linux":
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmData:"):
                most = 1024 * int(line.split()[1]) + beyond
                resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def bytes_read() -> int:
    """Bytes that this process has asked its files for."""
    counters = Path("/proc/self/io")
    if not counters.exists():
        return 0
    return int(dict(line.split(": ") for line in counters.read_text().splitlines())["rchar"])


def scored(predict: object, options: Options) -> Row:
    """Error, log loss and calibration error on MNIST's test rows."""
    arrays = digits(options)
    probabilities = predict(arrays["X_test"])  # type: ignore[operator]
    truth = arrays["y_test"].astype(np.intp)
    error = float(np.mean(probabilities.argmax(axis=1) != truth))
    return {"error": round(error, 5), **probability_scores(probabilities, truth)}


def ours(store: Path, options: Options) -> Row:
    """In a process of its own: our fit under its cap."""
    warm_up()
    budget = parse_size(options.memory_budget)
    model = StreamGPClassifier(
        options.active,
        selection=Kmeans(),
        inference="fitc",
        multiclass="joint",
        memory_budget=budget,
        random_state=options.seed,
        progress=False,
    )
    if not options.no_cap:
        cap_memory(budget + budget // 8)
    before, read, begun, cpu = restart_peak(), bytes_read(), time.perf_counter(), time.process_time()
    model.fit_stream(store)
    seconds = time.perf_counter() - begun
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "peak_mb": round(peak_bytes() / 1e6),
        "fit_mb": round((peak_bytes() - before) / 1e6),
        "rows_read": model.about_["rows_read"],
        "bytes_read": bytes_read() - read,
        "stages": {entry["stage"]: round(entry["seconds"], 1) for entry in model.history_},
        **{name: _of_mode(model)[name] for name in ("passes", "held_out") if name in _of_mode(model)},
        **scored(model.predict_proba, options),
        **TARGET,
        "kernel": repr(model.kernel_),
    }


def _of_mode(model: StreamGPClassifier) -> Row:
    return next(entry for entry in model.history_ if entry["stage"] == "infer: mode")


def nystroem(store: Path, options: Options) -> Row:
    """In a process of its own: Nystroem features and SGD, one chunk of the store after the other."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import SGDClassifier
    from sklearn.metrics import log_loss
    from sklearn.metrics.pairwise import euclidean_distances
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    group = zarr.open_group(store, mode="r")
    X, y, generator = group["X"], group["y"], np.random.default_rng(options.seed)
    before, begun = restart_peak(), time.perf_counter()
    few = np.sort(generator.choice(X.shape[0], min(PEER_ROWS, X.shape[0]), replace=False))
    rows, codes = X.oindex[few].astype(np.float32) / 255, y.oindex[few]
    order = generator.permutation(len(few))
    rows, codes, held = rows[order], codes[order], len(few) // 4
    median = float(np.median(euclidean_distances(rows[:1000])))
    classes, points = np.unique(codes), min(options.active, len(few) // 2)

    def features_of(width: float, count: int) -> Any:
        gamma = 0.5 / (width * median) ** 2
        mapped = Nystroem(gamma=gamma, n_components=count, random_state=options.seed)
        return make_pipeline(mapped, StandardScaler()).fit(rows[held : held + 2 * count])

    def learner(step: float, alpha: float, count: int, n_rows: int) -> Any:
        # Standardised features have a squared length of their number; averages leave the first epoch out.
        how = {"learning_rate": "constant", "eta0": step / count, "average": n_rows}
        return SGDClassifier("log_loss", alpha=alpha, random_state=options.seed, **how)

    tried = {}
    few_points = min(points, TUNING_POINTS)
    for width in WIDTHS:
        mapped = features_of(width, few_points).transform(rows)
        for step in STEPS:
            for alpha in PENALTIES:
                sgd = learner(step, alpha, few_points, len(rows) - held)
                for _ in range(options.epochs):
                    mixed = held + generator.permutation(len(rows) - held)
                    sgd.partial_fit(mapped[mixed], codes[mixed], classes)
                loss = log_loss(codes[:held], sgd.predict_proba(mapped[:held]), labels=classes)
                tried[width, step, alpha] = loss
    width, step, alpha = min(tried, key=tried.__getitem__)
    features, sgd = features_of(width, points), learner(step, alpha, points, X.shape[0])
    for _ in range(options.epochs):
        _epoch(features, sgd, X, y, classes, generator)
    seconds = time.perf_counter() - begun
    return {
        "seconds": round(seconds, 1),
        "peak_mb": round(peak_bytes() / 1e6),
        "fit_mb": round((peak_bytes() - before) / 1e6),
        "epochs": options.epochs,
        "chosen": {"width": width, "step": step, "alpha": alpha},
        **scored(lambda test: sgd.predict_proba(features.transform(test.astype(np.float32) / 255)), options),
    }


def _epoch(
    features: Any, sgd: Any, X: zarr.Array, y: zarr.Array, classes: Array, generator: np.random.Generator
) -> None:
    for begin in range(0, X.shape[0], X.chunks[0]):
        end = min(begin + X.chunks[0], X.shape[0])
        block = features.transform(X[begin:end].astype(np.float32) / 255)
        mixed = generator.permutation(end - begin)
        sgd.partial_fit(block[mixed], y[begin:end][mixed], classes)


METHODS = {"streamgp": ours, "nystroem": nystroem}


def rows(options: Options) -> Rows:
    arrays = digits(options)
    with tempfile.TemporaryDirectory(prefix="streamgp-bench-", dir=options.folder) as name:
        for n_rows in options.rows:
            store, begun = Path(name) / f"{n_rows}.zarr", time.perf_counter()
            if options.store is None:
                write_digits(store, arrays["X_train"], arrays["y_train"], n_rows)
            made = {"make_seconds": round(time.perf_counter() - begun, 1)}
            for method in options.methods:
                place = store if options.store is None else Path(options.store)
                stored = zarr.open_group(place, mode="r")["X"]
                shape = {"rows": stored.shape[0], "features": stored.shape[1], "active": options.active}
                row = in_own_process(METHODS[method], place, options)
                yield {"method": method, **shape, "seed": options.seed, **row, **made}
            shutil.rmtree(store, ignore_errors=True)


OPTIONS = (
    *SET,
    option("--folder", None, "where the stores are written"),
    option("--no-cap", False, "no limit of the system to the memory of a fit"),
    option("--store", None, "a store of make_digits that is there already, in the place of --rows"),
    option("--methods", ["streamgp"], "which of them", choices=list(METHODS)),
    *defaults(rows=[8_100_000], active=4000, memory_budget="2GiB", epochs=6, seed=0),
)
SCRIPT = Script("headline", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
