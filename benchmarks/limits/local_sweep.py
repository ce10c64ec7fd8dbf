"""Steps of local blocks as multiples of b² + b m + m² multiply-adds a row at the matrix product's rate.

    python -m benchmarks.limits.local_sweep

One row for each shape and precision, on one thread. Times are CPU seconds of a block of b rows, so that what
else runs on the machine matters little.

prior_ratio     W and R of the block: kernel blocks, whitening, R = K − W Wᵀ; always in float64
sweep_ratio     one EP sweep with the prior at hand: both factors, marginals, update, moments
held_ratio      the same from the end of the last one: all but the first where memory holds blocks
whole_ratio     prior and sweep: what a pass over a block store costs that holds no priors
exact_ratio     prior, sites, factor and moments under Gaussian noise
gradient_ratio  prior, evidence and its gradient; always in float64
predict_ratio   mean and variance of as many new rows by the block's head; always in float64
overlap         two sweeps one after the other over two at once, in wall time: 2 where no thread waits
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import process_time

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.harness import Options, Row, Rows, Script, defaults
from benchmarks.limits.machine import best_seconds
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

PRECISIONS = (np.float64, np.float32)
DAMPING, SWEEPS = 0.8, 6


def cpu_seconds(work: Callable[[], object], repeats: int) -> float:
    """Least CPU time of several runs, after one that may compile."""
    work()

    def once() -> float:
        begun = process_time()
        work()
        return process_time() - begun

    return min(once() for _ in range(repeats))


def sweep_row(b: int, m: int, dtype: type, options: Options) -> Row:
    p, repeats = options.features, options.repeats
    generator = np.random.default_rng(0)
    X, new = generator.standard_normal((2, b, p))
    y = np.where(X @ generator.standard_normal(p) + 0.5 * generator.standard_normal(b) > 0.0, 1.0, -1.0)
    basis = make_basis(RBF(10.0, float(np.sqrt(p))), generator.standard_normal((m, p)))
    prior, posterior, sites = block_prior(basis, X), prior_posterior(m), flat_sites(b)
    for _ in range(SWEEPS):
        sites, _, sums, *_ = sweep_block(prior, posterior, y, Probit(), sites, DAMPING)
        posterior = sums.sums.posterior()
    last = sweep_block(prior, posterior.astype(dtype), y, Probit(), sites, DAMPING)
    streaming, head = posterior.astype(dtype), block_head(basis, posterior, X, sites)
    rooms = (Workspace(), Workspace())

    def sweep(room: Workspace = rooms[0]) -> object:
        return sweep_block(prior, streaming, y, Probit(), sites, DAMPING, room=room)

    left, right = np.ones((b, m), dtype), np.ones((m, m), dtype)
    gemm = 2.0 * b * m * m / cpu_seconds(lambda: left @ right, repeats)
    unit = 2.0 * b * (b * b + b * m + m * m) / gemm
    work: dict[str, Callable[[], object]] = {
        "prior": lambda: block_prior(basis, X, rooms[0]),
        "sweep": sweep,
        "held": lambda: sweep_block(
            prior, streaming, y, Probit(), last.sites, DAMPING, start=last.end, room=rooms[0]
        ),
        "exact": lambda: exact_block(prior, y, Gaussian(0.1), dtype=dtype, room=rooms[1]),
        "gradient": lambda: evidence_block(basis, prior, posterior, X, y, Probit(), sites),
        "predict": lambda: predict_block(basis, posterior, head, new),
    }
    seconds = {name: cpu_seconds(one, repeats) for name, one in work.items()}
    with ThreadPoolExecutor(2) as pool:
        pair = best_seconds(lambda: list(pool.map(sweep, rooms)), repeats)
    return {
        "rows": b,
        "features": p,
        "inducing": m,
        "dtype": np.dtype(dtype).name,
        "gemm_gflops": gemm / 1e9,
        "prior_ratio": seconds["prior"] / unit,
        "sweep_ratio": seconds["sweep"] / unit,
        "held_ratio": seconds["held"] / unit,
        "whole_ratio": (seconds["prior"] + seconds["sweep"]) / unit,
        "exact_ratio": (seconds["prior"] + seconds["exact"]) / unit,
        "gradient_ratio": (seconds["prior"] + seconds["gradient"]) / unit,
        "predict_ratio": seconds["predict"] / unit,
        "microseconds_a_row": (seconds["prior"] + seconds["sweep"]) / b * 1e6,
        "overlap": 2.0 * best_seconds(sweep, repeats) / pair,
    }


def rows(options: Options) -> Rows:
    with threadpool_limits(1):
        for b in options.rows:
            for m in options.inducing:
                for dtype in PRECISIONS:
                    yield sweep_row(b, m, dtype, options)


OPTIONS = defaults(rows=[500, 1000], inducing=[200, 500], features=20, repeats=9)
SCRIPT = Script("local_sweep", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
