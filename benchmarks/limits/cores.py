"""What more threads bring: rows a second of a scoring pass, compiled kernels, BLAS and reading, each alone.

    python -m benchmarks.limits.cores --rows 400000 --threads 1 2

``rows_per_second`` of each at every number of threads, and ``efficiency``: their ratio to one thread, over
the threads. ``scoring`` is a whole pass (reading, kernel block, marginals) with the library's own threads,
the others do one of its parts in threads of Python. ``two fits``: two fits in one process at the same time,
``efficiency`` is the time of both one after the other over the time of both together, over two.
"""

import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.harness import Options, Rows, Script, defaults, option
from benchmarks.limits.machine import best_seconds
from benchmarks.limits.pass_throughput import MARGINALS, READ, ROWS_PER_BLOCK, small_fit, write_features
from streamgp import StreamGPClassifier
from streamgp.data import open_rows
from streamgp.kernels import RBF
from streamgp.numerics.kernel_sweeps import RBF as RBF_FAMILY
from streamgp.numerics.kernel_sweeps import stationary_tile
from streamgp.passes import PassSettings, Reading, run_pass
from streamgp.passes.blas import single_threaded_blas
from streamgp.passes.run import limited_threads


def side_by_side(work: Callable[[], object], threads: int, blocks: int, repeats: int) -> float:
    """Seconds in which so many threads do the work for all blocks."""

    def all_blocks() -> None:
        with single_threaded_blas(), ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda _: work(), range(blocks)))

    return best_seconds(all_blocks, repeats)


def parts(options: Options) -> dict[str, Callable[[], object]]:
    """Work on one block of rows: the compiled sweep of a kernel, and matrix products of BLAS."""
    generator = np.random.default_rng(0)
    local = threading.local()
    left = generator.standard_normal((ROWS_PER_BLOCK, options.features)).astype(np.float32)
    right = generator.standard_normal((options.features, options.active)).astype(np.float32)
    halves = np.ones(ROWS_PER_BLOCK, np.float32), np.ones(options.active, np.float32)

    def block() -> np.ndarray:
        if not hasattr(local, "block"):
            local.block = np.zeros((ROWS_PER_BLOCK, options.active), np.float32)
        return local.block

    return {
        "kernel sweep": lambda: stationary_tile(block(), *halves, RBF_FAMILY, 1.0),
        "BLAS": lambda: np.matmul(left, right, out=block()),
    }


def fit(options: Options, seed: int) -> StreamGPClassifier:
    """A small fit with every kind of work in it."""
    X = np.random.default_rng(seed).standard_normal((options.fit_rows, 8)).astype(np.float32)
    model = StreamGPClassifier(
        200,
        selection="ivm",
        kernel=RBF(1.0, 3.0),
        learn_hyperparameters=False,
        random_state=0,
        progress=False,
    )
    return model.fit(X, X[:, 0] > X[:, 1] ** 2)


def rows(options: Options) -> Rows:
    found: dict[str, dict[int, float]] = {}
    with tempfile.TemporaryDirectory(prefix="streamgp-bench-", dir=options.folder) as folder:
        path = Path(folder) / "features.zarr"
        write_features(path, options.rows, options)
        model, stored = small_fit(options), open_rows(path, y=None)
        snapshot, cut = model.model_.snapshot, stored.cut(stored.features.chunk_rows)
        reading = Reading(model.model_.standardizer, None, snapshot.dtype)
        blocks = options.rows // ROWS_PER_BLOCK
        for threads in options.threads:
            settings = PassSettings(ROWS_PER_BLOCK, threads)
            times = {
                "scoring": best_seconds(
                    lambda s=settings: run_pass(cut, MARGINALS, s, reading=reading, snapshot=snapshot),
                    options.repeats,
                ),
                "reading": best_seconds(lambda s=settings: run_pass(cut, READ, s), options.repeats),
                **{
                    name: side_by_side(work, threads, blocks, options.repeats)
                    for name, work in parts(options).items()
                },
            }
            for name, seconds in times.items():
                found.setdefault(name, {})[threads] = seconds
                first = found[name][options.threads[0]] * options.threads[0]
                yield {
                    "what": name,
                    "threads": threads,
                    "rows": options.rows,
                    "seconds": round(seconds, 4),
                    "rows_per_second": round(options.rows / seconds),
                    "efficiency": round(first / (seconds * threads), 3),
                }
    yield two_fits(options)


def two_fits(options: Options) -> dict[str, object]:
    """Two fits in one process, one after the other and together, one thread each."""

    def one(seed: int) -> None:
        with limited_threads(1):
            fit(options, seed)

    one(0)
    begun = time.perf_counter()
    one(0), one(1)
    apart = time.perf_counter() - begun
    begun = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, (0, 1)))
    together = time.perf_counter() - begun
    return {
        "what": "two fits",
        "threads": 2,
        "rows": options.fit_rows,
        "seconds": round(together, 3),
        "apart_seconds": round(apart, 3),
        "efficiency": round(apart / together / 2, 3),
    }


OPTIONS = (
    option("--folder", None, "where the store is written"),
    *defaults(rows=400_000, features=50, active=512, threads=[1, 2], fit_rows=40_000),
    *defaults(chunk_bytes=2 * 2**20, repeats=2, memory_budget="512MiB"),
)
SCRIPT = Script("cores", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
