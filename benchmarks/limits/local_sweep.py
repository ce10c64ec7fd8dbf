"""The steps of local blocks as multiples of b² + b m + m² multiply-adds a row at the matrix product's rate.

``python -m benchmarks.limits.local_sweep`` prints one JSON line for each precision, on one thread. All times
are CPU seconds of a block of b rows, so that what else runs on the machine matters little.

prior_ratio      W and R of the block: kernel blocks, whitening, R = K − W Wᵀ; always in float64
sweep_ratio      one EP sweep with the prior at hand: both factors, marginals, update, moments
whole_ratio      prior and sweep: what a pass over a block store costs that holds no priors
exact_ratio      sites, factor and moments under Gaussian noise, prior included
gradient_ratio   evidence and its gradient, prior included; float64
predict_ratio    mean and variance of as many new rows by the block's head; float64
threads_speedup  two threads with a block each against one after the other, in wall time (2 is perfect)
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.record import add_save_option, record
from streamgp.inference.inducing.basis import make_basis
from streamgp.inference.inducing.posterior import prior_posterior
from streamgp.inference.inducing.sweep import flat_sites
from streamgp.inference.local.prediction import block_head, predict_block
from streamgp.inference.local.prior import block_prior
from streamgp.inference.local.slopes import evidence_block
from streamgp.inference.local.sweep import exact_block, sweep_block
from streamgp.inference.local.workspace import Workspace
from streamgp.kernels import RBF
from streamgp.likelihoods import Gaussian, Probit


def cpu_seconds(work: Callable[[], Any], repeats: int) -> float:
    """Least CPU time of several runs, after one that may compile."""
    work()
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def wall_seconds(work: Callable[[], Any], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def measured(dtype: type, options: argparse.Namespace) -> dict[str, Any]:
    b, p, m, repeats = options.rows, options.features, options.inducing, options.repeats
    generator = np.random.default_rng(0)
    X = generator.standard_normal((b, p))
    # Two classes with a wide border: a third of the rows has a site that is all but flat.
    y = np.where(X @ generator.standard_normal(p) + 0.5 * generator.standard_normal(b) > 0.0, 1.0, -1.0)
    basis = make_basis(RBF(10.0, float(np.sqrt(p))), generator.standard_normal((m, p)))
    new = generator.standard_normal((b, p))

    prior = block_prior(basis, X)
    posterior, sites = prior_posterior(m), flat_sites(b)
    for _ in range(6):
        sites, _, sums = sweep_block(prior, posterior, y, Probit(), sites, 0.8)
        posterior = sums.sums.posterior()
    streaming = posterior.astype(dtype)
    head = block_head(basis, posterior, X, sites)

    rooms = [Workspace(), Workspace()]

    def sweep(room: Workspace = rooms[0]) -> object:
        return sweep_block(prior, streaming, y, Probit(), sites, 0.8, room=room)

    left, right = np.ones((b, m), dtype), np.ones((m, m), dtype)
    rate = 2.0 * b * m * m / cpu_seconds(lambda: left @ right, repeats)
    unit = 2.0 * b * (b * b + b * m + m * m) / rate
    one = cpu_seconds(sweep, repeats)
    of_prior = cpu_seconds(lambda: block_prior(basis, X, rooms[0]), repeats)
    exact = cpu_seconds(lambda: exact_block(prior, y, Gaussian(0.1), dtype=dtype, room=rooms[0]), repeats)
    gradient = cpu_seconds(lambda: evidence_block(basis, prior, posterior, X, y, Probit(), sites), repeats)
    predict = cpu_seconds(lambda: predict_block(basis, posterior, head, new), repeats)
    with ThreadPoolExecutor(2) as pool:
        pair = wall_seconds(lambda: list(pool.map(sweep, rooms)), repeats)
    return {
        "rows": b,
        "features": p,
        "inducing": m,
        "dtype": np.dtype(dtype).name,
        "gemm_gflops": rate / 1e9,
        "prior_ratio": of_prior / unit,
        "sweep_ratio": one / unit,
        "whole_ratio": (of_prior + one) / unit,
        "sweep_seconds_per_million_rows": (of_prior + one) / b * 1e6,
        "exact_ratio": (of_prior + exact) / unit,
        "gradient_ratio": (of_prior + gradient) / unit,
        "predict_ratio": predict / unit,
        "threads_speedup": 2.0 * wall_seconds(sweep, repeats) / pair,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--inducing", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=9)
    add_save_option(parser)
    options = parser.parse_args()
    with threadpool_limits(1):
        for dtype in (np.float64, np.float32):
            record("local_sweep", [measured(dtype, options)], save=not options.no_save)


if __name__ == "__main__":
    main()
