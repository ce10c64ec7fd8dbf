"""Tilted sites and probabilities of likelihoods: microseconds for a row and class, beside an exponential.

``python -m benchmarks.limits.likelihood_sites`` prints one JSON line for each likelihood and variance.

microseconds   processor time of tilted_sites for one row and class
ratio          the same, in vectorised exponentials of this run
probabilities  microseconds of log_probabilities for one row and class (joint likelihoods)
error          largest disagreement of log Z of all classes with probabilities that sum to one
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Options, Rows, Script, defaults
from streamgp.likelihoods import JointLikelihood, Likelihood, Logit, MultivariateProbit, Probit, Softmax
from streamgp.numerics.compilation import compiled
from streamgp.numerics.exponential import exp_double


@compiled
def exponentials(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        out[i] = exp_double(x[i])


def best_microseconds(work: Callable[[], Any], repeats: int) -> float:
    """Shortest processor time of several runs, after one that may compile: others may use the machine too."""
    work()
    seconds = []
    for _ in range(repeats):
        start = time.thread_time()
        work()
        seconds.append(time.thread_time() - start)
    return 1e6 * min(seconds)


def two_classes(likelihood: Likelihood, power: float, variance: float, options: Options) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    targets = np.where(generator.random(options.rows) < 0.5, 1.0, -1.0)
    mean, spread = targets + 2.0 * generator.standard_normal(options.rows), np.full(options.rows, variance)
    total = best_microseconds(
        lambda: likelihood.tilted_sites(targets, mean, spread, power=power), options.repeats
    )
    return {"power": power, "classes": 2, "microseconds": total / options.rows}


def many_classes(
    likelihood: JointLikelihood, n_classes: int, variance: float, options: Options
) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    n_rows = max(4, options.rows // (10 * n_classes))
    mean = 2.0 * generator.standard_normal((n_rows, n_classes))
    spread = variance * 10.0 ** -generator.uniform(0.0, 2.0, mean.shape)
    codes = np.argmax(mean, axis=1)
    sites = best_microseconds(lambda: likelihood.tilted_sites(codes, mean, spread), options.repeats)
    shares = best_microseconds(lambda: likelihood.log_probabilities(mean, spread), options.repeats)
    own = [likelihood.tilted_moments(np.full(n_rows, c), mean, spread).log_z for c in range(n_classes)]
    return {
        "power": 1.0,
        "classes": n_classes,
        "microseconds": sites / mean.size,
        "probabilities": shares / mean.size,
        "error": float(np.max(np.abs(np.exp(own).sum(axis=0) - 1.0))),
    }


def rows(options: Options) -> Rows:
    x = -10.0 * np.random.default_rng(0).random(10_000)
    out = np.empty_like(x)
    unit = best_microseconds(lambda: exponentials(x, out), options.repeats) / x.size
    for variance in (1.0, 10.0, 100.0):
        found = [
            ("Probit", two_classes(Probit(), 1.0, variance, options)),
            ("Probit", two_classes(Probit(), 0.5, variance, options)),
            ("Logit", two_classes(Logit(), 1.0, variance, options)),
        ]
        for family in (MultivariateProbit(), Softmax()):
            found += [
                (type(family).__name__, many_classes(family, n_classes, variance, options))
                for n_classes in options.classes
            ]
        for name, row in found:
            ratio = row["microseconds"] / unit
            yield {"likelihood": name, "largest_variance": variance, **row, "ratio": ratio}


OPTIONS = defaults(rows=10_000, classes=[3, 10, 100], repeats=5)
SCRIPT = Script("likelihood_sites", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
