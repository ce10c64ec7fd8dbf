"""Real targets with outliers: noise whose tails fall off exponentially."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr

from streamgp.arrays import FloatArray
from streamgp.likelihoods.base import as_rows
from streamgp.likelihoods.integrated import IntegratedLikelihood
from streamgp.likelihoods.parameters import SCALE, Parameter, checked_number
from streamgp.numerics.scale_mixture import LAPLACE, mixture_sweep


@dataclass(frozen=True)
class Laplace(IntegratedLikelihood):
    """p(y|f) = exp(−|y − f|/scale)/(2 scale).

    Moments by :func:`streamgp.numerics.scale_mixture.mixture_sweep`. Log-concave: a target far away pulls no
    more than a near one. Targets are standardised: a scale of 1 is their standard deviation.

    Examples
    --------
    >>> Laplace(scale=0.5).predictive_variance([0.0], [1.0]).tolist()
    [1.5]
    """

    scale: float = 0.2

    expects_outliers = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checked_number("Laplace", "scale", self.scale, positive=True))

    @property
    def parameter_table(self) -> tuple[tuple[Parameter, float], ...]:
        """The scale."""
        return ((SCALE, self.scale),)

    def _moments(
        self, targets: FloatArray, mean: FloatArray, variance: FloatArray, power: float
    ) -> FloatArray:
        # exp(−q |r|) = ∫ q e^{−q² v/2} N(r; 0, v) dv
        rate = power / self.scale
        moments = np.empty((6, targets.size))
        mixture_sweep(LAPLACE, 1.0, 2.0 / rate**2, targets - mean, variance, moments)
        moments[0] += (
            math.log(2.0 / rate) - 0.5 * math.log(2.0 * math.pi) - power * math.log(2.0 * self.scale)
        )
        return moments

    def parameter_gradient(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> FloatArray:
        """Gradient by log scale: 2 G − power, G of :func:`mixture_sweep`.  Shape: (1, c)."""
        target, mean, variance = as_rows(targets, latent_mean, latent_variance)
        by_spread: FloatArray = self._moments(target, mean, variance, power)[4:5]
        return 2.0 * by_spread - power

    def predictive_mean(self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike) -> FloatArray:
        """The latent mean, (c,)."""
        return as_rows(latent_mean, latent_variance)[0]

    def predictive_variance(self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike) -> FloatArray:
        """Latent variance plus 2 scale², (c,)."""
        return np.maximum(as_rows(latent_mean, latent_variance)[1], 0.0) + 2.0 * self.scale**2

    def mass_below(
        self, targets: npt.ArrayLike, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike
    ) -> FloatArray:
        """Distribution function of noise and function together, (c,).

        Φ(z) + ½ e^{q²/2} (e^{qz} Φ(−z − q) − e^{−qz} Φ(z − q)),  z = (y − h)/√a,  q = √a/scale
        """
        target, mean, variance = as_rows(targets, latent_mean, latent_variance)
        root = np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny))
        z, q = (target - mean) / root, root / self.scale
        left, right = (np.exp(0.5 * q**2 + sign * q * z + log_ndtr(-sign * z - q)) for sign in (1.0, -1.0))
        return np.asarray(ndtr(z) + 0.5 * (left - right))

    def to_json(self) -> dict[str, Any]:
        """Plain values for :func:`streamgp.likelihoods.likelihood_from_json`."""
        return {"kind": "Laplace", "scale": self.scale}
