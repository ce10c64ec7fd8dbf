"""A likelihood given by its log density."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from streamgp.arrays import FloatArray
from streamgp.errors import ParameterError
from streamgp.likelihoods.base import Likelihood, TiltedMoments, TiltedSites, as_rows
from streamgp.likelihoods.integrand import Density, DensityFunction
from streamgp.likelihoods.parameters import BIAS, Parameter, checked_number
from streamgp.likelihoods.quadrature import (
    quadrature_moments,
    quadrature_sites,
    target_moments,
    tilted_quadrature,
    workspace_bytes,
)
from streamgp.likelihoods.registry import registered

ParametricFunction = Callable[..., npt.NDArray[np.floating]]

# Fourth-order central difference in a parameter: truncation δ⁴ and rounding ε/δ meet near here.
_PARAMETER_STEP = 2.0**-9
START_ROWS = 1000
"""Targets that choose the bias from which learning starts."""


def _checked_parameters(
    name: str, parameters: Mapping[str, float], positive: Collection[str]
) -> tuple[tuple[str, float], ...]:
    if not set(positive) <= set(parameters):
        raise ParameterError(
            f"positive of likelihood {name!r} is {sorted(positive)}; its parameters are {sorted(parameters)}."
        )
    return tuple(
        (key, checked_number(f"likelihood {name!r}", key, value, positive=key in positive))
        for key, value in parameters.items()
    )


@dataclass(frozen=True, init=False, repr=False)
class Custom(Likelihood):
    """A likelihood that is known by its vectorised NumPy log density.

    Parameters
    ----------
    log_density
        ``log_density(targets, latent, **parameters)``: log p(y|f) for float64 arrays of one shape. Concave in
        the latent value; where it is not, or not finite, a NumericsWarning names the likelihood.
    name
        For messages, and for saving (:func:`streamgp.likelihoods.register_likelihood`).
    parameters
        Values of the density's own parameters, which can be learned.
    positive
        Names of those that are above zero; they are learned as logarithms.
    score, score_derivative
        d log p/df and d² log p/df², called like ``log_density``; more accurate if given, both or none.
    parameter_derivative
        ``parameter_derivative(targets, latent, **parameters)``: mapping from each parameter's name to the
        derivative of log p by it; by finite differences if absent.
    target_mean, target_variance
        Mean and variance of a target given the latent value, ``target_mean(latent, **parameters)``; needed
        only for ``predictive_mean`` and ``predictive_variance`` of a regression.
    is_classification
        Whether the targets are −1 and +1.
    scales_targets
        Whether real targets may be shifted to mean 0 and scaled to variance 1. By default they are passed as
        they are, which counts or positive numbers need. Then the latent function has a constant ``bias``,
        learned with the parameters (unless one of them has this name): functions are called with f + bias.
    bias
        That constant; None: the one of largest likelihood where a fit starts.

    Examples
    --------
    >>> import numpy as np
    >>> laplace = Custom(lambda y, f: -np.abs(y - f) - np.log(2.0), name="laplace")
    >>> laplace.log_predictive_density([0.0], [0.0], [1.0]).round(4).tolist()
    [-1.341]
    """

    log_density: ParametricFunction
    name: str
    parameter_values: tuple[tuple[str, float], ...]
    positive: frozenset[str]
    score: ParametricFunction | None
    score_derivative: ParametricFunction | None
    parameter_derivative: Callable[..., Mapping[str, npt.NDArray[np.floating]]] | None
    target_mean: ParametricFunction | None
    target_variance: ParametricFunction | None
    is_classification: bool = False
    scales_targets: bool = False
    bias: float | None = None

    def __init__(
        self,
        log_density: ParametricFunction,
        name: str = "custom",
        parameters: Mapping[str, float] | None = None,
        *,
        positive: Collection[str] = (),
        score: ParametricFunction | None = None,
        score_derivative: ParametricFunction | None = None,
        parameter_derivative: Callable[..., Mapping[str, npt.NDArray[np.floating]]] | None = None,
        target_mean: ParametricFunction | None = None,
        target_variance: ParametricFunction | None = None,
        is_classification: bool = False,
        scales_targets: bool = False,
        bias: float | None = None,
    ) -> None:
        if not callable(log_density):
            raise ParameterError(
                f"log_density of likelihood {name!r} is {log_density!r}; it must be a function."
            )
        if (score is None) != (score_derivative is None):
            raise ParameterError(
                f"Likelihood {name!r} has one of score and score_derivative; give both or none."
            )
        values = _checked_parameters(name, parameters or {}, positive)
        fields = {
            "log_density": log_density,
            "name": str(name),
            "parameter_values": values,
            "positive": frozenset(positive),
            "score": score,
            "score_derivative": score_derivative,
            "parameter_derivative": parameter_derivative,
            "target_mean": target_mean,
            "target_variance": target_variance,
            "is_classification": bool(is_classification),
            "scales_targets": bool(scales_targets),
            "bias": None if bias is None else checked_number(f"likelihood {name!r}", "bias", bias),
        }
        for key, value in fields.items():
            object.__setattr__(self, key, value)
        if bias is not None and not self.has_bias:
            raise ParameterError(
                f"bias of likelihood {name!r} is {bias!r}; classes, scaled targets and likelihoods with a "
                f"parameter of that name have no other."
            )

    @property
    def has_bias(self) -> bool:
        """Whether a constant of the latent function is learned."""
        taken = "bias" in dict(self.parameter_values)
        return not (self.is_classification or self.scales_targets or taken)

    @property
    def _shift(self) -> float:
        return 0.0 if self.bias is None else self.bias

    def __repr__(self) -> str:
        values = "".join(f", {key}={value!r}" for key, value in self.parameter_values)
        bias = "" if self.bias is None else f", bias={self.bias!r}"
        return f"Custom({self.name!r}{values}{bias})"

    @property
    def parameter_table(self) -> tuple[tuple[Parameter, float], ...]:
        """The parameters of the density, without bounds or priors of their own, and the bias."""
        limit = math.log(1e6)
        own = tuple(
            (
                Parameter(key, True, -limit, limit)
                if key in self.positive
                else Parameter(key, False, -1e6, 1e6),
                value,
            )
            for key, value in self.parameter_values
        )
        return (*own, (BIAS, self._shift)) if self.has_bias else own

    def with_values(self, values: Mapping[str, float]) -> Custom:
        """The same likelihood with other parameters."""
        known = {**dict(self.parameter_values), **values}
        bias = known.pop("bias", self.bias) if self.has_bias else None
        return Custom(
            self.log_density,
            self.name,
            known,
            positive=self.positive,
            score=self.score,
            score_derivative=self.score_derivative,
            parameter_derivative=self.parameter_derivative,
            target_mean=self.target_mean,
            target_variance=self.target_variance,
            is_classification=self.is_classification,
            scales_targets=self.scales_targets,
            bias=bias,
        )

    def started(self, targets: FloatArray) -> Custom:
        """With the bias that makes some targets most likely, all with the same latent value."""
        if not self.has_bias or self.bias is not None:
            return self
        some = np.asarray(targets[:START_ROWS], np.float64)
        density = self._density()

        def misfit(bias: float) -> float:
            return -float(density.values(some, np.full_like(some, bias))[0].sum())

        with np.errstate(all="ignore"):
            grid = np.linspace(BIAS.lower, BIAS.upper, 121)
            best = grid[int(np.argmin([misfit(bias) for bias in grid]))]
            found = minimize_scalar(misfit, bounds=(best - 1.0, best + 1.0), method="bounded")
        return self.with_values({"bias": float(np.clip(found.x, BIAS.lower, BIAS.upper))})

    def _bound(self, function: ParametricFunction) -> DensityFunction:
        values, shift = dict(self.parameter_values), self._shift
        if shift == 0.0:
            return lambda targets, latent: function(targets, latent, **values)
        return lambda targets, latent: function(targets, latent + shift, **values)

    def _density(self, power: float = 1.0) -> Density:
        return Density(
            self.name,
            self._bound(self.log_density),
            None if self.score is None else self._bound(self.score),
            None if self.score_derivative is None else self._bound(self.score_derivative),
        ).raised(power)

    def tilted_moments(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> TiltedMoments:
        """Log Z, slope, curvature; see :func:`streamgp.likelihoods.quadrature.tilted_quadrature`."""
        return quadrature_moments(self._density(power), *as_rows(targets, latent_mean, latent_variance))

    def tilted_sites(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> TiltedSites:
        """Log Z and site by quadrature; see :func:`streamgp.likelihoods.quadrature.quadrature_sites`."""
        return quadrature_sites(self._density(power), *as_rows(targets, latent_mean, latent_variance))

    def _derivative_in(self, entry: int) -> DensityFunction:
        """∂ log p/∂θ for one entry θ of :attr:`parameters`, as a function of (targets, latent)."""
        key, value = self.parameter_values[entry]
        if self.parameter_derivative is not None:
            derivative, values = self.parameter_derivative, dict(self.parameter_values)
            # By the logarithm of a positive parameter: its derivative times its value.
            factor = value if key in self.positive else 1.0
            shift = self._shift
            return lambda targets, latent: (
                factor * np.asarray(derivative(targets, latent + shift, **values)[key])
            )

        def difference(targets: FloatArray, latent: FloatArray) -> FloatArray:
            step = _PARAMETER_STEP * (1.0 if key in self.positive else max(1.0, abs(value)))
            total = np.zeros_like(latent)
            for places, weight in ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12)):
                vector = self.parameters
                vector[entry] += places * step
                total += weight * self.with_parameters(vector)._density().values(targets, latent)[0]
            return total / step

        return difference

    def parameter_gradient(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> FloatArray:
        """Gradient d log Z/dθ = E[∂ log p/∂θ] under the tilted density; by differences unless given.

        Shapes: (n_parameters, c).  Hazard: differences are good to about 1e-9.  Source: [IVM2006] eq. 12.
        """
        target, mean, variance = as_rows(targets, latent_mean, latent_variance)
        functions = [self._derivative_in(entry) for entry in range(len(self.parameter_values))]
        found = tilted_quadrature(self._density(power), target, mean, variance, functions)
        by_parameter = power * found.expectations
        # Bias and latent mean enter as a sum.
        return np.vstack([by_parameter, found.log_z_slope]) if self.has_bias else by_parameter

    def predictive_mean(self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike) -> FloatArray:
        """Mean of a new target, (c,): of the two classes, or E[target_mean(f)]."""
        if self.is_classification:
            return super().predictive_mean(latent_mean, latent_variance)
        mean, variance = as_rows(latent_mean, latent_variance)
        return target_moments(self.name, mean, variance, self._target_function("target_mean"))[0]

    def predictive_variance(self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike) -> FloatArray:
        """Variance of a new target, (c,): E[target_variance(f)] + Var[target_mean(f)]."""
        if self.is_classification:
            return super().predictive_variance(latent_mean, latent_variance)
        mean, variance = as_rows(latent_mean, latent_variance)
        given_mean, given_variance = (
            self._target_function("target_mean"),
            self._target_function("target_variance"),
        )
        return target_moments(self.name, mean, variance, given_mean, given_variance)[1]

    def _target_function(self, key: str) -> Callable[[FloatArray], FloatArray]:
        function: ParametricFunction | None = getattr(self, key)
        if function is None:
            raise ParameterError(f"Likelihood {self.name!r} has no {key}; give Custom(..., {key}=...).")
        values, known, shift = dict(self.parameter_values), function, self._shift
        return lambda latent: np.asarray(known(latent + shift, **values), dtype=np.float64)

    def workspace_bytes(self, rows: int, *, power: float = 1.0) -> int:
        """Result, float64 copies of the input, and the nodes of one block of rows."""
        return 8 * 6 * rows + workspace_bytes(rows)

    def to_json(self) -> dict[str, Any]:
        """Name and parameters, if the name is registered: a function itself cannot be written."""
        registered(self.name)
        return {
            "kind": "Custom",
            "name": self.name,
            "parameters": dict(self.parameter_values),
            "positive": sorted(self.positive),
            "is_classification": self.is_classification,
            "scales_targets": self.scales_targets,
            "bias": self.bias,
        }
