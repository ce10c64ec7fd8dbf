"""What likelihoods share whose moments come together with 1 − aν, from a rule or in closed form."""

from __future__ import annotations

from abc import abstractmethod

import numpy.typing as npt

from streamgp.arrays import FloatArray
from streamgp.likelihoods.base import Likelihood, TiltedMoments, TiltedSites, as_rows
from streamgp.likelihoods.quadrature import sites_by_shrinkage, workspace_bytes


class IntegratedLikelihood(Likelihood):
    """A likelihood known by one function that gives log Z, slope, curvature and 1 − aν."""

    @abstractmethod
    def _moments(
        self, targets: FloatArray, mean: FloatArray, variance: FloatArray, power: float
    ) -> FloatArray:
        """Log Z, slope, curvature and 1 − aν of every row, then whatever gradients need: (4 or more, c)."""

    def tilted_moments(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> TiltedMoments:
        """Log Z, slope and curvature."""
        target, mean, variance = as_rows(targets, latent_mean, latent_variance)
        return TiltedMoments(*self._moments(target, mean, variance, power)[:3])

    def tilted_sites(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> TiltedSites:
        """Log Z and site, with 1 − aν integrated like the moments."""
        target, mean, variance = as_rows(targets, latent_mean, latent_variance)
        log_z, slope, curvature, shrinkage = self._moments(target, mean, variance, power)[:4]
        return sites_by_shrinkage(log_z, slope, curvature, shrinkage, mean)

    def workspace_bytes(self, rows: int, *, power: float = 1.0) -> int:
        """Results, float64 copies of the input, and the nodes of one block where the rule does not serve."""
        return 8 * 16 * rows + workspace_bytes(rows)
