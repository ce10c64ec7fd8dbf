"""Steps of L-BFGS-B that no interruption loses: every evaluation goes into the state that is saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.persistence import EvaluationLog
from streamgp.persistence.evaluations import Objective
from streamgp.training.state import State

FloatArray = NDArray[np.float64]


def logged(objective: Objective, state: State, save: Callable[[State], None]) -> EvaluationLog:
    """The objective, answered from what the state remembers and saved with it after every evaluation."""
    return EvaluationLog(
        objective,
        state.evaluations or None,
        on_evaluation=lambda log: save(replace(state, evaluations=log.arrays())),
    )


def descend(
    log: EvaluationLog, start: FloatArray, bounds: FloatArray, steps: int, evaluations: int
) -> tuple[FloatArray, float]:
    """At most so many steps and evaluations downhill: where they end, and the value there.

    Shapes: start (n,), bounds (n, 2).
    """
    found = minimize(
        log.__call__,
        np.clip(start, bounds[:, 0], bounds[:, 1]),
        jac=True,
        method="L-BFGS-B",
        bounds=list(bounds),
        options={"maxiter": steps, "maxfun": evaluations},
    )
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
