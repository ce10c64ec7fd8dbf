"""A block of a FITC sweep, and of the evidence's gradient, as a share of the float32 matrix product's rate.

    python -m benchmarks.limits.fitc_sweep

One row for each approximation, on one thread:

sweep_share     rate of the sweep, by the flops that it executes (2 p m + 3 m² a row), over that of GEMM
gradient_share  rate of the evidence and its gradient (4 p m + 5 m² a row)
"""

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.harness import Options, Row, Rows, Script, defaults
from benchmarks.limits.machine import best_seconds
from streamgp.inference.inducing.basis import Approximation, make_basis
from streamgp.inference.inducing.fit import fit_sites
from streamgp.inference.inducing.in_memory import Rows as RowsInMemory
from streamgp.inference.inducing.slopes import evidence_block
from streamgp.inference.inducing.sweep import sweep_block
from streamgp.kernels import RBF
from streamgp.likelihoods import Probit

APPROXIMATIONS = (Approximation(), Approximation(1.0, 0.5), Approximation(0.0))
DAMPING = 0.8


def sweep_row(choice: Approximation, options: Options) -> Row:
    c, p, m = options.rows, options.features, options.inducing
    generator = np.random.default_rng(0)
    X = generator.standard_normal((c, p)).astype(np.float32)
    y = np.where(X @ generator.standard_normal(p) > 0.0, 1.0, -1.0)
    basis = make_basis(RBF(30.0, float(np.sqrt(p))), generator.standard_normal((m, p)), np.float32)
    basis = basis.astype(np.float32)
    fit = fit_sites(basis, Probit(), RowsInMemory(X, y), choice, tolerance=1e-2)
    known = (basis, fit.posterior.astype(np.float32), X, y, Probit(), fit.sites)
    left, right = np.ones((c, m), np.float32), np.ones((m, m), np.float32)
    gemm = 2.0 * c * m * m / best_seconds(lambda: left @ right, options.repeats)
    sweep = best_seconds(lambda: sweep_block(*known, choice, DAMPING), options.repeats)
    gradient = best_seconds(lambda: evidence_block(*known, choice), options.repeats)
    sweep_flops, gradient_flops = c * (2.0 * p * m + 3.0 * m * m), c * (4.0 * p * m + 5.0 * m * m)
    return {
        "rows": c,
        "features": p,
        "inducing": m,
        "residual": choice.residual,
        "power": choice.power,
        "gemm_gflops": gemm / 1e9,
        "sweep_seconds": sweep,
        "sweep_gflops": sweep_flops / sweep / 1e9,
        "sweep_share": sweep_flops / sweep / gemm,
        "gradient_seconds": gradient,
        "gradient_share": gradient_flops / gradient / gemm,
    }


def rows(options: Options) -> Rows:
    with threadpool_limits(1):
        for choice in APPROXIMATIONS:
            yield sweep_row(choice, options)


OPTIONS = defaults(rows=2000, features=50, inducing=1000, repeats=7)
SCRIPT = Script("fitc_sweep", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
