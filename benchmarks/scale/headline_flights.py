"""Three million flights from a Parquet file: ingest, the default and named recipes, and rivals beside them.

    python -m benchmarks.scale.headline_flights --rows 300000
    python -m benchmarks.scale.headline_flights --methods default LightGBM SVGP --splits last

Raw columns (a time, a distance, airports as strings, some missing) are ingested, airports encoded. Test rows
are a random tenth (``random``) and the last tenth in time (``last``): a store each. Rivals get the encoded
features. Every fit is in a process of its own; ``fit_mb`` is how far its memory rose. SVGP of GPyTorch
(``--methods SVGP``) has ``--rival-points`` inducing inputs, as many as ours by name, and ``--rival-seconds``
of the processor; LightGBM stops after as many if it has not by itself. ``later rows judge`` is ``inducing``
with ``validation="last"``, for rows in order of time.
"""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import zarr
from sklearn.metrics import roc_auc_score

import streamgp
from benchmarks.datasets import Split, load
from benchmarks.harness import (
    DATA,
    Options,
    Row,
    Rows,
    Script,
    active_sizes,
    defaults,
    in_own_process,
    option,
    probability_scores,
    timed,
    warm_up,
)
from benchmarks.make_flights import drawn, flights, made_up
from benchmarks.peers.data import Task
from benchmarks.peers.gaussian_processes import variational
from benchmarks.peers.methods import METHODS as RIVALS
from benchmarks.peers.methods import Predict, Request, boosted
from streamgp import StreamGPClassifier

INDUCING: dict[str, Any] = {"selection": "kmeans", "inference": "fitc", "multiclass": "joint"}
OURS: dict[str, dict[str, Any]] = {
    "default": {},
    "inducing": INDUCING,
    "later rows judge": {**INDUCING, "validation": "last"},
    "local": {"inference": "local"},
}
Fit = Callable[[Request], Predict]
OTHERS = {"LightGBM": "LightGBM", "Nystroem": "Nystroem 1000", "SVGP": "SVGP"}
"""Their names in ``benchmarks.peers``."""
TARGET = "late"


def write_tables(folder: Path, options: Options) -> None:
    """Parquet files: ``random`` is shuffled, ``last`` sorted by departure; a tenth of each are test rows."""
    generator = np.random.default_rng(0)
    found = made_up(options.rows or 3000, generator) if options.synthetic else load("flights3m", options.data)
    table = flights(drawn(found, options.rows, generator), generator)
    orders = {"random": generator.permutation(len(table)), "last": pc.sort_indices(table["departure"])}
    for split in options.splits:
        mixed = table.take(pa.array(orders[split]))
        train = len(table) - len(table) // 10
        pq.write_table(mixed.slice(0, train), folder / f"{split}.parquet")
        pq.write_table(mixed.slice(train), folder / f"{split}-test.parquet")


def scored(probability: Any, truth: Any) -> Row:
    """AUC, error, log loss and calibration error; the second column is for being late."""
    return {
        "auc": round(float(roc_auc_score(truth, probability[:, 1])), 4),
        "error_percent": round(100 * float(np.mean(probability.argmax(axis=1) != truth)), 3),
        **probability_scores(probability, truth),
    }


def ours(method: str, folder: Path, split: str, options: Options) -> Row:
    """In a process of its own: one of our recipes, predicting from raw columns."""
    warm_up()
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        how = {**OURS[method], **({"n_active": options.active} if options.active else {})}
        if method == "local":
            how["scratch"] = scratch
        model = StreamGPClassifier(memory_budget=options.memory_budget, random_state=0, progress=False, **how)
        cost = _cost(lambda: model.fit_stream(folder / f"{split}.zarr"))
        test, begun = folder / f"{split}-test.parquet", time.perf_counter()
        model.predict_stream(test, Path(scratch) / "predictions.zarr")
        seconds = time.perf_counter() - begun
        found = zarr.open_group(Path(scratch) / "predictions.zarr", mode="r")
        [probability] = (array[:] for _, array in found.arrays() if array.ndim == 2)
    truth = np.asarray(pq.read_table(test, columns=[TARGET])[TARGET]) == "yes"
    return {
        **scored(probability, truth.astype(np.intp)),
        **cost,
        "active": float(np.mean(active_sizes(model))),
        "predict_seconds": round(seconds, 1),
        "recipe": model.recipe_,
    }


def rival(method: str, folder: Path, split: str, options: Options) -> Row:
    """In a process of its own: a rival, with all rows in memory."""
    from streamgp.data import open_rows
    from streamgp.tables.again import encoded

    store = zarr.open_group(folder / f"{split}.zarr", mode="r")
    X, y = store["X"][:], np.asarray(store["y"][:]) == "yes"
    test = folder / f"{split}-test.parquet"
    recipe = open_rows(folder / f"{split}.zarr").column_recipe
    assert recipe is not None
    new = encoded(recipe, test)
    truth = np.asarray(pq.read_table(test, columns=[TARGET])[TARGET]) == "yes"
    task = Task(Split(X, y.astype(np.intp), new, truth.astype(np.intp)), np.arange(2))
    request = Request("flights", task, 0, options.memory_budget, options.rival_seconds)
    chosen, fitted = RIVALS[OTHERS[method]], []
    if len(y) > chosen.drawn_rows:
        few = np.random.default_rng(0).permutation(len(y))[: chosen.drawn_rows]
        request = request._replace(task=task._replace(split=task.split.learning_from(few)))
    fit = _limited(method, chosen.fit, options)
    cost = _cost(lambda: fitted.append(fit(request)))
    more = {"active": options.rival_points} if method == "SVGP" else {}
    return {**scored(np.asarray(fitted[0](new)), truth.astype(np.intp)), **cost, **more}


def _limited(method: str, fit: Fit, options: Options) -> Fit:
    """The same with the limits of this comparison."""
    if method == "SVGP":
        return partial(variational, points=options.rival_points, clock=time.process_time)
    return partial(boosted, seconds=options.rival_seconds) if method == "LightGBM" else fit


def _cost(work: Callable[[], object]) -> Row:
    """Do some work: seconds by the clock and of the processor (all threads), and how far memory rose."""
    begun = time.process_time()
    cost = timed(work)
    spent = time.process_time() - begun
    return {
        "seconds": cost["seconds"],
        "cpu_seconds": round(spent, 1),
        "fit_mb": round(cost["fit_bytes"] / 1e6),
    }


def rows(options: Options) -> Rows:
    with tempfile.TemporaryDirectory(prefix="streamgp-bench-", dir=options.folder) as name:
        folder = Path(name)
        write_tables(folder, options)
        for split in options.splits:
            begun = time.perf_counter()
            made = streamgp.ingest(
                folder / f"{split}.parquet",
                folder / f"{split}.zarr",
                target=TARGET,
                shuffle=True,
                memory_budget=options.memory_budget,
                progress=False,
            )
            ingest = round(time.perf_counter() - begun, 1)
            n_rows = zarr.open_group(folder / f"{split}.zarr", mode="r")["X"].shape
            shape = {"rows": n_rows[0], "features": n_rows[1], "ingest_seconds": ingest}
            assert made is not None
            for method in options.methods:
                work = ours if method in OURS else rival
                yield {
                    "split": split,
                    "method": method,
                    **shape,
                    **in_own_process(work, method, folder, split, options),
                }


OPTIONS = (
    *DATA,
    option("--methods", [*OURS, "LightGBM", "Nystroem"], "which of them", choices=[*OURS, *OTHERS]),
    option("--splits", ["random", "last"], "which test rows", choices=["random", "last"]),
    option("--folder", None, "where files and stores are written"),
    option("--active", None, "inducing inputs, in the place of as many as the default takes", type=int),
    *defaults(memory_budget="1GiB", rival_seconds=600.0, rival_points=2000),
)
SCRIPT = Script("headline_flights", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
