"""Expectation propagation on problems made to break it: how many converge, in how many sweeps; none may fail.

    python -m benchmarks.limits.ep_robustness --problems 1000

Random problems with duplicates (of other label, too), classes of 50:1, kernel variances up to 1e8,
lengthscales from tiny to huge, labels at random, likelihoods of all kinds, one of them not log-concave.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Options, Rows, Script, defaults
from streamgp.errors import NumericsWarning
from streamgp.inference.ep import expectation_propagation
from streamgp.kernels import RBF, Kernel, Linear, White
from streamgp.likelihoods import Custom, Gaussian, Likelihood, Logit, Probit

Floats = NDArray[np.float64]
STUDENT = Custom(lambda y, f: -2.5 * np.log1p((y - f) ** 2 / 0.3), "student")


def hard_problem(seed: int) -> tuple[Floats, Floats, Likelihood]:
    """Gram matrix, targets and likelihood of one problem."""
    generator = np.random.default_rng(seed)
    rows, features = int(generator.integers(2, 120)), int(generator.integers(1, 8))
    X = generator.standard_normal((rows, features))
    copies = generator.integers(0, rows, rows // int(generator.integers(1, 6)))
    X[generator.integers(0, rows, len(copies))] = X[copies]
    kernel: Kernel = RBF(10 ** generator.uniform(-2, 8), 10 ** generator.uniform(-1.5, 1.5))
    if generator.random() < 0.3:
        kernel = kernel + Linear(10 ** generator.uniform(-2, 4))
    if generator.random() < 0.3:
        kernel = kernel + White(10 ** generator.uniform(-4, 3))
    share = generator.choice([0.5, 0.02])
    noise = generator.choice([0.0, 0.5, 5.0])
    latent = X[:, 0] + noise * generator.standard_normal(rows)
    y = np.where(latent > np.quantile(latent, 1.0 - share), 1.0, -1.0)
    bias = float(generator.choice([0.0, -2.0, 5.0]))
    likelihood = (Probit(bias), Logit(bias), Gaussian(10 ** generator.uniform(-3, 2)), STUDENT)[seed % 4]
    return kernel.gram(X), y if likelihood.is_classification else latent, likelihood


def outcome(seed: int) -> tuple[str, tuple[Any, ...]]:
    """The likelihood's name; whether all is finite, whether it converged, sweeps, residual."""
    gram, targets, likelihood = hard_problem(seed)
    found = expectation_propagation(gram, targets, likelihood)
    parts = (*found.sites, *found.marginals, found.left_out_log_density, found.log_evidence)
    finite = all(np.all(np.isfinite(part)) for part in parts)
    family = getattr(likelihood, "name", type(likelihood).__name__.lower())
    return family, (finite, found.converged, found.sweeps, found.residual)


def rows(options: Options) -> Rows:
    outcomes: dict[str, list[tuple[Any, ...]]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericsWarning)
        for family, found in map(outcome, range(options.problems)):
            outcomes.setdefault(family, []).append(found)
    for family, results in outcomes.items():
        finite, converged, sweeps, residuals = map(np.array, zip(*results, strict=True))
        yield {
            "likelihood": family,
            "problems": len(results),
            "not_finite": int(np.count_nonzero(~finite)),
            "not_converged": int(np.count_nonzero(~converged)),
            "median_sweeps": float(np.median(sweeps)),
            "most_sweeps": int(sweeps.max()),
            "largest_residual": float(residuals.max()),
        }


OPTIONS = defaults(problems=1000)
SCRIPT = Script("ep_robustness", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
