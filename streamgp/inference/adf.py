"""Assumed density filtering: every site is visited once, in the order of the active set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.inference.sites import Sites
from streamgp.likelihoods import Likelihood

FloatArray = NDArray[np.float64]


def filter_sites(gram: FloatArray, targets: FloatArray, likelihood: Likelihood) -> Sites:
    """Sites of the active rows, each set by one EP update when its turn comes.

    π = ν/(1 − a ν),  b = (α + ν h)/(1 − a ν)
    l = √π M[i],  ℓ² = 1 + π k_ii − lᵀl,  new column of M: μ = (√π k_i − M l)/ℓ,  a −= μ²,  h += α ℓ π^(−½) μ
    α, ν slope and curvature of log Z at the current marginal (h, a) of row i; k_i column of gram.
    Shapes: gram (d, d), targets (d,).  Cost: O(d³).
    Hazard: a is a difference; it is clamped at zero.  Source: [IVM2003] eq. 2, 3 with the active set given.
    """
    active = len(gram)
    stubs = np.zeros((active, active), order="F")
    mean, variance = np.zeros(active), np.diag(gram).copy()
    sites = Sites(np.zeros(active), np.zeros(active))
    for i in range(active):
        here = slice(i, i + 1)
        moments = likelihood.tilted_moments(targets[here], mean[here], variance[here])
        slope, curvature = moments.log_z_slope[0], moments.log_z_curvature[0]
        shrinkage = 1.0 - variance[i] * curvature
        precision = curvature / shrinkage
        sites.precision[i] = precision
        sites.precision_mean[i] = (slope + curvature * mean[i]) / shrinkage
        if precision == 0.0:
            sites.precision_mean[i] = 0.0
            continue
        row = np.sqrt(precision) * stubs[i, :i]
        length = np.sqrt(1.0 + precision * gram[i, i] - row @ row)
        stubs[:, i] = (np.sqrt(precision) * gram[:, i] - stubs[:, :i] @ row) / length
        variance = np.maximum(variance - stubs[:, i] ** 2, 0.0)
        mean += slope * length / np.sqrt(precision) * stubs[:, i]
    return sites
