"""Evidence of a sample's rows, all of them seen through inducing inputs, and its maximum."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError

from streamgp.arrays import FloatArray
from streamgp.inference import Sites
from streamgp.inference.inducing.basis import make_basis
from streamgp.inference.inducing.fit import converged_evidence, fit_bytes
from streamgp.inference.inducing.in_memory import Rows
from streamgp.inference.inducing.slopes import Evidence
from streamgp.kernels import Kernel
from streamgp.kernels.parameters import log_normal_prior
from streamgp.likelihoods import Likelihood
from streamgp.passes.run import available_threads
from streamgp.training.calibrate import sample_weights
from streamgp.training.context import Context
from streamgp.training.descent import descend, logged, minus_log_posterior, pack, pack_bounds, unpack
from streamgp.training.fitc_weights import row_weights
from streamgp.training.state import State

JUDGED_HEADS = 3
FEW_ROWS = 2500
FEWEST_ROWS = 500
MOST_WORKERS = 4
"""Threads that memory is counted for; the number of rows must not depend on those of the machine."""
MOST_SWEEPS = 60
CLASS_VARIANCE = 2.0
"""Centre of the hyperprior over the log variance of a latent function that has to tell classes apart."""
NOT_AT_ALL = 1e-3
"""Moment residual above which a fit that has not converged says nothing about the evidence."""
REFUSED = 1e10
"""Value of parameters under which there is no evidence: no factor, or no convergence."""


Memory = dict[str, FloatArray]
"""What an evaluation leaves for the next one, to start from."""


class Problem(NamedTuple):
    """Rows of the sample: inputs (n, p), what each of some heads has to learn, and weights (n,)."""

    heads: tuple[int, ...]
    inputs: FloatArray
    targets: tuple[FloatArray, ...]
    weights: FloatArray

    def rows(self, place: int) -> Rows:
        """One head's rows, as inference takes them."""
        # Threads cost more than a sweep of few rows does.
        workers = min(available_threads(), MOST_WORKERS) if len(self.inputs) > FEW_ROWS else 1
        return Rows(self.inputs, self.targets[place], self.weights, workers=workers)


class Parameters(NamedTuple):
    """What is learned: the kernel, one likelihood for each head of a problem, the inducing inputs (m, p)."""

    kernel: Kernel
    likelihoods: tuple[Likelihood, ...]
    inducing: FloatArray


Evaluate = Callable[[Parameters, Memory], tuple[float, FloatArray, Memory]]
"""Parameters → minus the evidence, its gradient, and what the next evaluation may start from."""


def judged_heads(context: Context) -> tuple[int, ...]:
    """Heads whose evidence decides about the kernel that all share."""
    return tuple(range(0, context.n_heads, -(-context.n_heads // JUDGED_HEADS)))


def sample_problem(context: Context, size: int, heads: tuple[int, ...]) -> Problem:
    """The sample's rows of smallest key, weighted; rare classes, drawn more often, count for less."""
    sample = context.sample
    chosen = np.sort(np.argsort(sample.keys, kind="stable")[:size])
    encoded = sample.targets[chosen]
    return Problem(
        heads,
        context.inputs(sample.features[chosen]),
        tuple(context.head_targets(encoded, head) for head in heads),
        sample_weights(context, encoded) * row_weights(context).of_rows(sample.rows[chosen], encoded),
    )


def affordable(
    context: Context, state: State, size: int, n_inducing: int, *, fewest_inducing: int
) -> tuple[int, int]:
    """Rows and inducing inputs whose evidence fits into the memory that candidates and tasks leave free.

    Of both half as many until it does: few rows say little about a kernel, however many inputs they have.
    """
    p = context.prepared.rows.n_features
    size = min(size, len(context.sample.rows))
    room = 2 * context.plan.candidate_share - 8 * len(context.sample.rows)
    while size > FEWEST_ROWS:
        needed = fit_bytes(state.kernel, state.likelihoods[0], size, n_inducing, p, 8, workers=MOST_WORKERS)
        if needed + 8 * size * (p + n_inducing + 4) <= room:
            break
        size = max(size // 2, FEWEST_ROWS)
        n_inducing = max(n_inducing // 2, min(n_inducing, fewest_inducing))
    return size, n_inducing


def evidence(
    problem: Problem, inputs: bool, parameters: Parameters, memory: Memory
) -> tuple[float, FloatArray, Memory]:
    """−log Z of the problem's heads minus log hyperpriors, its gradient, and the sites that were reached.

    ``memory`` has the sites to start from, (heads, 2, n); none where there is no evidence.
    """
    start = memory.get("sites")
    found, sites = [], []
    try:
        basis = make_basis(parameters.kernel, parameters.inducing)
        for place, likelihood in enumerate(parameters.likelihoods):
            result, fit = converged_evidence(
                basis,
                likelihood,
                problem.rows(place),
                sites=None if start is None else Sites(*start[place]),
                inputs=inputs,
                max_sweeps=MOST_SWEEPS,
                hold=True,
            )
            if not fit.converged and fit.residual > NOT_AT_ALL:
                raise LinAlgError("no convergence")
            found.append(result)
            sites.append(fit.sites)
    except LinAlgError:
        return refused(parameters, inputs)
    return *penalised(parameters, found, inputs), {"sites": np.array(sites)}


def penalised(parameters: Parameters, found: list[Evidence], inputs: bool) -> tuple[float, FloatArray]:
    """Minus the evidence of all heads and the log hyperpriors, and its gradient by what is learned."""
    kernel, likelihoods, inducing = parameters
    prior = kernel_log_prior(kernel, likelihoods[0], inducing.shape[1])
    value, gradient = minus_log_posterior(prior, likelihoods, found)
    if not inputs:
        return value, gradient
    by_input = sum(np.ravel(result.input_gradient) for result in found if result.input_gradient is not None)
    return value, np.concatenate([gradient, -np.asarray(by_input)])


def refused(parameters: Parameters, inputs: bool) -> tuple[float, FloatArray, Memory]:
    """What an optimiser is told about parameters under which there is no evidence."""
    kernel, likelihoods, inducing = parameters
    size = len(pack(kernel, likelihoods)) + (inducing.size if inputs else 0)
    return REFUSED, np.zeros(size), {}


def kernel_log_prior(kernel: Kernel, likelihood: Likelihood, n_features: int) -> tuple[float, FloatArray]:
    """Log hyperpriors of the kernel, and their gradient.

    Where there are classes, log variance ~ N(2, 1) and not N(−1, 1) [IVM2006]: crabs asks for a large one
    (log loss 0.23 with N(−1, 1), 0.17 with N(2, 1), 0.11 without any). Without any, the evidence of many rows
    runs to variances of thousands, and probabilities become overconfident.
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


def maximise(
    evaluate: Evaluate,
    state: State,
    start: Parameters,
    steps: int,
    save: Callable[[State], None],
    *,
    within: FloatArray | None = None,
) -> tuple[Parameters, float]:
    """Steps of L-BFGS-B from a start, at most twice as many evaluations; the value is minus the evidence.

    Each evaluation is given what the best one before it has left; the log remembers that for a resumed run.
    ``within`` bounds (p, 2) inducing inputs, which are learned then.
    """
    kernel, likelihoods, inducing = start
    vector, bounds = pack(kernel, likelihoods), pack_bounds(kernel, likelihoods)
    n_parameters = len(vector)
    if within is not None:
        vector = np.concatenate([vector, inducing.ravel()])
        bounds = np.concatenate([bounds, np.tile(within, (len(inducing), 1))])

    def parameters(point: FloatArray) -> Parameters:
        fitted, adapted = unpack(kernel, likelihoods, point[:n_parameters])
        moved = inducing if within is None else point[n_parameters:].reshape(inducing.shape)
        return Parameters(fitted, adapted, moved)

    def objective(point: FloatArray) -> tuple[float, FloatArray]:
        value, gradient, memory = evaluate(parameters(point), log.memory)
        if memory and value < log.smallest:
            log.memory = memory
        return value, gradient

    log = logged(objective, state, save)
    found, value = descend(log, vector, bounds, steps, 2 * steps)
    return parameters(found), value


def reach(inputs: FloatArray) -> FloatArray:
    """Bounds of inducing inputs, (p, 2): a quarter of the data's range beyond it on either side."""
    low, high = inputs.min(axis=0), inputs.max(axis=0)
    margin = 0.25 * (high - low) + 1e-6
    return np.stack([low - margin, high + margin], axis=1)
