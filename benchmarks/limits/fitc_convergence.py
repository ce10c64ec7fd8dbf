"""Expectation propagation through inducing inputs on every classification set: how many fits converge.

    python -m benchmarks.limits.fitc_convergence --rows 20000

A fit has converged where its moment residual is at most 1e-5 and no row is skipped, within 200 sweeps whose
damping is the library's own. Two fits of each set: residual 1 (FITC) and 0 (projected process). Training
rows of the first split, or all where there is none, in standardised columns; an RBF kernel of variance 10
and, as lengthscale, the median distance of 500 rows; inducing inputs are rows at random. The last line
counts the fits that converged.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from scipy.stats import norm
from sklearn.preprocessing import StandardScaler

from benchmarks.datasets import Arrays, load
from benchmarks.papers.binary import show
from benchmarks.papers.fitc import made_up
from benchmarks.record import add_save_option, record
from streamgp.inference.inducing.basis import Approximation, Basis, make_basis
from streamgp.inference.inducing.fit import FOR_EVIDENCE, fit_sites
from streamgp.inference.inducing.in_memory import Rows
from streamgp.kernels import RBF
from streamgp.likelihoods import Probit

RAETSCH = (
    *("banana", "breast_cancer", "flare_solar_nosplit", "german", "heart", "image", "ringnorm"),
    *("splice_nosplit", "thyroid_nosplit", "titanic", "twonorm", "waveform"),
)
SETS = {  # name: file, class against the rest
    "crabs": ("crabs", 1),
    "ijcnn1": ("ijcnn1", 1),
    "mnist9": ("mnist", 9),
    "pima": ("pima_uci_nosplit", 1),
    **{f"raetsch_{name}": (f"raetsch_{name}", 1) for name in RAETSCH},
    "ripley_synth": ("ripley_synth", 1),
    "satimage1": ("satimage", 1),
    "usps4": ("usps", 4),
}
LEFT_OUT = {"flights3m": "its y are delays in minutes, not classes"}
RESIDUALS = (1.0, 0.0)
ROWS_FOR_DISTANCE = 500
WORKERS = 2
COLUMNS = (
    *("set", "rows", "inducing", "residual", "sweeps", "moment_residual", "converged", "skipped"),
    *("evidence", "seconds"),
)


class Problem(NamedTuple):
    """What the fits of one set share."""

    basis: Basis
    likelihood: Probit
    rows: Rows


def training_rows(arrays: Arrays) -> tuple[NDArray[Any], NDArray[Any]]:
    """Features and targets to train on: those of the first split, all where the set has none."""
    if "X_train" in arrays:
        return arrays["X_train"], arrays["y_train"]
    chosen = arrays["train_idx"][0] if "train_idx" in arrays else slice(None)
    return arrays["X"][chosen], arrays["y"][chosen]


def problem_of(name: str, options: argparse.Namespace) -> Problem:
    """Basis, likelihood and rows of one set."""
    file, positive = (None, 1) if options.synthetic else SETS[name]
    features, targets = training_rows(made_up() if file is None else load(file, options.data))
    generator = np.random.default_rng(options.seed)
    drawn = generator.permutation(len(targets))[: options.rows]  # in no order: the first ones are a sample
    X = StandardScaler().fit_transform(features[drawn].astype(np.float64))
    y = np.where(targets[drawn] == positive, 1.0, -1.0)
    kernel = RBF(10.0, float(np.median(pdist(X[:ROWS_FOR_DISTANCE]))))
    inducing = X[generator.permutation(len(X))[: min(options.inducing, len(X) // 2)]]
    likelihood = Probit(float(norm.ppf(np.mean(y > 0.0))))
    return Problem(make_basis(kernel, inducing), likelihood, Rows(X, y, workers=WORKERS))


def row_of(name: str, problem: Problem, residual: float) -> dict[str, Any]:
    """One fit, and whether it converged."""
    begun = time.perf_counter()
    fit = fit_sites(*problem, Approximation(residual, 1.0), tolerance=FOR_EVIDENCE)
    return {
        "set": name,
        "rows": len(problem.rows.targets),
        "inducing": problem.basis.size,
        "residual": residual,
        "sweeps": fit.sweeps,
        "moment_residual": float(fit.residual),
        "converged": bool(fit.converged),
        "skipped": int(fit.skipped),
        "evidence": float(fit.evidence),
        "seconds": round(time.perf_counter() - begun, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default=None, help="folder of the .npz files; default STREAMGP_DATA")
    parser.add_argument("--synthetic", action="store_true", help="a small made-up problem for each set")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--rows", type=int, default=20000, help="at most that many rows, at random")
    parser.add_argument("--inducing", type=int, default=100, help="at most, and at most half of the rows")
    parser.add_argument("--seed", type=int, default=0)
    add_save_option(parser)
    options = parser.parse_args()
    for name, reason in LEFT_OUT.items():
        print(f"{name} is left out: {reason}", file=sys.stderr)
    found: list[dict[str, Any]] = []
    for name in options.sets:
        problem = problem_of(name, options)
        for residual in RESIDUALS:
            found.append(row_of(name, problem, residual))
            record("fitc_convergence", found[-1:], save=not options.no_save)
    converged = sum(row["converged"] for row in found)
    record("fitc_convergence", [{"fits": len(found), "converged": converged}], save=not options.no_save)
    show(f"Converged: {converged} of {len(found)} fits", COLUMNS, found)


if __name__ == "__main__":
    main()
