"""Laws: seconds and memory of a fit against rows, inducing inputs, features, classes, threads and workers.

    python -m benchmarks.scale.laws --figures laws
    python -m benchmarks.scale.laws --laws rows --rows 100000 1000000 10000000 31600000

One quantity varies, the others stay as the options say. Classes by their joint mode over a store of made-up
rows in chunks of ``--chunk-rows``, the kernel given; every fit in a process of its own, on its threads;
where the number of workers varies, on worker processes of one thread, which were there before.
``pass_seconds`` are those of a pass of the mode, ``predicted`` what ``streamgp plan --rows ...`` says of
them with rates measured in the same process, ``ratio`` the former over the latter; ``fit_predicted`` and
``fit_ratio`` the same of the whole fit, the number of passes as it was. ``stages``: seconds measured, and
predicted. After each law comes a row with the exponents of a least-squares fit in logarithms, of the seconds
of a pass and of the whole fit, those between neighbours, and how far memory moved. ``--figures``: a folder
for one SVG a law. ``--processor-time``: seconds of the processor in the place of the clock's, of one thread,
so that other work of the machine does not count.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import numpy as np
import zarr
from sklearn.base import clone

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
    told,
    warm_up,
)
from streamgp import StreamGPClassifier
from streamgp.kernels import RBF
from streamgp.settings import FITC, fit_settings
from streamgp.training.forecast import Question, forecast
from streamgp.training.rates import rates

LAWS = ("rows", "active", "features", "classes", "threads", "workers")


def write_rows(path: Path, n_rows: int, n_features: int, classes: int, chunk_rows: int) -> None:
    """Random features, and classes by the largest of some of their combinations."""
    group = zarr.open_group(path, mode="w")
    chunk = min(n_rows, chunk_rows)
    X = group.create_array("X", shape=(n_rows, n_features), chunks=(chunk, n_features), dtype="float32")
    y = group.create_array("y", shape=(n_rows,), chunks=(chunk,), dtype="int8")
    directions = np.random.default_rng(0).standard_normal((n_features, classes))
    for start in range(0, n_rows, chunk):
        stop = min(start + chunk, n_rows)
        rows = np.random.default_rng([1, start]).standard_normal((stop - start, n_features))
        X[start:stop], y[start:stop] = rows, np.argmax(np.sin(rows) @ directions, axis=1)


def fit_row(path: Path, at: dict[str, int], on_workers: bool, options: Options) -> Row:
    """In a process of its own: one fit on its threads, or on workers of one thread, beside its forecast."""
    if options.processor_time:
        time.perf_counter = time.monotonic = time.process_time
    warm_up()
    model = StreamGPClassifier(
        at["active"],
        selection="kmeans",
        inference=FITC(),
        multiclass="joint",
        kernel=RBF(10.0, float(np.sqrt(at["features"]))),
        learn_hyperparameters=False,
        memory_budget=options.memory_budget,
        random_state=0,
        progress=False,
    )
    question = Question(**{name: at[name] for name in LAWS}, chunk_rows=options.chunk_rows)
    settings = fit_settings(model.get_params(deep=False), 0)
    with (
        dask.config.set(num_workers=at["threads"] * at["workers"]),
        _workers(on_workers * at["workers"]) as client,
    ):
        found = rates(again=True)
        model.set_params(client=client)
        _compile(model, at["classes"])
        before, begun = restart_peak(), time.perf_counter()
        model.fit_stream(path)
        seconds = time.perf_counter() - begun
    [mode] = told(model, "infer: mode")
    passes = max(1, mode["passes"])
    expected, each = forecast(question, settings, found, passes), mode["pass_seconds"] / passes
    stages = {entry["stage"].split(":")[0]: round(entry["seconds"], 2) for entry in model.history_}
    stages["prepare"] = round(seconds - sum(stages.values()), 2)
    return {
        "seconds": round(seconds, 2),
        "fit_mb": round((peak_bytes() - before) / 1e6, 1),
        "passes": mode["passes"],
        "pass_seconds": round(each, 3),
        "predicted": round(expected.pass_seconds, 3),
        "ratio": round(each / expected.pass_seconds, 3),
        "fit_predicted": round(expected.seconds, 2),
        "fit_ratio": round(seconds / expected.seconds, 3),
        "planned_mb": round(expected.memory_bytes / 1e6, 1),
        "held": expected.rows_are_held,
        "stages": [stages, {name: round(value, 2) for name, value in expected.stages.items()}],
    }


def _compile(model: StreamGPClassifier, classes: int) -> None:
    """A tiny fit of the same kind, so that no other waits for compiled code."""
    X = np.random.default_rng(0).standard_normal((400, 2))
    clone(model).set_params(n_active=10).fit(X, np.arange(400) % classes)


@contextmanager
def _workers(count: int) -> Iterator[Any]:
    """A client of so many processes of one thread; None where there are to be none."""
    if count == 0:
        yield None
        return
    from benchmarks.scale.cluster import processes

    with processes(count) as (client, _):
        yield client


def exponent(values: list[int], seconds: list[float]) -> float:
    """Of seconds ∝ value^exponent."""
    return round(float(np.polyfit(np.log(values), np.log(seconds), 1)[0]), 3)


def draw(law: str, found: list[Row], folder: Path) -> None:
    """Seconds of a pass and of the fit, and memory, in logarithms."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 3))
    values = [row[law] for row in found]
    for name, place in (
        ("seconds", left),
        ("fit_predicted", left),
        ("pass_seconds", left),
        ("predicted", left),
        ("fit_mb", right),
        ("planned_mb", right),
    ):
        place.loglog(values, [row[name] for row in found], marker="o", label=name.replace("_", " "))
    for place, what in ((left, "seconds"), (right, "MB")):
        place.set_xlabel(law)
        place.set_ylabel(what)
        place.legend(frameon=False)
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{law}.svg")
    pyplot.close(figure)


def rows(options: Options) -> Rows:
    middle = {name: getattr(options, f"at_{name}") for name in LAWS}
    for law in options.laws:
        found: list[Row] = []
        for value in getattr(options, law):
            at: dict[str, Any] = {**middle, law: value}
            on_workers = law == "workers"
            at["threads"] = 1 if on_workers else at["threads"]
            with tempfile.TemporaryDirectory(prefix="streamgp-bench-", dir=options.folder) as name:
                path = Path(name) / "rows.zarr"
                write_rows(path, at["rows"], at["features"], at["classes"], options.chunk_rows)
                found.append({"law": law, **at, **in_own_process(fit_row, path, at, on_workers, options)})
            yield found[-1]
        if len(found) > 1:
            values = [row[law] for row in found]
            fitted: Row = {
                f"exponent_of_{name}": exponent(values, [max(row[name], 1e-3) for row in found])
                for name in ("pass_seconds", "seconds")
            }
            memory = [row["fit_mb"] for row in found]
            steps = zip(
                pairwise(values), pairwise([max(row["pass_seconds"], 1e-3) for row in found]), strict=True
            )
            fitted["exponents_between"] = [exponent(list(x), list(y)) for x, y in steps]
            yield {"law": law, **fitted, "fit_mb_spread": round(max(memory) - min(memory), 1)}
        if options.figures:
            draw(law, found, Path(options.figures))


OPTIONS = (
    option("--laws", list(LAWS), "which of them", choices=list(LAWS)),
    option("--processor-time", False, "count seconds of the processor; for one thread and no workers"),
    option("--folder", None, "where the stores are written"),
    option("--figures", None, "a folder for an SVG a law"),
    *defaults(rows=[400_000, 800_000, 1_600_000], active=[125, 250, 500, 1000], features=[10, 40, 160]),
    *defaults(classes=[2, 5, 10], threads=[1, 2], workers=[1, 2], chunk_rows=4096, memory_budget="256MiB"),
    *defaults(at_rows=400_000, at_active=500, at_features=20, at_classes=3, at_threads=2, at_workers=1),
)
SCRIPT = Script("laws", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
