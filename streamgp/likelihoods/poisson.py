"""Counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from streamgp.arrays import FloatArray
from streamgp.likelihoods.base import Domain, as_rows
from streamgp.likelihoods.integrand import Density
from streamgp.likelihoods.integrated import IntegratedLikelihood
from streamgp.likelihoods.parameters import BIAS, Parameter, checked_number
from streamgp.likelihoods.quadrature import tilted_quadrature
from streamgp.numerics.poisson import poisson_sweep

_LARGEST_LOG = 690.0


@dataclass(frozen=True)
class Poisson(IntegratedLikelihood):
    """Counts 0, 1, 2, … of rate exp(f + bias).

    Targets are passed as they are. The bias is the constant of the latent function; None, the default, is the
    log of the targets' mean where a fit starts (0 before), and learning goes on from there.
    Moments by :func:`streamgp.numerics.poisson.poisson_sweep`, above variance 1e4 by adaptive quadrature.

    Examples
    --------
    >>> Poisson(bias=1.0).predictive_mean([0.0], [0.5]).round(4).tolist()
    [3.4903]
    """

    bias: float | None = None
    scales_targets = False

    def __post_init__(self) -> None:
        if self.bias is not None:
            object.__setattr__(self, "bias", checked_number("Poisson", "bias", self.bias))

    @property
    def domain(self) -> Domain:
        """Whole numbers from 0."""
        return Domain(lowest=0.0, whole=True)

    @property
    def _shift(self) -> float:
        return 0.0 if self.bias is None else self.bias

    @property
    def parameter_table(self) -> tuple[tuple[Parameter, float], ...]:
        """The bias."""
        return ((BIAS, self._shift),)

    def started(self, targets: FloatArray) -> Poisson:
        """With the log of the mean count as bias, unless one was given."""
        if self.bias is not None:
            return self
        return Poisson(math.log(max(float(np.mean(targets)), 0.5 / len(targets))))

    def _moments(
        self, targets: FloatArray, mean: FloatArray, variance: FloatArray, power: float
    ) -> FloatArray:
        moments = np.empty((4, targets.size))
        poisson_sweep(power, targets, mean + self._shift, variance, moments)
        left = np.flatnonzero(moments[3] < 0.0)
        if left.size:
            wide = self._density().raised(power)
            moments[:, left] = tilted_quadrature(wide, targets[left], mean[left], variance[left])[:4]
        moments[0] -= power * gammaln(targets + 1.0)
        return moments

    def _density(self) -> Density:
        """Without the factorial."""

        def rate(latent: FloatArray) -> FloatArray:
            return np.asarray(np.exp(np.minimum(latent + self._shift, _LARGEST_LOG)))

        return Density(
            "Poisson",
            lambda targets, latent: targets * (latent + self._shift) - rate(latent),
            lambda targets, latent: targets - rate(latent),
            lambda targets, latent: -rate(latent),
        )

    def parameter_gradient(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> FloatArray:
        """Gradient d log Z/d bias, the slope: bias and latent mean enter as a sum.  Shape: (1, c)."""
        return self.tilted_moments(targets, latent_mean, latent_variance, power=power).log_z_slope[None, :]

    def predictive_mean(self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike) -> FloatArray:
        """E[e^{f + bias}] = e^{h + bias + a/2}, (c,)."""
        mean, variance = as_rows(latent_mean, latent_variance)
        return np.exp(np.minimum(mean + self._shift + 0.5 * np.maximum(variance, 0.0), _LARGEST_LOG))

    def predictive_variance(self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike) -> FloatArray:
        """μ + μ² (eᵃ − 1), μ the mean, (c,)."""
        mean, variance = as_rows(latent_mean, latent_variance)
        rate = self.predictive_mean(mean, variance)
        with np.errstate(over="ignore"):
            found = rate + rate * (rate * np.expm1(np.minimum(np.maximum(variance, 0.0), _LARGEST_LOG)))
        return np.minimum(found, 1e300)

    def to_json(self) -> dict[str, Any]:
        """Plain values for :func:`streamgp.likelihoods.likelihood_from_json`."""
        return {"kind": "Poisson", "bias": self.bias}
