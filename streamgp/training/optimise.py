"""Steps of L-BFGS-B that no interruption loses: every evaluation goes into the record that is saved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from scipy.optimize import minimize

from streamgp.arrays import FloatArray
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.persistence import EvaluationLog
from streamgp.persistence.evaluations import Objective

SCIPY_TOLERANCE = 2.220446049250313e-09
"""What SciPy ends at where nothing else is asked for."""
Evaluations = dict[str, FloatArray]
"""The log of an optimisation under way, as arrays; empty before its first evaluation."""


class Slopes(Protocol):
    """What one head contributes to an objective, and its gradients by the learned parameters."""

    @property
    def value(self) -> float:
        """The contribution."""

    @property
    def kernel_gradient(self) -> FloatArray:
        """Its gradient by ``kernel.log_parameters``."""

    @property
    def likelihood_gradient(self) -> FloatArray:
        """Its gradient by ``likelihood.parameters``."""


def logged(
    objective: Objective, evaluations: Evaluations, save: Callable[[Evaluations], None]
) -> EvaluationLog:
    """The objective, answered from earlier evaluations; ``save`` is given all of them after each new one."""
    return EvaluationLog(objective, evaluations or None, on_evaluation=lambda log: save(log.arrays()))


class OutOfTimeError(Exception):
    """Ends an optimisation between two evaluations, or within one."""


def in_time(is_late: Callable[[], bool]) -> Callable[[], None]:
    """What a long evaluation calls now and then: it raises when time is up."""

    def check() -> None:
        if is_late():
            raise OutOfTimeError

    return check


def descend(
    log: EvaluationLog,
    start: FloatArray,
    bounds: FloatArray | None,
    steps: int,
    evaluations: int,
    is_late: Callable[[], bool],
    *,
    tolerance: float = SCIPY_TOLERANCE,
) -> tuple[FloatArray, float]:
    """At most so many steps downhill: where they end, and the value there.

    No step is begun after so many evaluations, or after one that gained less than ``tolerance`` of the value.
    When time is up, the best point so far is the end, or the start, of unknown value.
    Shapes: start (n,), bounds (n, 2), None for none.
    """

    def evaluate(point: FloatArray) -> tuple[float, FloatArray]:
        if len(log) and not log.is_replaying and is_late():
            raise OutOfTimeError
        return log(point)

    start = start if bounds is None else np.clip(start, bounds[:, 0], bounds[:, 1])
    try:
        found = minimize(
            evaluate,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=None if bounds is None else list(bounds),
            options={"maxiter": steps, "maxfun": evaluations, "ftol": tolerance},
        )
    except OutOfTimeError:
        return log.best if len(log) else (start, np.inf)
    return np.asarray(found.x), float(found.fun)


def pack(kernel: Kernel, likelihoods: tuple[Likelihood, ...]) -> FloatArray:
    """All learned parameters as one vector: the kernel's, then each likelihood's."""
    return np.concatenate([kernel.log_parameters, *(likelihood.parameters for likelihood in likelihoods)])


def pack_bounds(kernel: Kernel, likelihoods: tuple[Likelihood, ...]) -> FloatArray:
    """The bounds of that vector, (n, 2)."""
    return np.concatenate([kernel.log_bounds, *(likelihood.bounds for likelihood in likelihoods)])


def unpack(
    kernel: Kernel, likelihoods: tuple[Likelihood, ...], vector: FloatArray
) -> tuple[Kernel, tuple[Likelihood, ...]]:
    """Kernel and likelihoods with the parameters of a vector."""
    sizes = [len(kernel.parameter_names), *(len(likelihood.parameter_names) for likelihood in likelihoods)]
    first, *rest = np.split(vector, np.cumsum(sizes)[:-1])
    pairs = zip(likelihoods, rest, strict=True)
    return kernel.with_log_parameters(first), tuple(like.with_parameters(part) for like, part in pairs)


def minus_log_evidence(found: Sequence[Slopes]) -> tuple[float, FloatArray]:
    """−log p(data), the log evidence of all heads, and its gradient by the packed vector."""
    kernel = -np.sum([result.kernel_gradient for result in found], axis=0)
    parts = [-np.asarray(result.likelihood_gradient) for result in found]
    return -float(sum(result.value for result in found)), np.concatenate([kernel, *parts])


def minus_log_posterior(
    prior: tuple[float, FloatArray],
    likelihoods: Sequence[Likelihood],
    found: Sequence[Slopes],
    *,
    sign: float = -1.0,
) -> tuple[float, FloatArray]:
    """−log p(parameters, data) and its gradient by the packed vector.

    ``prior`` is the log hyperprior of the kernel with its gradient, ``found`` has the log evidence of each
    head; where it has minus that, ``sign`` is 1.
    """
    value, gradient, parts = -prior[0], -prior[1], []
    for result, likelihood in zip(found, likelihoods, strict=True):
        own, own_gradient = likelihood.log_prior()
        value += sign * result.value - own
        gradient = gradient + sign * result.kernel_gradient
        parts.append(sign * result.likelihood_gradient - own_gradient)
    return float(value), np.concatenate([gradient, *parts])
