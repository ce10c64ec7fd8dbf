"""Passes on real clusters and slow stores: workers against threads, workers killed, 64 of them, latency.

    python -m benchmarks.scale.cluster
    python -m benchmarks.scale.cluster --cases many --many-chunks 20000

``workers``: scheduler and workers are processes of their own that talk over TCP, each worker with a memory
limit; one pass of marginals, 1 and 2 of them with one thread each, beside as many threads of this process.
``killed``: a fit of ``--passes`` sweeps on 2 workers, of which one is killed in each pass while two are there
(a new one takes its place in some seconds), beside the same fit undisturbed. ``many``: 64 workers of one
thread and chunks of a few rows; how many tasks the scheduler knew at most. ``latency``: zarr's store that
delays every read; the pass beside waiting alone and computing alone. ``same_bits`` compares with threads.
"""

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from zarr.storage import LocalStore
from zarr.testing.store import LatencyStore

from benchmarks.harness import Options, Rows, Script, defaults, option
from benchmarks.limits.machine import CORES, best_seconds
from benchmarks.limits.pass_throughput import READ, ROWS_PER_BLOCK, small_fit, write_features
from streamgp import StreamGPClassifier
from streamgp.data import open_rows
from streamgp.data.synthetic import write_store
from streamgp.kernels import RBF
from streamgp.passes import Block, PassSettings, Reading, Visitor, run_pass
from streamgp.passes.progress import Progress
from streamgp.passes.run import MOST_TASKS
from streamgp.settings import FITC
from streamgp.training.plan.divide import SPAN_BYTES

WORKER_MEMORY = "1GiB"
MANY = 64


@dataclass(frozen=True)
class Moments(Visitor[float]):
    """Sums of latent means and variances: their bits tell the order of all additions."""

    needs_variance: bool = True

    def visit(self, block: Block) -> float:
        """Those of the block."""
        assert block.marginals is not None
        mean, variance = block.marginals.mean, block.marginals.variance
        return float(np.sum(mean, dtype=np.float64) + np.sum(variance, dtype=np.float64))

    def merge(self, earlier: float, later: float) -> float:
        """Those of both."""
        return earlier + later


def a_pass(path: Any, options: Options, span_rows: int | None = None) -> Callable[..., float]:
    """A pass of marginals over a store, as a function of the number of threads, or of a client.

    Spans are those of a plan that has room, unless they are given.
    """
    model = small_fit(options)
    snapshot, stored = model.model_.snapshot, open_rows(path, y=None)
    rows = stored.cut(span_rows or SPAN_BYTES // stored.row_bytes())
    reading = Reading(model.model_.standardizer, None, snapshot.dtype)

    def run(threads: int, client: Any = None, ahead: int = 0) -> float:
        settings = PassSettings(ROWS_PER_BLOCK, threads, client, False, ahead)
        return run_pass(rows, Moments(), settings, reading=reading, snapshot=snapshot)

    return run


@contextmanager
def processes(n_workers: int) -> Iterator[tuple[Any, Any]]:
    """A scheduler and workers in processes of their own: the client, and the cluster."""
    from distributed import Client
    from distributed.deploy.subprocess import SubprocessCluster

    # Messages of the scheduler go into a pipe that nobody reads: full of them, it would wait for ever.
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "warning")
    limits = {"memory_limit": WORKER_MEMORY}
    with (
        SubprocessCluster(
            n_workers=n_workers, threads_per_worker=1, worker_kwargs=limits, dashboard_address=None
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(n_workers)
        yield client, cluster


def workers(folder: Path, options: Options) -> Rows:
    """1 and 2 worker processes beside as many threads."""
    path = folder / "features.zarr"
    write_features(path, options.rows, options)
    run = a_pass(path, options)
    wanted, alone = run(1), {}
    for count in (1, 2):
        threads = best_seconds(lambda count=count: run(count), options.repeats)
        with processes(count) as (client, _):
            same = run(1, client) == wanted
            there = best_seconds(lambda client=client: run(1, client), options.repeats)
        alone[count] = there
        yield {
            "case": "workers",
            "rows": options.rows,
            "workers": count,
            "seconds": round(there, 3),
            "thread_seconds": round(threads, 3),
            "against_threads": round(there / threads, 3),
            "speedup": round(alone[1] / there, 2),
            "same_bits": same,
        }


def killed(folder: Path, options: Options) -> Rows:
    """One worker killed in every pass of a fit."""
    path = folder / "fit.zarr"
    write_store(path, n_rows=options.fit_rows, n_features=10, chunk_rows=options.fit_rows // 40)

    def fitted(client: Any = None, progress: Any = False) -> StreamGPClassifier:
        return StreamGPClassifier(
            options.active,
            selection="random",
            inference=FITC(1.0, 1.0, tolerance=1e-12, most_sweeps=options.passes),
            kernel=RBF(4.0, 3.0),
            learn_hyperparameters=False,
            random_state=0,
            progress=progress,
            client=client,
        ).fit_stream(path)

    here = fitted()
    rows = np.random.default_rng(0).standard_normal((100, here.n_features_in_))
    with processes(2) as (client, _):
        fitted(client)  # every worker has compiled and imported what it needs
        begun = time.perf_counter()
        fitted(client)
        undisturbed = time.perf_counter() - begun
        killer = Killer(undisturbed / (3 * options.passes + 9))
        begun = time.perf_counter()
        there = fitted(client, killer)
        seconds = time.perf_counter() - begun
        same = np.array_equal(here.predict_proba(rows), there.set_params(client=None).predict_proba(rows))
    yield {
        "case": "killed",
        "rows": options.fit_rows,
        "workers": 2,
        "passes": killer.passes,
        "kills": killer.kills,
        "seconds": round(seconds, 1),
        "undisturbed_seconds": round(undisturbed, 1),
        "ratio": round(seconds / undisturbed, 2),
        "same_bits": same,
    }


class Killer(Progress):
    """Kills a worker in every pass, a third into it, where two are at work; counts passes and kills."""

    def __init__(self, pause: float) -> None:
        super().__init__(False)
        self.pause, self.kills, self.passes = pause, 0, 0

    @contextmanager
    def passing(self, rows: int, label: str) -> Iterator[Callable[[int], None]]:
        """As of any pass."""
        self.passes += 1
        timer = threading.Timer(self.pause, self._kill)
        timer.start()
        with super().passing(rows, label) as advance:
            yield advance
        timer.cancel()
        timer.join()

    def _kill(self) -> None:
        found = psutil.Process().children(recursive=True)
        with suppress(psutil.Error):  # while processes come and go
            # A nanny starts its worker by multiprocessing; workers at work have had time for their imports.
            spawned = [each for each in found if "spawn_main" in " ".join(each.cmdline())]
            ready = sorted(each.pid for each in spawned if sum(each.cpu_times()[:2]) > 1.0)
            if len(ready) > 1:
                os.kill(ready[self.kills % len(ready)], signal.SIGKILL)
                self.kills += 1


def many(folder: Path, options: Options) -> Rows:
    """64 workers and tiny chunks: what the scheduler holds, and how long a pass takes."""
    from distributed import Client, LocalCluster

    for chunks in (options.many_chunks // 8, options.many_chunks):
        rows = chunks * options.many_rows
        path = folder / f"many{chunks}.zarr"
        small = type(options)(**{**vars(options), "features": 4, "active": 16})
        small.chunk_bytes = 4 * 4 * options.many_rows
        write_features(path, rows, small)
        run = a_pass(path, small, options.many_rows)
        wanted = run(2)
        here = best_seconds(lambda run=run: run(2), 1)
        with (
            LocalCluster(
                n_workers=MANY, threads_per_worker=1, processes=False, memory_limit=0, dashboard_address=None
            ) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            run(1, client)
            with watching(cluster.scheduler) as most:
                begun = time.perf_counter()
                same = run(1, client) == wanted
                seconds = time.perf_counter() - begun
        yield {
            "case": "many",
            "rows": rows,
            "chunks": chunks,
            "workers": MANY,
            "tasks": min(chunks, -(-chunks // -(-chunks // MOST_TASKS))),
            "most_tasks_known": most[0],
            "seconds": round(seconds, 2),
            "thread_seconds": round(here, 2),
            "same_bits": same,
        }


@contextmanager
def watching(scheduler: Any) -> Iterator[list[int]]:
    """The most tasks that a scheduler knew meanwhile, as the only element of a list."""
    most, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            most[0] = max(most[0], len(scheduler.tasks))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()


def latency(folder: Path, options: Options) -> Rows:
    """A store that delays every read by about what computing with a chunk takes, and by a third of that."""
    path = folder / "slow.zarr"
    write_features(path, options.rows, options)
    chunk_rows = open_rows(path, y=None).features.chunk_rows
    computing_pass = a_pass(path, options, chunk_rows)
    computing = best_seconds(lambda: computing_pass(CORES, None, CORES), options.repeats)
    chunks = open_rows(path, y=None).cut(chunk_rows).n_spans
    for share in (1.0, 1 / 3):
        delay = share * computing * CORES / chunks
        slow = LatencyStore(LocalStore(path), get_latency=delay)
        rows = open_rows(slow, y=None).cut(chunk_rows)
        waiting = best_seconds(lambda rows=rows: run_pass(rows, READ, PassSettings(ROWS_PER_BLOCK, CORES)), 1)
        run = a_pass(slow, options, chunk_rows)
        without = best_seconds(lambda run=run: run(CORES), options.repeats)
        seconds = best_seconds(lambda run=run: run(CORES, None, CORES), options.repeats)
        yield {
            "case": "latency",
            "rows": options.rows,
            "delay": round(delay, 4),
            "waiting_seconds": round(waiting, 3),
            "computing_seconds": round(computing, 3),
            "seconds": round(seconds, 3),
            "not_ahead_seconds": round(without, 3),
            "ratio": round(seconds / max(waiting, computing), 3),
        }


CASES = {"workers": workers, "killed": killed, "many": many, "latency": latency}


def rows(options: Options) -> Rows:
    for case in options.cases:
        with tempfile.TemporaryDirectory(prefix="streamgp-bench-", dir=options.folder) as name:
            yield from CASES[case](Path(name), options)


OPTIONS = (
    option("--cases", list(CASES), "which of them", choices=list(CASES)),
    option("--folder", None, "where the stores are written"),
    *defaults(rows=1_000_000, features=50, active=512, fit_rows=200_000, passes=20),
    *defaults(many_chunks=8000, many_rows=50, chunk_bytes=2 * 2**20, repeats=2, memory_budget="512MiB"),
)
SCRIPT = Script("cluster", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
