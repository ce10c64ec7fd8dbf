"""One cell of the comparison: a method, a set, a seed."""

from __future__ import annotations

import importlib
import time
import warnings

from benchmarks.harness import Options, Row, timed, warm_up
from benchmarks.peers.data import task_of
from benchmarks.peers.methods import METHODS, Request
from benchmarks.peers.scoring import scored


def cell(name: str, method: str, seed: int, options: Options, seconds: float) -> Row:
    """Fit one method to one set and score it on the test rows; to be run in a process of its own."""
    way, task = METHODS[method], task_of(name, options)
    rows = len(task.split.y_train)
    if rows > way.drawn_rows:
        task = task._replace(split=task.split.drawn(way.drawn_rows))
    warm_up()
    for module in ("sklearn.svm", "sklearn.cluster", way.module):  # importing is nobody's seconds or bytes
        importlib.import_module(module)
    request, predict = Request(name, task, seed, options.memory_budget, seconds), None

    def work() -> None:
        nonlocal predict
        predict = way.fit(request)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rivals' optimisers need not converge
        begun = time.process_time()
        cost = timed(work)
        cpu, begun_predicting = time.process_time() - begun, time.perf_counter()
        assert predict is not None
        found = predict(task.split.X_test)
    return {
        "rows": rows,
        "rows_used": len(task.split.y_train),
        **scored(found, task.split.y_test),
        **cost,
        "cpu_seconds": round(cpu, 1),
        "predict_seconds": round(time.perf_counter() - begun_predicting, 2),
    }
