"""How near a pass over a store comes to what the machine can do: ``ratio`` is its time over the limit.

    python -m benchmarks.limits.pass_throughput --rows 1000000 --features 50 --active 512

In one run: the float32 GEMM rate and the exp rate of all cores together, bare reading of the store (wall and
CPU), then the pass of marginals, with one thread and with all. The limit is

    max(storage wait, (decoding CPU + arithmetic at the measured rates) / cores)

where the arithmetic of a row is 2 p d + 2 d² flops and d exponentials, and the storage wait is what reading
takes beyond its CPU time. Tasks read a storage chunk each and go through it in blocks of 2048 rows, as the
library plans it where memory is enough. Peak memory is that of ``predict_stream`` inside ``--memory-budget``,
in processes of their own (``--memory-rows``: several sizes).
"""

import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import zarr

from benchmarks.harness import Options, Row, Rows, Script, defaults, in_own_process, option, timed
from benchmarks.limits.machine import CORES, best_seconds, exp_rate, gemm_rate
from streamgp import StreamGPClassifier
from streamgp.budget import parse_size
from streamgp.data import Rows as StoredRows
from streamgp.data import open_rows
from streamgp.kernels import RBF
from streamgp.passes import Block, PassSettings, Reading, Visitor, run_pass
from streamgp.settings import ADF


@dataclass(frozen=True)
class Count(Visitor[int]):
    """Does nothing with the rows, nor with their marginals where the pass has a model."""

    needs_variance: bool = False

    def visit(self, block: Block) -> int:
        """Rows of the block."""
        return block.rows

    def merge(self, earlier: int, later: int) -> int:
        """Rows of both."""
        return earlier + later


READ, MARGINALS = Count(), Count(needs_variance=True)
ROWS_PER_BLOCK = 2048


def write_features(path: Path, rows: int, options: Options) -> None:
    chunk = min(rows, max(1, options.chunk_bytes // (4 * options.features)))
    shape = (rows, options.features)
    array = zarr.open_group(path, mode="w").create_array(
        "X", shape=shape, chunks=(chunk, options.features), dtype="float32"
    )
    for number, start in enumerate(range(0, rows, chunk)):
        block = np.random.default_rng(number).standard_normal((min(chunk, rows - start), options.features))
        array[start : start + chunk] = block.astype(np.float32)
    os.sync()


def small_fit(options: Options) -> StreamGPClassifier:
    """A model of so many active rows; what it has learned does not change what a pass costs."""
    inputs = np.random.default_rng(7).standard_normal((2 * options.active, options.features))
    return StreamGPClassifier(
        options.active,
        selection="random",
        inference=ADF(calibrate=False),
        kernel=RBF(1.0, float(np.sqrt(options.features))),
        learn_hyperparameters=False,
        standardize=False,
        validation=False,
        precision="float32",
        memory_budget=options.memory_budget,
        random_state=0,
    ).fit(inputs, inputs[:, 0] > 0)


class Rates(NamedTuple):
    """Flops of float32 products and exponentials a second, of all cores together."""

    flops: float
    exps: float


class ReadingTime(NamedTuple):
    """Seconds of a pass that does nothing but read, and those of its cores."""

    wall: float
    cpu: float


def bare_reading(rows: StoredRows, repeats: int) -> ReadingTime:
    """Of all spans, read once before."""
    settings = PassSettings(ROWS_PER_BLOCK, CORES)
    run_pass(rows, READ, settings)
    cpu_before = time.process_time()
    wall = best_seconds(lambda: run_pass(rows, READ, settings), repeats)
    return ReadingTime(wall, (time.process_time() - cpu_before) / (repeats + 1))


def limit_seconds(
    rows: StoredRows, active: int, reading: ReadingTime, rates: Rates, *, triangle: bool = False
) -> float:
    """The limit of a pass of marginals, see above; ``triangle``: with d² flops, not 2 d²."""
    n, p, d = rows.n_rows, rows.n_features, active
    squares = (1 if triangle else 2) * d * d
    arithmetic = n * ((2 * p * d + squares) / rates.flops + d / rates.exps)
    wait = max(0.0, reading.wall - reading.cpu / CORES)
    return max(wait, reading.cpu / CORES + arithmetic)


def throughput(path: Path, options: Options) -> Row:
    """Times of reading, of the pass, and of its arithmetic alone."""
    model = small_fit(options)
    snapshot = model.model_.snapshot
    reading = Reading(model.model_.standardizer, None, snapshot.dtype)
    stored = open_rows(path, y=None)
    rows, settings = stored.cut(stored.features.chunk_rows), PassSettings(ROWS_PER_BLOCK, CORES)

    def marginals(threads: int) -> int:
        own = replace(settings, tasks_in_flight=threads)
        return run_pass(rows, MARGINALS, own, reading=reading, snapshot=snapshot)

    reading_alone = bare_reading(rows, options.repeats)
    rates = Rates(gemm_rate(np.float32, options.repeats), exp_rate(options.repeats))
    seconds = best_seconds(lambda: marginals(CORES), options.repeats)
    alone = best_seconds(lambda: marginals(1), 1)
    limit = limit_seconds(rows, options.active, reading_alone, rates)
    return {
        "seconds": round(seconds, 3),
        "limit": round(limit, 3),
        "ratio": round(seconds / limit, 3),
        "one_thread_seconds": round(alone, 3),
        "thread_speedup": round(alone / seconds, 2),
        "threads": settings.tasks_in_flight,
        "gemm_gflops": round(rates.flops / 1e9, 1),
        "exp_gps": round(rates.exps / 1e9, 2),
        "read_wall": round(reading_alone.wall, 3),
        "read_cpu": round(reading_alone.cpu, 3),
        "rows_per_block": settings.rows_per_block,
        "span_rows": rows.span_rows,
    }


def peaks(path: Path, options: Options) -> Row:
    """In a process of its own: memory before a pass of predictions, and at most during it."""
    model = small_fit(options)
    model.predict_proba(np.zeros((1, options.features)))  # compiling needs more than any pass
    cost = timed(lambda: model.predict_stream(path, path.parent / "predictions.zarr"))
    peak, budget = cost["peak_bytes"], parse_size(options.memory_budget)
    told = {"baseline_bytes": peak - cost["fit_bytes"], "peak_bytes": peak, "budget_bytes": budget}
    return {**told, "within_budget": cost["fit_bytes"] <= budget}


def rows(options: Options) -> Rows:
    for n_rows in options.memory_rows or [options.rows]:
        with tempfile.TemporaryDirectory(prefix="streamgp-bench-", dir=options.folder) as folder:
            path = Path(folder) / "features.zarr"
            write_features(path, n_rows, options)
            row = {"rows": n_rows, "features": options.features, "active": options.active}
            times = {} if options.memory_rows else throughput(path, options)
            yield {**row, **times, **in_own_process(peaks, path, options)}


OPTIONS = (
    option("--memory-rows", None, "only peak memory, for these numbers of rows", type=int, nargs="*"),
    option("--folder", None, "where the store is written"),
    *defaults(rows=1_000_000, features=50, active=512, memory_budget="512MiB"),
    *defaults(chunk_bytes=8 * 2**20, repeats=3),
)
SCRIPT = Script("pass_throughput", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
