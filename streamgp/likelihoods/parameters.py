"""Parameters of likelihoods that can be learned: names, values, bounds, priors, and vectors of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from streamgp.arrays import FloatArray
from streamgp.errors import ParameterError

# Standard deviation 5 of the prior on the bias: N(0, 25) in [IVM2006] section 6.1.
BIAS_PRIOR_VARIANCE = 25.0


class Parameter(NamedTuple):
    """A parameter that can be learned: as its logarithm if it is positive, else as it is."""

    name: str
    positive: bool
    lower: float
    upper: float
    prior_variance: float | None = None


BIAS = Parameter("bias", positive=False, lower=-30.0, upper=30.0, prior_variance=BIAS_PRIOR_VARIANCE)

# Targets with noise of a scale have variance 1: from a ten-thousandth of their spread to ten times it.
SCALE = Parameter("scale", positive=True, lower=math.log(1e-4), upper=math.log(10.0))


def checked_number(owner: str, name: str, value: object, *, positive: bool = False) -> float:
    """The value as a finite float, above zero if it has to be; anything else raises and names it."""
    allowed = "a finite number above zero" if positive else "a finite number"
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or (positive and number <= 0.0):
        raise ParameterError(f"{name} of {owner} is {value!r}; it must be {allowed}.")
    return number


class Parametric(ABC):
    """What all likelihoods share: frozen values that are known by their parameters, and can be saved."""

    @property
    @abstractmethod
    def parameter_table(self) -> tuple[tuple[Parameter, float], ...]:
        """The parameters that can be learned, and their values."""

    def with_values(self, values: dict[str, float]) -> Self:
        """The same likelihood with other values of the parameters of :attr:`parameter_table`.

        Right for a dataclass whose parameters are its fields; others say how theirs are made of them.
        """
        return replace(self, **values)  # type: ignore[type-var]

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Plain values for :func:`streamgp.likelihoods.likelihood_from_json`."""

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the entries of :attr:`parameters`; positive ones stand there as logarithms."""
        return tuple(f"log_{p.name}" if p.positive else p.name for p, _ in self.parameter_table)

    @property
    def parameters(self) -> FloatArray:
        """The learned parameters, unconstrained: logarithms of positive ones, others as they are."""
        return np.array([math.log(value) if p.positive else value for p, value in self.parameter_table])

    @property
    def bounds(self) -> FloatArray:
        """Lower and upper bound of each entry of :attr:`parameters` in learning, (n_parameters, 2)."""
        pairs = [(p.lower, p.upper) for p, _ in self.parameter_table]
        return np.array(pairs, dtype=np.float64).reshape(-1, 2)

    def with_parameters(self, vector: npt.ArrayLike) -> Self:
        """The same likelihood with another vector of :attr:`parameters`."""
        values = np.asarray(vector, dtype=np.float64)
        table = self.parameter_table
        if values.shape != (len(table),) or not np.all(np.isfinite(values)):
            raise ParameterError(
                f"{type(self).__name__} takes {len(table)} finite parameters {self.parameter_names}; "
                f"found {vector!r}."
            )
        pairs = zip(table, values, strict=True)
        return self.with_values({p.name: math.exp(v) if p.positive else float(v) for (p, _), v in pairs})

    def log_prior(self) -> tuple[float, FloatArray]:
        """Log hyperprior of :attr:`parameters` and its gradient: N(0, 25) on a bias, flat on all else.

        Source: [IVM2006] section 6.1.
        """
        total, gradient = 0.0, np.zeros(len(self.parameter_table))
        for i, (parameter, value) in enumerate(self.parameter_table):
            if parameter.prior_variance is not None:
                variance = parameter.prior_variance
                total -= 0.5 * (value**2 / variance + math.log(2.0 * math.pi * variance))
                gradient[i] = -value / variance
        return total, gradient
