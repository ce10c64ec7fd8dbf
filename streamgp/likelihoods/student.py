"""Real targets with outliers: noise whose tails fall off as a power."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, gammaln

from streamgp.arrays import FloatArray
from streamgp.likelihoods.base import as_rows
from streamgp.likelihoods.integrated import IntegratedLikelihood
from streamgp.likelihoods.parameters import SCALE, Parameter, checked_number
from streamgp.numerics.scale_mixture import STUDENT, mixture_sweep, student_mass

LEAST_DEGREES, MOST_DEGREES = 2.1, 100.0
"""Degrees of freedom that learning may reach: with two or fewer there is no variance."""


@dataclass(frozen=True)
class StudentT(IntegratedLikelihood):
    """p(y|f) = t_degrees((y − f)/scale)/scale, Student's density with so many degrees of freedom.

    Moments by :func:`streamgp.numerics.scale_mixture.mixture_sweep`. Not log-concave: a target far from what
    all others say has a site of next to no precision, and is ignored. Targets are standardised: a scale of 1
    is their standard deviation.

    Examples
    --------
    >>> StudentT(scale=0.5, degrees=4.0).predictive_variance([0.0], [1.0]).tolist()
    [1.5]
    """

    scale: float = 0.3
    degrees: float = 4.0

    expects_outliers = True

    def __post_init__(self) -> None:
        for name in ("scale", "degrees"):
            value = checked_number("StudentT", name, getattr(self, name), positive=True)
            object.__setattr__(self, name, value)

    @property
    def parameter_table(self) -> tuple[tuple[Parameter, float], ...]:
        """Scale and degrees of freedom."""
        # Values outside of the bounds can be given, and learning starts from them.
        low, high = min(LEAST_DEGREES, self.degrees), max(MOST_DEGREES, self.degrees)
        degrees = Parameter("degrees", positive=True, lower=math.log(low), upper=math.log(high))
        return (SCALE, self.scale), (degrees, self.degrees)

    def _moments(
        self, targets: FloatArray, mean: FloatArray, variance: FloatArray, power: float
    ) -> FloatArray:
        shape, spread = 0.5 * power * (self.degrees + 1.0), 0.5 * self.degrees * self.scale**2
        moments = np.empty((6, targets.size))
        mixture_sweep(STUDENT, shape, spread, targets - mean, variance, moments)
        half = 0.5 * self.degrees
        peak = gammaln(half + 0.5) - gammaln(half) - 0.5 * math.log(math.pi * self.degrees)
        moments[0] += power * (peak - math.log(self.scale)) + 0.5 * math.log(spread) - gammaln(shape)
        return moments

    def parameter_gradient(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> FloatArray:
        """Gradients by log scale and log degrees, through the normal components of the density.

        By log scale: 2 G − power;  by log degrees: ν (power/2) (ψ(½ν + ½) − ψ(½ν) − 1/ν + E[u] − ψ(k)) + G
        G, E[u] of :func:`mixture_sweep`, k = ½ power (ν + 1).  Shapes: (2, c).
        """
        target, mean, variance = as_rows(targets, latent_mean, latent_variance)
        by_spread, log_mixing = self._moments(target, mean, variance, power)[4:]
        half, shape = 0.5 * self.degrees, 0.5 * power * (self.degrees + 1.0)
        constant = digamma(half + 0.5) - digamma(half) - 1.0 / self.degrees - digamma(shape)
        by_degrees = half * power * (constant + log_mixing) + by_spread
        return np.stack([2.0 * by_spread - power, by_degrees])

    def predictive_mean(self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike) -> FloatArray:
        """The latent mean, (c,)."""
        return as_rows(latent_mean, latent_variance)[0]

    def predictive_variance(self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike) -> FloatArray:
        """Latent variance plus scale² ν/(ν − 2), (c,); infinite for two degrees of freedom or fewer."""
        noise = self.scale**2 * self.degrees / (self.degrees - 2.0) if self.degrees > 2.0 else math.inf
        return np.maximum(as_rows(latent_mean, latent_variance)[1], 0.0) + noise

    def mass_below(
        self, targets: npt.ArrayLike, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike
    ) -> FloatArray:
        """Distribution function of noise and function together, (c,); see :func:`student_mass`."""
        target, mean, variance = as_rows(targets, latent_mean, latent_variance)
        return student_mass(self.scale, self.degrees, target - mean, variance)

    def to_json(self) -> dict[str, Any]:
        """Plain values for :func:`streamgp.likelihoods.likelihood_from_json`."""
        return {"kind": "StudentT", "scale": self.scale, "degrees": self.degrees}
