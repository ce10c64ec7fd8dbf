"""How far the posterior's variances are to be trusted, from rows that it has not learned.

A sparse posterior ignores what rows outside of the active set say. They would have shrunk its variances, so
these are too large: probabilities are too modest. One factor on all latent variances, chosen by the log
density of rows that were left out, puts that right; means and decisions stay.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.likelihoods import Likelihood

FloatArray = NDArray[np.float64]

VARIANCE_SCALES: FloatArray = np.geomspace(1 / 64, 4.0, 33)
"""Factors that are tried; the best one is refined by a parabola."""


def density_by_scale(
    likelihood: Likelihood, targets: FloatArray, mean: FloatArray, variance: FloatArray
) -> FloatArray:
    """Sum of log p(y | h, ρ a) over rows, for every factor ρ of :data:`VARIANCE_SCALES`.

    Shapes: targets, mean, variance (c,) → (scales,).  Cost: O(c scales).
    """
    return np.array(
        [
            likelihood.log_predictive_density(targets, mean, scale * variance).sum()
            for scale in VARIANCE_SCALES
        ]
    )


def best_scale(densities: FloatArray) -> tuple[float, float]:
    """The factor of largest summed log density, and that density.

    The maximum of the parabola in log ρ through the best factor and its neighbours.
    Shapes: densities (scales,).
    """
    best = int(np.argmax(densities))
    if best in (0, len(densities) - 1):
        return float(VARIANCE_SCALES[best]), float(densities[best])
    below, here, above = densities[best - 1 : best + 2]
    curvature = below - 2.0 * here + above
    offset = 0.5 * (below - above) / curvature if curvature < 0 else 0.0
    step = np.log(VARIANCE_SCALES[1] / VARIANCE_SCALES[0])
    return float(VARIANCE_SCALES[best] * np.exp(offset * step)), float(here - 0.25 * (below - above) * offset)
