"""How near a marginals pass comes to what the machine can do.

    python -m benchmarks.limits.pass_throughput --rows 1000000 --features 50 --active 512

In one run: the float32 GEMM rate and the exp rate of all cores together, bare reading of the store (wall and
CPU), then the pass, with one thread and with all. The limit is

    max(storage wait, (decoding CPU + arithmetic at the measured rates) / cores)

where the arithmetic of a row is 2 p d + 2 d² flops and d exponentials, and the storage wait is what reading
takes beyond its CPU time. Peak memory is taken in processes of their own (``--memory-rows``: several sizes).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zarr
from threadpoolctl import threadpool_limits

from benchmarks.record import add_save_option, record
from streamgp.budget import parse_size, peak_memory
from streamgp.data import Rows, Standardizer, open_rows
from streamgp.inference import Sites, head_from_sites
from streamgp.kernels import RBF
from streamgp.numerics.compilation import compiled
from streamgp.numerics.exponential import fast_exp
from streamgp.passes import Block, PassSettings, Reading, Visitor, run_pass
from streamgp.passes.marginals import TotalMarginals
from streamgp.passes.run import available_threads
from streamgp.posterior import Snapshot
from streamgp.training.plan import Demand, make_plan

CORES = available_threads()


@dataclass(frozen=True)
class CountRows(Visitor[int]):
    """Does nothing with the rows: bare reading."""

    def visit(self, block: Block) -> int:
        """Rows of the block."""
        return block.rows

    def merge(self, earlier: int, later: int) -> int:
        """Rows of both."""
        return earlier + later


def write_features(path: Path, rows: int, features: int, chunk_bytes: int) -> None:
    chunk = min(rows, max(1, chunk_bytes // (4 * features)))
    group = zarr.open_group(path, mode="w")
    array = group.create_array("X", shape=(rows, features), chunks=(chunk, features), dtype="float32")
    for number, start in enumerate(range(0, rows, chunk)):
        block = np.random.default_rng(number).standard_normal((min(chunk, rows - start), features))
        array[start : start + chunk] = block.astype(np.float32)


def make_snapshot(active: int, features: int) -> Snapshot:
    generator = np.random.default_rng(7)
    inputs = generator.standard_normal((active, features))
    kernel = RBF(1.0, float(np.sqrt(features)))
    sites = Sites(np.full(active, 0.5), generator.standard_normal(active))
    snapshot = Snapshot(kernel, inputs, (head_from_sites(kernel.gram(inputs), sites),))
    return snapshot.astype(np.float32)


def best_seconds(work: Callable[[], object], repeats: int) -> float:
    def once() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return min(once() for _ in range(repeats))


def together(work: Callable[[], object], repeats: int) -> float:
    """Seconds in which every core does the work once, at the same time."""
    with threadpool_limits(1), ThreadPoolExecutor(CORES) as pool:
        list(pool.map(lambda _: work(), range(CORES)))
        return best_seconds(lambda: list(pool.map(lambda _: work(), range(CORES))), repeats)


@compiled
def exp_inplace(values: np.ndarray) -> None:
    for i in range(values.size):
        values[i] = fast_exp(values[i])


def gemm_rate(repeats: int) -> float:
    """Flops per second of all cores together, float32."""
    size = 1024
    a, b = (np.random.default_rng(i).random((size, size), np.float32) for i in range(2))
    return CORES * 4 * 2 * size**3 / together(lambda: [a @ b for _ in range(4)], repeats)


def exp_rate(repeats: int) -> float:
    """Exponentials per second of all cores together, float32, on data in cache."""

    def work() -> None:
        values = np.full(64 * 1024, -1.0, np.float32)
        for _ in range(100):
            exp_inplace(values)

    return CORES * 100 * 64 * 1024 / together(work, repeats)


def planned(path: Path, snapshot: Snapshot, budget: str) -> tuple[Rows, PassSettings]:
    rows = open_rows(path, y=None)
    active = len(snapshot.active_inputs)
    plan = make_plan(Demand(rows, snapshot.kernel, active, 1, 4), parse_size(budget), CORES)
    return rows.cut(plan.span_rows), PassSettings(plan.rows_per_block, plan.tasks_in_flight)


def marginals_pass(rows: Rows, snapshot: Snapshot, settings: PassSettings) -> None:
    p = rows.n_features
    reading = Reading(Standardizer(np.zeros(p), np.ones(p)), None, np.dtype(np.float32))
    run_pass(rows, TotalMarginals(), settings, reading=reading, snapshot=snapshot)


def throughput(options: argparse.Namespace, path: Path) -> dict[str, object]:
    snapshot = make_snapshot(options.active, options.features)
    rows, settings = planned(path, snapshot, options.memory_budget)
    one_thread = PassSettings(settings.rows_per_block, 1)

    def read() -> None:
        run_pass(rows, CountRows(), settings)

    read()
    cpu_before = time.process_time()
    read_wall = best_seconds(read, options.repeats)
    read_cpu = (time.process_time() - cpu_before) / options.repeats
    warm = open_rows(np.zeros((settings.rows_per_block, options.features), np.float32), y=None)
    marginals_pass(warm, snapshot, settings)  # compiles
    flops, exps = gemm_rate(options.repeats), exp_rate(options.repeats)
    seconds = best_seconds(lambda: marginals_pass(rows, snapshot, settings), options.repeats)
    alone = best_seconds(lambda: marginals_pass(rows, snapshot, one_thread), 1)
    n, p, d = options.rows, options.features, options.active
    arithmetic = n * ((2 * p * d + 2 * d * d) / flops + d / exps)  # on all cores
    wait = max(0.0, read_wall - read_cpu / CORES)
    limit = max(wait, read_cpu / CORES + arithmetic)
    return {
        "rows": n,
        "features": p,
        "active": d,
        "seconds": round(seconds, 3),
        "limit": round(limit, 3),
        "ratio": round(seconds / limit, 3),
        "one_thread_seconds": round(alone, 3),
        "thread_speedup": round(alone / seconds, 2),
        "threads": settings.tasks_in_flight,
        "gemm_gflops": round(flops / 1e9, 1),
        "exp_gps": round(exps / 1e9, 2),
        "read_wall": round(read_wall, 3),
        "read_cpu": round(read_cpu, 3),
        "rows_per_block": settings.rows_per_block,
        "span_rows": rows.span_rows,
    }


def measure_memory(options: argparse.Namespace, path: Path) -> None:
    """In a process of its own: baseline (a tiny fit), then one pass; prints both peaks."""
    from streamgp import StreamGPClassifier

    generator = np.random.default_rng(0)
    inputs = generator.standard_normal((200, 3))
    StreamGPClassifier(20, random_state=0).fit(inputs, inputs[:, 0] > 0).predict(inputs)
    # From here on the peak counts anew: compiling, where the cache was cold, needs more than any pass.
    Path("/proc/self/clear_refs").write_text("5")
    baseline = peak_memory()
    snapshot = make_snapshot(options.active, options.features)
    rows, settings = planned(path, snapshot, options.memory_budget)
    marginals_pass(rows, snapshot, settings)
    print(json.dumps({"baseline_bytes": baseline, "peak_bytes": peak_memory()}))


def peak_of(options: argparse.Namespace, path: Path) -> dict[str, object]:
    command = [sys.executable, "-m", "benchmarks.limits.pass_throughput", "--measure-memory", str(path)]
    command += ["--features", str(options.features), "--active", str(options.active)]
    command += ["--memory-budget", options.memory_budget]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peaks = json.loads(done.stdout.splitlines()[-1])
    budget = parse_size(options.memory_budget)
    return {
        **peaks,
        "budget_bytes": budget,
        "within_budget": peaks["peak_bytes"] <= peaks["baseline_bytes"] + budget,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--active", type=int, default=512)
    parser.add_argument("--chunk-bytes", type=int, default=8 * 2**20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory-budget", default="512MiB")
    parser.add_argument(
        "--memory-rows", type=int, nargs="*", help="only peak memory, for these numbers of rows"
    )
    parser.add_argument("--folder", type=Path, default=None, help="where the store is written")
    parser.add_argument("--measure-memory", type=Path, default=None, help=argparse.SUPPRESS)
    add_save_option(parser)
    options = parser.parse_args()
    if options.measure_memory is not None:
        measure_memory(options, options.measure_memory)
        return
    folder = Path(tempfile.mkdtemp(prefix="streamgp-bench-", dir=options.folder))
    try:
        results = []
        for rows in options.memory_rows or [options.rows]:
            path = folder / f"{rows}.zarr"
            write_features(path, rows, options.features, options.chunk_bytes)
            os.sync()
            row: dict[str, object] = {"rows": rows, "features": options.features, "active": options.active}
            if not options.memory_rows:
                row = throughput(options, path)
            results.append({**row, **peak_of(options, path)})
            shutil.rmtree(path)
        record("pass_throughput", results, save=not options.no_save)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
