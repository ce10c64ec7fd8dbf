"""Figure 3 of [PASS2012]: approximations of the log evidence of all rows, USPS digit 3 against the rest.

    python -m benchmarks.papers.passgp_evidence --rows 3000 --accurate

Z_EP,A is the evidence of the active set alone, Z_APP adds the predictive densities of all other rows,
Z_ACC (``--accurate``) runs expectation propagation on those others with the active set's prediction as their
prior, and Z_EP (``--full``) on all rows. The last two need matrices of all rows: they are here only.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from benchmarks.datasets import add_data_options, drawn_rows, load_by_options
from benchmarks.papers.binary import show, warm_up
from benchmarks.record import add_save_option, record
from streamgp import StreamGPClassifier
from streamgp.inference import expectation_propagation
from streamgp.inference.ep import FOR_EVIDENCE
from streamgp.kernels import RBF, Kernel, White
from streamgp.likelihoods import Likelihood
from streamgp.likelihoods.base import TiltedSites
from streamgp.selection import PASS

Array = NDArray[np.float64]
COLUMNS = ("p_inc", "seed", "active", "z_active", "z_app", "z_acc", "z_full", "error_percent", "seconds")
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.99)


@dataclass(frozen=True)
class Shifted:
    """A likelihood of f = prior mean + g, seen as one of g: sites of g are those of f, moved."""

    likelihood: Likelihood
    prior_mean: Array

    def tilted_sites(self, targets: Array, mean: Array, variance: Array) -> TiltedSites:
        """Sites on g."""
        log_z, precision, precision_mean = self.likelihood.tilted_sites(
            targets, mean + self.prior_mean, variance
        )
        return TiltedSites(log_z, precision, precision_mean - precision * self.prior_mean)


def full_evidence(kernel: Kernel, likelihood: Likelihood, X: Array, y: Array) -> float:
    """Log Z_EP of all rows."""
    return expectation_propagation(kernel.gram(X), y, likelihood, tolerance=FOR_EVIDENCE).log_evidence


def accurate_evidence(
    kernel: Kernel, likelihood: Likelihood, X: Array, y: Array, active: NDArray[np.int64]
) -> float:
    """Log Z_ACC = log Z_EP of the active rows + log Z_EP of the others, given the active ones' posterior."""
    others = np.setdiff1d(np.arange(len(y)), active)
    found = expectation_propagation(kernel.gram(X[active]), y[active], likelihood, tolerance=FOR_EVIDENCE)
    cross = kernel.block(X[others], X[active])
    root = np.sqrt(found.sites.precision)
    scaled = np.eye(len(active)) + root[:, None] * kernel.gram(X[active]) * root
    stubs = solve_triangular(np.linalg.cholesky(scaled), (cross * root).T, lower=True)
    gram = kernel.gram(X[others]) - stubs.T @ stubs
    shifted: Any = Shifted(likelihood, cross @ found.marginals.weights)
    rest = expectation_propagation(gram, y[others], shifted, tolerance=FOR_EVIDENCE, sequential_sweeps=0)
    return found.log_evidence + rest.log_evidence


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_options(parser)
    parser.add_argument("--digit", type=int, default=3)
    parser.add_argument("--p-inc", type=float, nargs="+", default=THRESHOLDS)
    parser.add_argument("--p-del", type=float, default=0.99)
    parser.add_argument("--most-active", type=int, default=1500)
    parser.add_argument("--accurate", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    add_save_option(parser)
    options = parser.parse_args()
    data = load_by_options("usps", options)
    rows = drawn_rows(len(data["y_train"]), options)
    X, y = data["X_train"][rows].astype(np.float64), data["y_train"][rows] == options.digit
    signs = np.where(y, 1.0, -1.0)
    warm_up()
    table: list[dict[str, Any]] = []
    for p_inc, seed in product(options.p_inc, options.seeds):
        begun = time.perf_counter()
        model = StreamGPClassifier(
            min(options.most_active, len(y)),
            selection=PASS(p_inc=p_inc, p_del=options.p_del),
            kernel=RBF(30.0, 11.0) + White(0.1),
            standardize=False,
            calibrate=False,
            memory_budget="2GiB",
            random_state=seed,
        ).fit_stream((X, y))
        seconds = time.perf_counter() - begun
        (told,) = [entry for entry in model.history_ if entry["stage"] == "infer: ep"]
        kernel, likelihood = model.kernel_, model.likelihood_[0]
        row = {
            "digit": options.digit,
            "rows": len(y),
            "p_inc": p_inc,
            "seed": seed,
            "active": len(model.active_rows_),
            "z_active": round(told["log_evidence_active"][0], 2),
            "z_app": round(told["log_evidence_all"][0], 2),
            "error_percent": round(
                100 * float(np.mean(model.predict(data["X_test"]) != (data["y_test"] == options.digit))), 3
            ),
            "seconds": round(seconds, 1),
            "kernel": repr(kernel),
        }
        if options.accurate:
            row["z_acc"] = round(accurate_evidence(kernel, likelihood, X, signs, model.active_rows_), 2)
        if options.full:
            row["z_full"] = round(full_evidence(kernel, likelihood, X, signs), 2)
        record("passgp_evidence", [row], save=not options.no_save)
        table.append(row)
    show("PASS-GP, figure 3: log evidence, USPS digit against the rest", COLUMNS, table)


if __name__ == "__main__":
    main()
