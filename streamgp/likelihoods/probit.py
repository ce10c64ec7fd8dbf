"""Two classes through the normal distribution function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from streamgp.arrays import FloatArray
from streamgp.likelihoods.base import Likelihood, TiltedMoments, TiltedSites, as_rows
from streamgp.likelihoods.closed_form import swept_moments, swept_sites
from streamgp.likelihoods.integrand import Density
from streamgp.likelihoods.parameters import BIAS, Parameter, checked_number
from streamgp.likelihoods.quadrature import sites_by_shrinkage, workspace_bytes
from streamgp.likelihoods.sigmoid import sigmoid_rows
from streamgp.numerics.moments import PROBIT
from streamgp.numerics.noise import NORMAL
from streamgp.numerics.normal import normal_terms_array


@dataclass(frozen=True)
class Probit(Likelihood):
    """p(y|f) = Φ(y (f + bias)) for y in {−1, +1}, Φ the standard normal distribution function.

    Closed form; with a power other than 1 by :func:`streamgp.numerics.sigmoid.sigmoid_sweep`.
    Source: [IVM2006] B.1.

    Examples
    --------
    >>> Probit(bias=0.5).positive_probability([0.0, 2.0], [1.0, 1.0]).round(4).tolist()
    [0.6382, 0.9615]
    """

    bias: float = 0.0
    is_classification = True
    family = PROBIT

    def __post_init__(self) -> None:
        object.__setattr__(self, "bias", checked_number("Probit", "bias", self.bias))

    @property
    def parameter_table(self) -> tuple[tuple[Parameter, float], ...]:
        """The bias."""
        return ((BIAS, self.bias),)

    def _density(self, power: float) -> Density:
        def margin(targets: FloatArray, latent: FloatArray) -> FloatArray:
            return targets * (latent + self.bias)

        return Density(
            "Probit",
            lambda targets, latent: normal_terms_array(margin(targets, latent))[0],
            lambda targets, latent: targets * normal_terms_array(margin(targets, latent))[1],
            lambda targets, latent: -normal_terms_array(margin(targets, latent))[2],
        ).raised(power)

    def _powered(self, columns: tuple[FloatArray, ...], power: float) -> FloatArray:
        """Log Z, slope, curvature and 1 − aν of every row with a power other than 1, (4, c)."""
        return sigmoid_rows(NORMAL, self._density(power), self.bias, power, columns)

    def tilted_moments(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> TiltedMoments:
        """Closed form of log Z, slope, curvature; see :func:`streamgp.numerics.moments.probit_moments`."""
        columns = as_rows(targets, latent_mean, latent_variance)
        if power != 1.0:
            return TiltedMoments(*self._powered(columns, power)[:3])
        return swept_moments(PROBIT, self.bias, columns)

    def tilted_sites(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> TiltedSites:
        """Closed form of log Z and site; see :func:`streamgp.numerics.moments.probit_site`."""
        columns = as_rows(targets, latent_mean, latent_variance)
        if power != 1.0:
            log_z, slope, curvature, shrinkage = self._powered(columns, power)
            return sites_by_shrinkage(log_z, slope, curvature, shrinkage, columns[1])
        return swept_sites(PROBIT, self.bias, columns)

    def parameter_gradient(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> FloatArray:
        """Gradient d log Z/d bias, which is the slope: bias and latent mean enter as a sum.  Shape: (1, c).

        Source: [IVM2006] eq. 13.
        """
        return self.tilted_moments(targets, latent_mean, latent_variance, power=power).log_z_slope[None, :]

    def workspace_bytes(self, rows: int, *, power: float = 1.0) -> int:
        """Result and float64 copies of the input; with a power other than 1 the nodes of the quadrature."""
        return 8 * 6 * rows + (0 if power == 1.0 else workspace_bytes(rows))

    def to_json(self) -> dict[str, Any]:
        """Plain values for :func:`streamgp.likelihoods.likelihood_from_json`."""
        return {"kind": "Probit", "bias": self.bias}
