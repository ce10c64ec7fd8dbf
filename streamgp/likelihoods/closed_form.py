"""One compiled sweep over a chunk, for the likelihoods whose moments have a closed form."""

from __future__ import annotations

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.likelihoods.base import TiltedMoments, TiltedSites
from streamgp.numerics.moments import moments_sweep, sites_sweep


def swept_moments(family: int, parameter: float, columns: tuple[FloatArray, ...]) -> TiltedMoments:
    """Moments of every row; columns are targets, latent mean and variance from :func:`as_rows`."""
    targets, mean, variance = columns
    moments = np.empty((3, targets.size))
    moments_sweep(family, np.array([parameter]), targets, mean, variance, moments)
    return TiltedMoments(*moments)


def swept_sites(family: int, parameter: float, columns: tuple[FloatArray, ...]) -> TiltedSites:
    """Sites of every row; columns as in :func:`swept_moments`."""
    targets, mean, variance = columns
    sites = np.empty((3, targets.size))
    sites_sweep(family, np.array([parameter]), targets, mean, variance, sites)
    return TiltedSites(*sites)
