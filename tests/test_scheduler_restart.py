"""A scheduler that is killed in the middle of a fit and starts again where it was."""

from __future__ import annotations

import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from streamgp import StreamGPClassifier
from streamgp.errors import ClusterError
from streamgp.kernels import RBF
from streamgp.passes.sites import SiteSweep

SCHEDULER = """
import asyncio, sys
from distributed import Scheduler

async def main():
    port = int(sys.argv[1])
    where = {"host": "127.0.0.1", "port": port, "dashboard": False, "dashboard_address": "127.0.0.1:0"}
    async with Scheduler(**where) as scheduler:
        print("up", flush=True)
        await scheduler.finished()

asyncio.run(main())
"""
SETTINGS = {
    "selection": "ivm",
    "inference": "fitc",
    "n_active": 15,
    "random_state": 0,
    "kernel": RBF(1.0, 1.0),
    "learn_hyperparameters": False,
}


class Cluster:
    """A scheduler in a process of its own that talks over TCP, a worker and a client in this one."""

    def __init__(self):
        from distributed import Client

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])
        self.address, self.workers = f"tcp://127.0.0.1:{self.port}", []
        self.process = self.started()
        self.client = Client(self.address, set_as_default=False, timeout=60)
        self.add_worker()

    def started(self):
        process = subprocess.Popen(
            [sys.executable, "-c", SCHEDULER, self.port], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout.readline()
        return process

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def restart(self):
        self.stop()
        self.process = self.started()

    def add_worker(self):
        from distributed import Worker

        async def add():
            return await Worker(self.address, nthreads=1, dashboard=False)

        self.workers.append(self.client.sync(add))
        self.client.wait_for_workers(1, timeout=60)

    def close(self):
        for worker in self.workers:
            self.client.sync(worker.close)
        self.client.close()
        self.stop()


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    made.close()


@pytest.mark.filterwarnings("ignore")  # of connections that break off
def test_a_scheduler_that_restarts_is_told_and_the_fit_goes_on(
    generator, make_store, tmp_path, cluster, monkeypatch
):
    X = generator.standard_normal((600, 3))
    store = make_store(X, (X[:, 0] > 0).astype(np.int64), chunk_rows=60)
    expected = StreamGPClassifier(**SETTINGS).fit_stream(store).predict_proba(X)
    settings = {**SETTINGS, "checkpoint": tmp_path / "steps", "client": cluster.client}
    whole, calls = SiteSweep.visit, []

    def visit(self, block):
        calls.append(block.start)
        if len(calls) == 3:
            cluster.restart()
        return whole(self, block)

    with monkeypatch.context() as patched:
        patched.setattr(SiteSweep, "visit", visit)
        with pytest.raises(ClusterError, match=r"scheduler of the cluster was lost .* same checkpoint="):
            StreamGPClassifier(**settings).fit_stream(store)
    assert len(calls) >= 3
    deadline = time.monotonic() + 60
    while cluster.client.status != "running" and time.monotonic() < deadline:
        time.sleep(0.05)
    cluster.add_worker()
    model = StreamGPClassifier(**settings).fit_stream(store)  # the client has found it again
    model.client = None
    np.testing.assert_array_equal(model.predict_proba(X), expected)
