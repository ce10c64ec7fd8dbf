"""Real targets with normal noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgp.arrays import FloatArray
from streamgp.errors import ParameterError
from streamgp.likelihoods.base import Likelihood, TiltedMoments, TiltedSites, as_rows
from streamgp.likelihoods.closed_form import swept_moments, swept_sites
from streamgp.likelihoods.parameters import Parameter, checked_number
from streamgp.likelihoods.student import StudentT
from streamgp.numerics.moments import GAUSSIAN

# Targets of a regression have variance 1: noise from 1e-8 (a ten-thousandth of the spread) to 100.
NOISE = Parameter("noise", positive=True, lower=math.log(1e-8), upper=math.log(100.0))


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """p(y|f) = N(y; f, noise), noise a variance.

    ``degrees``: where rows that were left out show longer tails than a normal has, noise is told by
    Student's density of the same variance, with so many degrees of freedom (more than 2), in densities and
    intervals alike; doubt about the function stays normal, and inference that of normal noise.

    Examples
    --------
    >>> Gaussian(noise=0.25).predictive_variance([0.0], [1.0]).tolist()
    [1.25]
    """

    noise: float = 0.1
    degrees: float | None = None
    family = GAUSSIAN

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", checked_number("Gaussian", "noise", self.noise, positive=True))
        if self.degrees is not None:
            degrees = checked_number("Gaussian", "degrees", self.degrees, positive=True)
            if degrees <= 2.0:
                raise ParameterError(f"Gaussian needs more than 2 degrees of freedom, not {degrees!r}")
            object.__setattr__(self, "degrees", degrees)

    def __repr__(self) -> str:
        tails = "" if self.degrees is None else f", degrees={self.degrees!r}"
        return f"Gaussian(noise={self.noise!r}{tails})"

    @property
    def parameter_table(self) -> tuple[tuple[Parameter, float], ...]:
        """The noise variance."""
        return ((NOISE, self.noise),)

    def _log_scale(self, power: float) -> float:
        """N(y; f, σ²)^power = N(y; f, σ²/power) exp(this)."""
        return 0.5 * (1.0 - power) * math.log(2.0 * math.pi * self.noise) - 0.5 * math.log(power)

    def tilted_moments(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> TiltedMoments:
        """Closed form of log Z, slope, curvature; see :func:`streamgp.numerics.moments.gaussian_moments`."""
        columns = as_rows(targets, latent_mean, latent_variance)
        moments = swept_moments(GAUSSIAN, self.noise / power, columns)
        return moments._replace(log_z=moments.log_z + self._log_scale(power))

    def tilted_sites(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> TiltedSites:
        """Log Z and the site, which is the likelihood itself: π = power/noise, b = π y."""
        columns = as_rows(targets, latent_mean, latent_variance)
        sites = swept_sites(GAUSSIAN, self.noise / power, columns)
        return sites._replace(log_z=sites.log_z + self._log_scale(power))

    def parameter_gradient(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> FloatArray:
        """Gradient d log Z/d log noise = ½ power (E[(y − f)²]/noise − 1), E tilted.  Shape: (1, c).

        Source: [IVM2006] eq. 12.
        """
        target, mean, variance = as_rows(targets, latent_mean, latent_variance)
        variance = np.maximum(variance, 0.0)
        effective = self.noise / power
        # Tilted residual (y − h) σ²/(a + σ²) and variance a σ²/(a + σ²), each divided by σ²: nothing cancels.
        share = 1.0 / (variance + effective)
        expected = ((target - mean) * share) ** 2 * effective + variance * share
        return (0.5 * (expected - power))[None, :]

    def log_predictive_density(
        self, targets: npt.ArrayLike, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike
    ) -> FloatArray:
        """Log density of each target: log Z, or that of Student's noise of the same variance, (c,)."""
        if self.degrees is None:
            return super().log_predictive_density(targets, latent_mean, latent_variance)
        return self._tails(self.degrees).log_predictive_density(targets, latent_mean, latent_variance)

    def mass_below(
        self, targets: npt.ArrayLike, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike
    ) -> FloatArray:
        """Distribution function of the density that :meth:`log_predictive_density` tells, (c,)."""
        if self.degrees is None:
            return super().mass_below(targets, latent_mean, latent_variance)
        return self._tails(self.degrees).mass_below(targets, latent_mean, latent_variance)

    def _tails(self, degrees: float) -> StudentT:
        """Student's noise of the same variance."""
        return StudentT(math.sqrt(self.noise * (degrees - 2.0) / degrees), degrees)

    def predictive_mean(self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike) -> FloatArray:
        """The latent mean, (c,)."""
        return as_rows(latent_mean, latent_variance)[0]

    def predictive_variance(self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike) -> FloatArray:
        """Latent variance plus noise, (c,)."""
        return np.maximum(as_rows(latent_mean, latent_variance)[1], 0.0) + self.noise

    def workspace_bytes(self, rows: int, *, power: float = 1.0) -> int:
        """Result and float64 copies of the input."""
        tails = 0 if self.degrees is None else self._tails(self.degrees).workspace_bytes(rows)
        return max(tails, 8 * 8 * rows)

    def to_json(self) -> dict[str, Any]:
        """Plain values for :func:`streamgp.likelihoods.likelihood_from_json`."""
        tails = {} if self.degrees is None else {"degrees": self.degrees}
        return {"kind": "Gaussian", "noise": self.noise, **tails}
