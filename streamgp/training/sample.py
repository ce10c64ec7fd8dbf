"""Rows of the sample as a problem of their own, seen through inducing inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference.inducing.fit import fit_bytes
from streamgp.inference.inducing.in_memory import Rows, no_check
from streamgp.kernels import Kernel
from streamgp.kernels.parameters import log_normal_prior
from streamgp.likelihoods import Likelihood
from streamgp.passes.run import available_threads
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft

JUDGED_HEADS = 3
FEW_ROWS = 2500
"""Rows up to which threads would cost more than a sweep does."""
FEWEST_ROWS = 500
MOST_WORKERS = 4
"""Threads that memory is counted for; the number of rows must not depend on those of the machine."""
CLASS_VARIANCE = 2.0
"""Centre of the hyperprior over the log variance of a latent function that has to tell classes apart."""


class Sampled(NamedTuple):
    """Rows of the sample: inputs (n, p), what each of some heads has to learn, and weights (n,).

    ``before`` is called before each round over them, and may end it by an exception. ``hyperpriors``: whether
    what is learned from them has a prior.
    """

    heads: tuple[int, ...]
    inputs: FloatArray
    targets: tuple[FloatArray, ...]
    weights: FloatArray
    before: Callable[[], None] = no_check
    hyperpriors: bool = True

    def rows(self, place: int) -> Rows:
        """One head's rows, as inference takes them."""
        workers = min(available_threads(), MOST_WORKERS) if len(self.inputs) > FEW_ROWS else 1
        return Rows(self.inputs, self.targets[place], self.weights, workers=workers, before=self.before)


def judged_heads(problem: Problem) -> tuple[int, ...]:
    """Heads whose evidence decides about the kernel that all share."""
    return tuple(range(0, problem.n_heads, -(-problem.n_heads // JUDGED_HEADS)))


def sample_rows(problem: Problem, size: int, heads: tuple[int, ...]) -> Sampled:
    """The sample's rows of smallest key, weighted; rare classes, drawn more often, count for less."""
    sample, chosen = problem.sample, np.sort(problem.sample_order(size))
    encoded = sample.targets[chosen]
    return Sampled(
        heads,
        problem.inputs(sample.features[chosen]),
        tuple(problem.head_targets(encoded, head) for head in heads),
        problem.sample_weights(encoded) * problem.weights.of_rows(sample.rows[chosen], encoded),
        hyperpriors=problem.has_hyperpriors,
    )


def affordable(
    problem: Problem, draft: Draft, size: int, n_inducing: int, *, fewest_inducing: int
) -> tuple[int, int]:
    """Rows and inducing inputs whose evidence fits into the memory that candidates and tasks leave free.

    Of both half as many until it does: few rows say little about a kernel, however many inputs they have.
    """
    p = problem.n_features
    size = min(size, len(problem.sample.rows))
    room = 2 * problem.plan.candidate_share - 8 * len(problem.sample.rows)
    while size > FEWEST_ROWS:
        needed = fit_bytes(draft.kernel, draft.likelihoods[0], size, n_inducing, p, 8, workers=MOST_WORKERS)
        if needed + 8 * size * (p + n_inducing + 4) <= room:
            break
        size = max(size // 2, FEWEST_ROWS)
        n_inducing = max(n_inducing // 2, min(n_inducing, fewest_inducing))
    return size, n_inducing


def kernel_log_prior(kernel: Kernel, likelihood: Likelihood, n_features: int) -> tuple[float, FloatArray]:
    """Log hyperpriors of the kernel, and their gradient.

    Where there are classes, log variance ~ N(2, 1) and not N(−1, 1) [IVM2006]: see docs/decisions.md.
    """
    value, gradient = kernel.log_prior(n_features)
    if not likelihood.is_classification:
        return value, gradient
    logs = kernel.log_parameters
    for place, name in enumerate(kernel.parameter_names):
        if name.endswith("variance"):
            own, slope = log_normal_prior(float(logs[place]), -1.0)
            better, better_slope = log_normal_prior(float(logs[place]), CLASS_VARIANCE)
            value += better - own
            gradient[place] += better_slope - slope
    return value, gradient
