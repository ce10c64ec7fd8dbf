"""Two fits at once in one process: each finds what it finds alone, and nothing stays set behind them."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import dask
import numpy as np
import pytest
import threadpoolctl

from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.passes import run
from tests.test_faults import same_model

QUICK = {"n_active": 15, "random_state": 0, "memory_budget": "64MiB", "progress": False}


def settings_of_the_process():
    libraries = [(each["filepath"], each["num_threads"]) for each in threadpoolctl.threadpool_info()]
    return sorted(libraries), dict(os.environ), dask.config.get("num_workers", None), run.available_threads()


@pytest.mark.parametrize("cluster", [False, True])
def test_two_fits_at_once_are_those_one_after_the_other(generator, make_store, request, cluster):
    X = generator.standard_normal((600, 3))
    classes = make_store(X, (X[:, 0] > X[:, 1] ** 2).astype(np.int64), chunk_rows=60)
    reals = make_store(X, np.sin(X[:, 0]) + 0.1 * X[:, 1], chunk_rows=50)
    works = [
        lambda **how: StreamGPClassifier(**QUICK, selection="ivm", **how).fit_stream(classes),
        lambda **how: StreamGPRegressor(**QUICK, inference="fitc", **how).fit_stream(reals),
    ]
    wanted = [work() for work in works]
    clients = [request.getfixturevalue("cluster_client") if cluster else None, None]
    before, together = settings_of_the_process(), Barrier(2)

    def fitted(place):
        together.wait()
        return works[place](client=clients[place])

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(fitted, range(2)))
    for one, other in zip(found, wanted, strict=True):
        same_model(one, other)
    assert settings_of_the_process() == before
