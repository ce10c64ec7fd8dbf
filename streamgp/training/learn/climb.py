"""Uphill in the evidence of rows seen through inducing inputs, whichever rows an evaluation looks at."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference.inducing.slopes import Evidence
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.training.optimise import (
    SCIPY_TOLERANCE,
    Evaluations,
    descend,
    logged,
    minus_log_evidence,
    minus_log_posterior,
    pack,
    pack_bounds,
    unpack,
)
from streamgp.training.problem import Problem
from streamgp.training.sample import kernel_log_prior

NOT_AT_ALL = 1e-3
"""Moment residual above which a fit that has not converged says nothing about the evidence."""
REFUSED = 1e10
"""Value of parameters under which there is no evidence: no factor, or no convergence."""

Memory = dict[str, FloatArray]
"""What an evaluation leaves for the next one, to start from."""


class Parameters(NamedTuple):
    """What is learned: the kernel, a likelihood for each head that takes part, the inducing inputs (m, p)."""

    kernel: Kernel
    likelihoods: tuple[Likelihood, ...]
    inducing: FloatArray


Evaluate = Callable[[Parameters, Memory], tuple[float, FloatArray, Memory]]
"""Parameters → minus the evidence, its gradient, and what the next evaluation may start from."""


def climb(
    problem: Problem,
    evaluate: Evaluate,
    start: Parameters,
    steps: int,
    evaluations: Evaluations,
    save: Callable[[Evaluations], None],
    *,
    within: FloatArray | None = None,
    first_step: float = 1.0,
    tolerance: float = SCIPY_TOLERANCE,
) -> tuple[Parameters, float]:
    """Steps of L-BFGS-B from a start, at most twice as many evaluations; the value is minus the evidence.

    Each evaluation is given what the best one before it has left; the log remembers that for a resumed run.
    ``within`` bounds (p, 2) inducing inputs, which are learned then. ``first_step`` is the length of the
    first step in log parameters, before anything is known about curvature; the last one gained less than
    ``tolerance`` of the value.
    """
    kernel, likelihoods, inducing = start
    vector, bounds = pack(kernel, likelihoods), pack_bounds(kernel, likelihoods)
    n_parameters = len(vector)
    if within is not None:
        vector = np.concatenate([vector, inducing.ravel()])
        bounds = np.concatenate([bounds, np.tile(within, (len(inducing), 1))])

    def parameters(point: FloatArray) -> Parameters:
        vector = first_step * point  # an optimiser's first step has a length of one
        fitted, adapted = unpack(kernel, likelihoods, vector[:n_parameters])
        moved = inducing if within is None else vector[n_parameters:].reshape(inducing.shape)
        return Parameters(fitted, adapted, moved)

    def objective(point: FloatArray) -> tuple[float, FloatArray]:
        value, gradient, memory = evaluate(parameters(point), log.memory)
        if memory and value < log.smallest:
            log.memory = memory
        return value, first_step * gradient

    log = logged(objective, evaluations, save)
    start_at, limits = vector / first_step, bounds / first_step
    found, value = descend(log, start_at, limits, steps, 2 * steps, problem.is_late, tolerance=tolerance)
    return parameters(found), value


def penalised(
    parameters: Parameters, found: list[Evidence], inputs: bool, hyperpriors: bool
) -> tuple[float, FloatArray]:
    """Minus the evidence of all heads and the log hyperpriors, and its gradient by what is learned."""
    kernel, likelihoods, inducing = parameters
    if hyperpriors:
        prior = kernel_log_prior(kernel, likelihoods[0], inducing.shape[1])
        value, gradient = minus_log_posterior(prior, likelihoods, found)
    else:
        value, gradient = minus_log_evidence(found)
    if not inputs:
        return value, gradient
    by_input = sum(np.ravel(result.input_gradient) for result in found if result.input_gradient is not None)
    return value, np.concatenate([gradient, -np.asarray(by_input)])


def refused(parameters: Parameters, inputs: bool) -> tuple[float, FloatArray, Memory]:
    """What an optimiser is told about parameters under which there is no evidence."""
    kernel, likelihoods, inducing = parameters
    size = len(pack(kernel, likelihoods)) + (inducing.size if inputs else 0)
    return REFUSED, np.zeros(size), {}


def reach(inputs: FloatArray) -> FloatArray:
    """Bounds of inducing inputs, (p, 2): a quarter of the data's range beyond it on either side."""
    low, high = inputs.min(axis=0), inputs.max(axis=0)
    margin = 0.25 * (high - low) + 1e-6
    return np.stack([low - margin, high + margin], axis=1)
