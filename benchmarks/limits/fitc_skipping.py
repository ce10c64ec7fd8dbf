"""What a FITC sweep gains by passing over confident rows, and what that costs: MNIST, digit 9 against rest.

    python -m benchmarks.limits.fitc_skipping --rows 20000 --inducing 1000

Sweeps in float32 on one thread until moments agree to 1e-3, with all rows and with rows passed over whose
site would have less than ``--negligible`` of their marginal precision; 13 x 13 pixels, or ``--full-size``.
Printed: seconds of the last sweep and of all, their ratio to those without, error and log loss on test rows.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.datasets import add_data_options, load_by_options, reduce_13x13
from benchmarks.limits.skipping import Looks, no_looks, skipping_sweep_block
from benchmarks.papers.binary import show
from benchmarks.record import add_save_option, record
from streamgp.inference.inducing.basis import Approximation, Basis, make_basis, whiten
from streamgp.inference.inducing.fit import FOR_PREDICTION, Damping
from streamgp.inference.inducing.posterior import InducingPosterior, prior_posterior
from streamgp.inference.inducing.sweep import SweepSums, flat_sites, merge_sweeps, sweep_block
from streamgp.inference.sites import Sites
from streamgp.kernels import RBF
from streamgp.likelihoods import Probit

DIGIT = 9
BLOCK = 2048
MOST_SWEEPS = 30
LIKELIHOOD = Probit(-1.28)
COLUMNS = (
    *("features", "residual", "negligible", "passed_over", "sweeps", "last_seconds", "last_ratio"),
    *("seconds", "ratio", "error_percent", "log_loss"),
)

Array = NDArray[Any]


class Data(NamedTuple):
    """Pixels in [0, 1] and ±1."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array


def digits(options: argparse.Namespace) -> Data:
    arrays = load_by_options("mnist", options)
    images = [arrays[key] for key in ("X_train", "X_test")]
    if not options.full_size and images[0].shape[1] == 784:
        images = [reduce_13x13(part) for part in images]
    X, X_test = (part.astype(np.float32) / np.float32(255) for part in images)
    y, y_test = (np.where(arrays[key] == DIGIT, 1.0, -1.0) for key in ("y_train", "y_test"))
    chosen = np.random.default_rng(0).permutation(len(y))[: options.rows]
    return Data(X[chosen], y[chosen], X_test, y_test)


def measured(
    data: Data, basis: Basis, choice: Approximation, negligible: float | None
) -> tuple[dict[str, Any], InducingPosterior]:
    """Sweeps until moments agree; rows are passed over unless ``negligible`` is None."""
    n = len(data.y)
    posterior, sites, looks, damping = prior_posterior(basis.size), flat_sites(n), no_looks(n), Damping()
    seconds, over = [], 0
    while len(seconds) < MOST_SWEEPS:
        begun, over, total = time.perf_counter(), 0, None
        frozen = posterior.astype(np.float32)
        for start in range(0, n, BLOCK):
            here = slice(start, start + BLOCK)
            own = Sites(*(part[here] for part in sites))
            known = (basis, frozen, data.X[here], data.y[here], LIKELIHOOD, own)
            sums: SweepSums
            if negligible is None:
                new, sums = sweep_block(*known, choice, damping.step)
            else:
                seen = Looks(*(part[here] for part in looks))
                new, found, sums, passed = skipping_sweep_block(
                    *known, seen, choice, damping.step, negligible=negligible
                )
                looks.variance[here], looks.residual_variance[here] = found
                over += passed
            sites.precision[here], sites.precision_mean[here] = new
            total = sums if total is None else merge_sweeps(total, sums)
        assert total is not None
        posterior = total.posterior()
        seconds.append(time.perf_counter() - begun)
        damping = damping.after(total.moment_residual)
        if len(seconds) > 1 and total.moment_residual <= FOR_PREDICTION:
            break
    row = {"passed_over": over / n, "sweeps": len(seconds), "last_seconds": min(seconds[-2:])}
    return {**row, "seconds": sum(seconds)}, posterior


def scores(data: Data, basis: Basis, choice: Approximation, posterior: InducingPosterior) -> dict[str, float]:
    rows = whiten(basis, data.X_test)
    mean = rows.features @ posterior.inducing_mean
    variance = np.square(rows.features @ posterior.spread).sum(axis=1)
    density = LIKELIHOOD.log_predictive_density(
        data.y_test, mean, variance + choice.residual * rows.residual_variance
    )
    return {
        "error_percent": 100 * float(np.mean(density < np.log(0.5))),
        "log_loss": -float(density.mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_options(parser)
    parser.set_defaults(rows=20_000)
    parser.add_argument("--inducing", type=int, default=1000)
    parser.add_argument("--full-size", action="store_true")
    parser.add_argument("--negligible", type=float, nargs="+", default=[1e-3, 3e-3, 1e-2])
    add_save_option(parser)
    options = parser.parse_args()
    data, rows = digits(options), []
    kernel = RBF(100.0, 0.25 * float(np.sqrt(data.X.shape[1])))
    basis = make_basis(kernel, data.X[: options.inducing], np.float32).astype(np.float32)
    with threadpool_limits(1):
        for choice in (Approximation(), Approximation(0.0)):
            whole: dict[str, Any] = {}
            for negligible in (None, *options.negligible):
                row, posterior = measured(data, basis, choice, negligible)
                whole = whole or row
                row = {
                    "features": data.X.shape[1],
                    "inducing": basis.size,
                    "rows": len(data.y),
                    "residual": choice.residual,
                    "negligible": negligible,
                    **row,
                    "last_ratio": whole["last_seconds"] / row["last_seconds"],
                    "ratio": whole["seconds"] / row["seconds"],
                    **scores(data, basis, choice, posterior),
                }
                record("fitc_skipping", [row], save=not options.no_save)
                rows.append(row)
    show("Sweeps that pass over confident rows: digit 9 against the rest", COLUMNS, rows)


if __name__ == "__main__":
    main()
