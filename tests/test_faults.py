"""Disks that are full, folders that cannot be written, workers that die, stores that are slow or fail."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress

import dask
import numpy as np
import pytest
import zarr
from zarr.storage import LocalStore, WrapperStore
from zarr.testing.store import LatencyStore

from benchmarks.robustness import disk
from benchmarks.robustness.kills import cases
from streamgp import StreamGPClassifier
from streamgp.errors import (
    CheckpointError,
    ChunkReadError,
    ClusterError,
    ClusterWarning,
    ModelFileError,
    ParameterError,
    StoreError,
    StreamGPError,
)
from streamgp.kernels import RBF
from streamgp.passes import workers
from streamgp.passes.sites import SiteSweep
from streamgp.training.plan import divide

QUICK = {
    "selection": "ivm",
    "n_active": 15,
    "random_state": 0,
    "kernel": RBF(1.0, 1.0),
    "learn_hyperparameters": False,
}


@pytest.fixture
def store(generator, make_store):
    X = generator.standard_normal((600, 3))
    return make_store(X, (X[:, 0] > 0).astype(np.int64), chunk_rows=60)


def same_model(one, other):
    first, second = one.model_.to_record(), other.model_.to_record()
    assert first[0] == second[0]
    for name, array in first[1].items():
        np.testing.assert_array_equal(array, second[1][name], err_msg=name)


FULL = """
import json, resource, sys
from pathlib import Path
import streamgp
from benchmarks.robustness import disk
from benchmarks.robustness.kills import cases
from streamgp import StreamGPClassifier
from streamgp.kernels import RBF

store, folder = sys.argv[1], Path(sys.argv[2])
quick = {"selection": "ivm", "n_active": 15, "random_state": 0, "kernel": RBF(1.0, 1.0)}
quick["learn_hyperparameters"] = False
model = StreamGPClassifier(**quick).fit_stream(store)
model.save(folder / "model.zip")
before = (folder / "model.zip").read_bytes()
whole = StreamGPClassifier(**quick, inference="fitc", checkpoint=folder / "whole").fit_stream(store)
works = {
    "save": lambda: model.save(folder / "model.zip"),
    "predict_stream": lambda: model.predict_stream(store, folder / "out.zarr"),
    "checkpoint": lambda: StreamGPClassifier(**quick, checkpoint=folder / "steps").fit_stream(store),
    "scratch": lambda: StreamGPClassifier(**quick, inference="fitc", scratch=folder /
    "sites").fit_stream(store), "sites beside a checkpoint": lambda: StreamGPClassifier(
        **quick, inference="fitc", checkpoint=folder / "both"
    ).fit_stream(store),
}
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
found = {}
for name, work in works.items():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # a write beyond fails, as on a disk that is full
    try:
        work()
    except Exception as error:
        found[name] = f"{type(error).__name__}: {error}"
    else:
        found[name] = None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
found["old model is whole"] = (folder / "model.zip").read_bytes() == before
streamgp.load(folder / "model.zip")
for name, work in works.items():
    work()  # with room again
found["left"] = sorted(path.name for path in folder.iterdir())
print(json.dumps(found))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="sizes of files are limited as Linux does")
def test_a_full_disk_is_told_and_loses_nothing(store, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(store), str(folder)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    left = found.pop("left")
    assert found.pop("old model is whole")
    assert all(told is not None and "File too large" in told for told in found.values()), found
    assert left == ["both", "model.zip", "out.zarr", "sites", "steps", "whole"]
    assert list((folder / "sites").iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="/proc takes no files, not even from root")
def test_folders_that_cannot_be_written_are_told_by_name(store, tmp_path):
    model = StreamGPClassifier(**QUICK).fit_stream(store)
    with pytest.raises((ModelFileError, OSError), match="/proc"):
        model.save("/proc/model.zip")
    with pytest.raises(StoreError, match=r"cannot be written to '/proc/out\.zarr'"):
        model.predict_stream(store, "/proc/out.zarr")
    with pytest.raises(CheckpointError, match="cannot be written to '/proc/steps'"):
        StreamGPClassifier(**QUICK, checkpoint="/proc/steps").fit_stream(store)
    with pytest.raises(ParameterError, match=r"cannot be written to '/proc/sites'.*scratch="):
        StreamGPClassifier(**QUICK, inference="fitc", scratch="/proc/sites").fit_stream(store)


class FailingStore(WrapperStore):
    """Fails every so many reads of a chunk, or always those of one."""

    def __init__(self, store, every=0, always=None, reads=None):
        super().__init__(store)
        self.every, self.always, self.reads = every, always, [0] if reads is None else reads

    def _with_store(self, store):
        return type(self)(store, self.every, self.always, self.reads)

    async def get(self, key, prototype, byte_range=None):
        if "/c/" in key:
            self.reads[0] += 1
            if (self.every and self.reads[0] % self.every == 0) or (self.always and self.always in key):
                raise ConnectionError("the connection was reset")
        return await self._store.get(key, prototype, byte_range)


def test_a_store_that_is_slow_or_fails_now_and_then_gives_the_same_model(store):
    expected = StreamGPClassifier(**QUICK).fit_stream(store)
    slow = LatencyStore(LocalStore(store), get_latency=0.001)
    same_model(StreamGPClassifier(**QUICK).fit_stream(slow), expected)
    failing = FailingStore(LocalStore(store), every=7)
    same_model(StreamGPClassifier(**QUICK).fit_stream(failing), expected)
    assert failing.reads[0] > 20


def test_a_store_that_keeps_failing_is_told_with_the_chunk(store):
    group = zarr.open_group(FailingStore(LocalStore(store), always="X/c/7/"), mode="r")
    with pytest.raises(ChunkReadError, match=r"chunk 7 .*ConnectionError: the connection was reset"):
        StreamGPClassifier(**QUICK).fit_stream(group)


def kill(client, address):
    """Have a worker die of a segmentation fault, as distributed's own chaos does, and see it gone."""
    from distributed.chaos import KillWorker

    class KillOne(KillWorker):  # here, so that workers get it by value
        async def setup(self, worker):
            if worker.address == address:
                await super().setup(worker)

    with suppress(OSError):  # it may be gone before it answers
        client.register_plugin(KillOne("10 ms", "segfault"), name=f"kill {address}")
    while address in client.nthreads():
        time.sleep(0.01)


@pytest.mark.filterwarnings("ignore::streamgp.errors.ClusterWarning")
def test_a_worker_that_dies_in_every_pass_does_not_change_the_model(store, monkeypatch):
    from distributed import Client, LocalCluster

    settings = {**QUICK, "selection": "random", "inference": "fitc"}
    expected = StreamGPClassifier(**settings).fit_stream(store)
    whole, killed = workers.Cluster._folded, []

    def folded(self, function, shared, items, merge):
        def dying():
            *first, last = items
            yield from first
            self.client.wait_for_workers(1)
            has = self.client.has_what()
            killed.append(max(has, key=lambda address: len(has[address])))  # results that nobody fetched yet
            kill(self.client, killed[-1])
            yield last

        return whole(self, function, shared, dying(), merge)

    monkeypatch.setattr(workers.Cluster, "_folded", folded)
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1"
    )
    with cluster, Client(cluster, set_as_default=False) as client:
        found = StreamGPClassifier(**settings, client=client).fit_stream(store)
    assert len(set(killed)) == len(killed) > 2
    same_model(found, expected)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are killed as POSIX does")
def test_all_workers_but_one_leave_in_the_middle_of_a_fit(store, monkeypatch):
    from distributed import Client, LocalCluster
    from distributed.core import Status

    settings = {**QUICK, "selection": "random", "inference": "fitc"}
    monkeypatch.setattr(divide, "SPAN_BYTES", 1)
    monkeypatch.setattr(divide, "ROWS_PER_BLOCK", (60,))  # a task for each chunk
    expected = StreamGPClassifier(**settings).fit_stream(store)
    whole, passes = workers.Cluster._folded, []
    three = {"n_workers": 3, "threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    alone = dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})  # nor does the cluster
    with (
        alone,
        LocalCluster(**three, host="127.0.0.1") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):

        def lose():
            nannies = list(cluster.workers.values())
            for nanny in nannies[1:]:
                nanny.status = Status.closing_gracefully  # it starts no other: the machine is gone
                os.kill(nanny.pid, signal.SIGKILL)
            while list(client.nthreads()) != [nannies[0].worker_address]:
                time.sleep(0.01)

        def folded(self, function, shared, items, merge):
            items = list(items)
            passes.append(len(items))

            def losing():
                for place, item in enumerate(items):
                    if len(passes) == 3 and place == len(items) // 2:
                        lose()
                    yield item

            return whole(self, function, shared, losing(), merge)

        monkeypatch.setattr(workers.Cluster, "_folded", folded)
        found = StreamGPClassifier(**settings, client=client).fit_stream(store)
        assert len(client.nthreads()) == 1
    assert passes[2] == 10
    assert len(passes) > 3
    same_model(found, expected)


def test_a_cluster_without_workers_is_told_and_waited_for(store, monkeypatch):
    from distributed import Client, LocalCluster

    here = {"n_workers": 0, "threads_per_worker": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
    monkeypatch.setattr(workers, "_SECONDS_OF_PATIENCE", 0.05)
    with LocalCluster(**here) as cluster, Client(cluster, set_as_default=False) as client:
        told = []

        def heard(message, category, *_):
            told.append(str(message))
            cluster.scale(1)

        with warnings.catch_warnings():
            warnings.simplefilter("always", ClusterWarning)
            monkeypatch.setattr(warnings, "showwarning", heard)
            found = StreamGPClassifier(**QUICK, client=client).fit_stream(store)
    assert "has no workers" in told[0]
    same_model(found, StreamGPClassifier(**QUICK).fit_stream(store))


def test_a_worker_that_dies_while_it_is_set_up_is_not_a_lost_scheduler(store, monkeypatch):
    from distributed import Client, LocalCluster
    from distributed.comm import CommClosedError

    here = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**here) as cluster, Client(cluster, set_as_default=False) as client:
        whole, told = cluster.scheduler.broadcast, []

        async def broadcast(*, msg, **options):
            if msg["op"] == "plugin-add":
                told.append(msg["name"])
                if len(told) < 3:
                    raise CommClosedError("the worker died")
            return await whole(msg=msg, **options)

        monkeypatch.setattr(cluster.scheduler, "broadcast", broadcast)
        found = StreamGPClassifier(**QUICK, client=client).fit_stream(store)
        StreamGPClassifier(**QUICK, client=client).fit_stream(store)
        assert len(told) == 3  # twice in vain; not again for other passes and fits
        monkeypatch.setattr(workers, "_SETUP_ATTEMPTS", 2)
        cluster.scheduler.worker_plugins.clear()
        told.clear()
        with pytest.raises(ClusterError, match=r"die before they can be set up .* look at their logs"):
            StreamGPClassifier(**QUICK, client=client).fit_stream(store)
    same_model(found, StreamGPClassifier(**QUICK).fit_stream(store))


@pytest.mark.filterwarnings("ignore::streamgp.errors.ClusterWarning")
def test_a_scheduler_that_is_lost_is_told_and_the_fit_goes_on_with_another(store, tmp_path, monkeypatch):
    from distributed import Client, LocalCluster

    here = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
    settings = {**QUICK, "inference": "fitc", "checkpoint": tmp_path / "steps"}
    expected = StreamGPClassifier(**{**settings, "checkpoint": None}).fit_stream(store)
    lost = LocalCluster(**here)
    client = Client(lost, set_as_default=False, timeout=1)

    def visit(self, block):  # in the middle of a pass: nobody hears what this task finds
        lost.sync(lost.scheduler.close)
        raise RuntimeError("nobody hears it")

    with monkeypatch.context() as patched:
        patched.setattr(SiteSweep, "visit", visit)
        with pytest.raises(ClusterError, match=r"scheduler of the cluster was lost .* same checkpoint="):
            StreamGPClassifier(**settings, client=client).fit_stream(store)
    client.close()
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):  # its scheduler does not answer
        lost.close()
    with LocalCluster(**here) as other, Client(other, set_as_default=False) as client:
        found = StreamGPClassifier(**settings, client=client).fit_stream(store)
    same_model(found, expected)


@pytest.mark.skipif(not disk.can_mount(), reason="file systems cannot be mounted here")
def test_a_file_system_that_is_full_at_some_write_loses_nothing(tmp_path):
    every = {case.name: case for case in cases(tmp_path, 400)}
    for name in ("not learned", "save", "predict_stream", "scratch"):
        row = disk.measure(every[name], tmp_path, 4)
        assert row["full"] > 0, row
        assert (row["misled"], row["different"]) == (0, 0), row


@pytest.mark.skipif(not disk.can_mount(), reason="file systems cannot be mounted here")
def test_a_file_system_that_is_read_only_is_told_and_can_be_read_from(store, tmp_path):
    expected = StreamGPClassifier(**QUICK).fit_stream(store)
    place = tmp_path / "still"
    with disk.mounted(place, 2**22):
        shutil.copytree(store, place / "store.zarr")
        disk.make_read_only(place)
        model = StreamGPClassifier(**QUICK).fit_stream(place / "store.zarr")
        same_model(model, expected)
        works = {
            "save": lambda: model.save(place / "model.zip"),
            "save a folder": lambda: model.save(place / "model.zarr"),
            "predict": lambda: model.predict_stream(store, place / "out.zarr"),
            "checkpoint": lambda: StreamGPClassifier(**QUICK, checkpoint=place / "steps").fit_stream(store),
            "sites": lambda: StreamGPClassifier(**QUICK, inference="fitc", scratch=place).fit_stream(store),
            "report": lambda: model.report(place / "report.html"),
        }
        for name, work in works.items():
            with pytest.raises(
                OSError if name in ("save", "save a folder", "report") else StreamGPError
            ) as told:
                work()
            assert "Read-only file system" in str(told.value), name
            assert str(place) in str(told.value), name
        assert [path.name for path in place.iterdir()] == ["store.zarr"]
