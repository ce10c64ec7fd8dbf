"""Expectation propagation through inducing inputs on every classification set: how many fits converge.

    python -m benchmarks.limits.fitc_convergence --rows 20000

A fit has converged where its moment residual is at most 1e-5 and no row is skipped, within 200 sweeps whose
damping is the library's own. Two fits of each set: residual 1 (FITC) and 0 (projected process). Training
rows of the first split, or all where there is none, in standardised columns; an RBF kernel of variance 10
and, as lengthscale, the median distance of 500 rows; inducing inputs are rows at random. The last line
counts the fits that converged. Left out: flights3m, whose targets are minutes, not classes.
"""

import time
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import pdist
from scipy.stats import norm
from sklearn.preprocessing import StandardScaler

from benchmarks.datasets import load_split
from benchmarks.harness import SET, Options, Row, Rows, Script, defaults, option
from streamgp.inference.damping import FOR_EVIDENCE
from streamgp.inference.inducing.basis import Approximation, Basis, make_basis
from streamgp.inference.inducing.fit import fit_sites
from streamgp.inference.inducing.in_memory import Rows as RowsInMemory
from streamgp.kernels import RBF
from streamgp.likelihoods import Probit

RAETSCH = (
    *("banana", "breast_cancer", "flare_solar_nosplit", "german", "heart", "image", "ringnorm"),
    *("splice_nosplit", "thyroid_nosplit", "titanic", "twonorm", "waveform"),
)
SETS = [
    *("crabs", "ijcnn1", "mnist9", "pima", *(f"raetsch_{name}" for name in RAETSCH)),
    *("ripley_synth", "satimage1", "usps4"),
]
RESIDUALS = (1.0, 0.0)
ROWS_FOR_DISTANCE = 500
WORKERS = 2


class Problem(NamedTuple):
    """What the fits of one set share."""

    basis: Basis
    likelihood: Probit
    rows: RowsInMemory


def problem_of(name: str, options: Options) -> Problem:
    """Basis, likelihood and rows of one set."""
    features, targets = load_split(name, options).train
    generator = np.random.default_rng(options.seed)
    drawn = generator.permutation(len(targets))[: options.rows]  # in no order: the first ones are a sample
    X = StandardScaler().fit_transform(features[drawn].astype(np.float64))
    y = np.where(targets[drawn] == targets.max(), 1.0, -1.0)
    kernel = RBF(10.0, float(np.median(pdist(X[:ROWS_FOR_DISTANCE]))))
    inducing = X[generator.permutation(len(X))[: min(options.inducing, len(X) // 2)]]
    likelihood = Probit(float(norm.ppf(np.mean(y > 0.0))))
    return Problem(make_basis(kernel, inducing), likelihood, RowsInMemory(X, y, workers=WORKERS))


def fit_row(name: str, problem: Problem, residual: float) -> Row:
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


def rows(options: Options) -> Rows:
    converged = []
    for name in options.sets:
        problem = problem_of(name, options)
        for residual in RESIDUALS:
            row = fit_row(name, problem, residual)
            converged.append(row["converged"])
            yield row
    yield {"set": "all", "fits": len(converged), "converged": sum(converged)}


OPTIONS = (
    *SET,
    option("--sets", SETS, choices=SETS),
    option("--rows", 20000, "at most that many rows, at random"),
    option("--inducing", 100, "at most, and at most half of the rows"),
    *defaults(seed=0),
)
SCRIPT = Script("fitc_convergence", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
