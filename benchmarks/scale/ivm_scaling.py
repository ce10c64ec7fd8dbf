"""Time and peak memory of the IVM against rows n and active rows d.

    python -m benchmarks.scale.ivm_scaling
    python -m benchmarks.scale.ivm_scaling --rows 10000000 --features 20 --active 500 --memory-budget 1GiB

Synthetic stores on disk; every fit in a process of its own, after a tiny one that compiles. With several
``--rows`` or ``--active``, exponents of the training time are fitted by least squares in logarithms: in n at
the largest d (expected 1), in d at the largest n (expected 2). Hyperparameters stay as they are unless
``--learn``: learning works on a sample, so its time is the same for every n.

The share of BLAS is the time that the fit's matrix products alone would take at the rates measured in the
same process, over the fit's time. Counted are, in the precision of passes and on all cores, for every pass
over the rows with a active rows n (2 p a + a²) flops, and for every stage of selection that brings |J|
candidates to b active rows |J| (2 p b + b²) flops; learning and calibration are left out.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.papers.binary import show, warm_up
from benchmarks.record import add_save_option, record
from streamgp import StreamGPClassifier
from streamgp.budget import parse_size, peak_memory
from streamgp.data import synthetic
from streamgp.passes.run import available_threads

SIDE = 1024
COLUMNS = ("rows", "active", "seconds", "fit_bytes", "peak_bytes", "blas_share", "error_percent")


def gemm_rate(dtype: Any, threads: int) -> float:
    """Flops per second of products that run side by side, one on every thread."""
    left, right = (np.random.default_rng(seed).random((SIDE, SIDE)).astype(dtype) for seed in range(2))

    def work(_: int) -> None:
        for _ in range(4):
            left @ right

    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
        seconds = []
        for _ in range(3):
            begun = time.perf_counter()
            list(pool.map(work, range(threads)))
            seconds.append(time.perf_counter() - begun)
    return threads * 4 * 2 * SIDE**3 / min(seconds)


def blas_seconds(model: StreamGPClassifier, n_rows: int) -> float:
    """Time of the fit's matrix products alone, from its history and the measured rates."""
    p = model.n_features_in_
    stages = [
        (entry["n_active"][0], entry["candidates"]) for entry in model.history_ if "candidates" in entry
    ]
    # A refresh of candidates comes before every stage but the first, unless they are all rows anyway.
    passes = [size for size, count in stages[:-1] if count < n_rows]
    pass_flops = sum(n_rows * (2.0 * p * size + float(size) ** 2) for size in passes)
    stage_flops = sum(count * (2.0 * p * size + float(size) ** 2) for size, count in stages)
    return (pass_flops + stage_flops) / gemm_rate(model.model_.snapshot.dtype, available_threads())


def measure(path: Path, options: argparse.Namespace) -> None:
    """In a process of its own: one fit, then its scores on new rows; prints them."""
    warm_up()
    baseline = peak_memory()
    model = StreamGPClassifier(
        options.active[0],
        learn_hyperparameters=options.learn,
        validation=False,
        memory_budget=options.memory_budget,
        random_state=0,
    )
    begun = time.perf_counter()
    model.fit_stream(path)
    seconds = time.perf_counter() - begun
    peak = peak_memory()
    score = model.evaluate_stream(path.parent / "test.zarr")
    result = {
        "seconds": round(seconds, 2),
        "blas_share": round(blas_seconds(model, options.rows[0]) / seconds, 3),
        "baseline_bytes": baseline,
        "peak_bytes": peak,
        "fit_bytes": peak - baseline,
        "within_budget": peak - baseline <= parse_size(options.memory_budget),
        "error_percent": round(100 * score.error, 3),
        "log_loss": round(score.log_loss, 4),
        "precision": str(model.model_.snapshot.dtype),
        "stages": [[entry["stage"], round(entry["seconds"], 2)] for entry in model.history_],
    }
    print(json.dumps(result))


def run(path: Path, rows: int, active: int, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.scale.ivm_scaling", "--measure", str(path)]
    command += ["--rows", str(rows), "--active", str(active), "--memory-budget", options.memory_budget]
    command += ["--learn"] if options.learn else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    measured = json.loads(done.stdout.splitlines()[-1])
    size = {"rows": rows, "features": options.features, "active": active}
    return {**size, "memory_budget": options.memory_budget, **measured}


def exponent(sizes: Sequence[int], results: Sequence[dict[str, Any]]) -> float:
    """Slope of log seconds against log size."""
    seconds = [result["seconds"] for result in results]
    return round(float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]), 3)


def exponents(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Fitted exponents, where there is more than one size."""
    most_active, most_rows = (max(result[name] for result in results) for name in ("active", "rows"))
    by_rows = [result for result in results if result["active"] == most_active]
    by_active = [result for result in results if result["rows"] == most_rows]
    fitted: dict[str, Any] = {}
    if len(by_rows) > 1:
        fitted["exponent_rows"] = exponent([result["rows"] for result in by_rows], by_rows)
        fitted["fit_bytes_ratio"] = round(by_rows[-1]["fit_bytes"] / max(1, by_rows[0]["fit_bytes"]), 3)
    if len(by_active) > 1:
        fitted["exponent_active"] = exponent([result["active"] for result in by_active], by_active)
    return fitted


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[250_000, 500_000, 1_000_000])
    parser.add_argument("--active", type=int, nargs="+", default=[500, 1000, 2000])
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--memory-budget", default="512MiB")
    parser.add_argument("--learn", action="store_true", help="learn hyperparameters too")
    parser.add_argument("--test-rows", type=int, default=20_000)
    parser.add_argument("--folder", type=Path, default=None, help="where the stores are written")
    parser.add_argument("--measure", type=Path, default=None, help=argparse.SUPPRESS)
    add_save_option(parser)
    options = parser.parse_args()
    if options.measure is not None:
        measure(options.measure, options)
        return
    folder = Path(tempfile.mkdtemp(prefix="streamgp-bench-", dir=options.folder))
    try:
        synthetic.write_store(folder / "test.zarr", options.test_rows, options.features, seed=1)
        results = []
        for rows in sorted(options.rows):
            path = folder / f"{rows}.zarr"
            synthetic.write_store(path, rows, options.features)
            # All sizes of d at the largest n only; n is varied at the largest d.
            sizes = sorted(options.active) if rows == max(options.rows) else [max(options.active)]
            for active in sizes:
                results.append(run(path, rows, active, options))
                record("ivm_scaling", results[-1:], save=not options.no_save)
            shutil.rmtree(path)
        if len(results) > 1:
            fitted = exponents(results)
            record("ivm_scaling", [fitted], save=not options.no_save)
            show("fitted exponents of the time (expected 1 and 2)", list(fitted), [fitted])
        show("IVM: time and memory", COLUMNS, results)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
