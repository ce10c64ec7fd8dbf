"""Assumed density filtering: every site is visited once, in the order of the active set."""

from __future__ import annotations

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference.sites import Sites
from streamgp.likelihoods import Likelihood


def filter_sites(
    gram: FloatArray, targets: FloatArray, likelihood: Likelihood, weights: FloatArray | None = None
) -> Sites:
    """Sites of the active rows, each set by one EP update when its turn comes.

    l = √π M[i],  ℓ² = 1 + π k_ii − lᵀl,  new column of M: μ = (√π k_i − M l)/ℓ
    a −= μ²,  h += (b − π h_i)/(1 + π a_i) ℓ π^(−½) μ
    (π, b) the site of row i after an EP update from its marginal (h_i, a_i), to the power of its weight; k_i
    column of gram.  Shapes: gram (d, d), targets and weights (d,).  Cost: O(d³).
    Hazard: a is a difference; it is clamped at zero.  Source: [IVM2003] eq. 2, 3 with the active set given;
    the slope there is α = (b − π h)/(1 + π a).  Oracle: tests/reference/gp_dense.py
    """
    active = len(gram)
    stubs = np.zeros((active, active), order="F")
    mean, variance = np.zeros(active), np.diag(gram).copy()
    sites = Sites(np.zeros(active), np.zeros(active))
    for i in range(active):
        site = likelihood.tilted_sites(targets[i], mean[i], variance[i])
        weight = 1.0 if weights is None else weights[i]
        precision, precision_mean = weight * site.site_precision[0], weight * site.site_precision_mean[0]
        if precision <= 0.0:
            continue  # a flat site says nothing
        sites.precision[i], sites.precision_mean[i] = precision, precision_mean
        root = np.sqrt(precision)
        row = root * stubs[i, :i]
        length = np.sqrt(1.0 + precision * gram[i, i] - row @ row)
        slope = (precision_mean - precision * mean[i]) / (1.0 + precision * variance[i])
        stubs[:, i] = (root * gram[:, i] - stubs[:, :i] @ row) / length
        variance = np.maximum(variance - stubs[:, i] ** 2, 0.0)
        mean += slope * length / root * stubs[:, i]
    return sites
