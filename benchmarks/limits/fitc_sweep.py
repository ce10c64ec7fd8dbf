"""A block of a FITC sweep, and of the evidence's gradient, as a share of the float32 matrix product's rate.

``python -m benchmarks.limits.fitc_sweep`` prints one JSON line for each approximation, on one thread.

sweep_share     rate of the sweep, by the flops that it executes (2 p m + 3 m² a row), over that of GEMM
skip_share      the same of a sweep that passes over confident rows (2 p m for those); passed_over their share
gradient_share  rate of the evidence and its gradient (4 p m + 5 m² a row)
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.limits.kernel_block import best_seconds
from benchmarks.limits.skipping import no_looks, skipping_sweep_block
from benchmarks.record import add_save_option, record
from streamgp.inference.inducing.basis import Approximation, make_basis
from streamgp.inference.inducing.fit import fit_sites
from streamgp.inference.inducing.in_memory import Rows
from streamgp.inference.inducing.slopes import evidence_block
from streamgp.inference.inducing.sweep import sweep_block
from streamgp.kernels import RBF
from streamgp.likelihoods import Probit


def measured(choice: Approximation, options: argparse.Namespace) -> dict[str, Any]:
    c, p, m = options.rows, options.features, options.inducing
    generator = np.random.default_rng(0)
    X = generator.standard_normal((c, p)).astype(np.float32)
    y = np.where(X @ generator.standard_normal(p) > 0.0, 1.0, -1.0)
    basis = make_basis(RBF(30.0, float(np.sqrt(p))), generator.standard_normal((m, p)), np.float32)
    basis = basis.astype(np.float32)
    fit = fit_sites(basis, Probit(), Rows(X, y), choice, tolerance=1e-2)
    posterior = fit.posterior.astype(np.float32)
    known = (basis, posterior, X, y, Probit(), fit.sites)
    looks = skipping_sweep_block(*known, no_looks(c), choice, 0.8).looks
    over = skipping_sweep_block(*known, looks, choice, 0.8).passed_over

    left, right = np.ones((c, m), np.float32), np.ones((m, m), np.float32)
    gemm = 2.0 * c * m * m / best_seconds(lambda: left @ right, options.repeats)
    sweep = best_seconds(lambda: sweep_block(*known, choice, 0.8), options.repeats)
    skip = best_seconds(lambda: skipping_sweep_block(*known, looks, choice, 0.8), options.repeats)
    gradient = best_seconds(lambda: evidence_block(*known, choice), options.repeats)
    return {
        "rows": c,
        "features": p,
        "inducing": m,
        "residual": choice.residual,
        "power": choice.power,
        "gemm_gflops": gemm / 1e9,
        "sweep_seconds": sweep,
        "sweep_gflops": c * (2.0 * p * m + 3.0 * m * m) / sweep / 1e9,
        "sweep_share": c * (2.0 * p * m + 3.0 * m * m) / sweep / gemm,
        "passed_over": over / c,
        "skip_seconds": skip,
        "skip_share": (2.0 * c * p * m + 3.0 * (c - over) * m * m) / skip / gemm,
        "gradient_seconds": gradient,
        "gradient_share": c * (4.0 * p * m + 5.0 * m * m) / gradient / gemm,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--inducing", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=7)
    add_save_option(parser)
    options = parser.parse_args()
    with threadpool_limits(1):
        for choice in (Approximation(), Approximation(1.0, 0.5), Approximation(0.0)):
            record("fitc_sweep", [measured(choice, options)], save=not options.no_save)


if __name__ == "__main__":
    main()
