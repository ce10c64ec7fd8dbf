"""What this machine can do: times of small pieces of work, rates of matrix products and exponentials."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.datasets import Array
from streamgp.numerics.compilation import compiled
from streamgp.numerics.exponential import fast_exp
from streamgp.passes.run import available_threads

CORES = available_threads()
SIDE = 1024
PRODUCTS, EXPONENTIALS = 4, 100 * 64 * 1024


def best_seconds(work: Callable[[], object], repeats: int) -> float:
    """Shortest of several runs, after one that may compile."""
    work()

    def once() -> float:
        begun = perf_counter()
        work()
        return perf_counter() - begun

    return min(once() for _ in range(repeats))


def together(work: Callable[[], object], repeats: int) -> float:
    """Seconds in which every core does the work once, at the same time."""
    with threadpool_limits(1), ThreadPoolExecutor(CORES) as pool:
        return best_seconds(lambda: list(pool.map(lambda _: work(), range(CORES))), repeats)


def gemm_rate(dtype: Any, repeats: int = 3) -> float:
    """Flops per second of matrix products on all cores together."""
    left, right = (np.random.default_rng(seed).random((SIDE, SIDE)).astype(dtype) for seed in range(2))
    seconds = together(lambda: [left @ right for _ in range(PRODUCTS)], repeats)
    return CORES * PRODUCTS * 2 * SIDE**3 / seconds


@compiled
def exp_inplace(values: Array) -> None:
    for i in range(values.size):
        values[i] = fast_exp(values[i])


def exp_rate(repeats: int = 3) -> float:
    """Exponentials per second of all cores together, float32, on data in cache."""

    def work() -> None:
        values = np.full(64 * 1024, -1.0, np.float32)
        for _ in range(EXPONENTIALS // len(values)):
            exp_inplace(values)

    return CORES * EXPONENTIALS / together(work, repeats)
