"""Likelihoods F(y (f + bias))^power without a closed form: a compiled rule, and quadrature where it ends."""

from __future__ import annotations

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.likelihoods.integrand import Density
from streamgp.likelihoods.quadrature import tilted_quadrature
from streamgp.numerics.sigmoid import sigmoid_sweep


def sigmoid_rows(
    code: int, density: Density, bias: float, power: float, columns: tuple[FloatArray, ...]
) -> FloatArray:
    """Log Z, slope, curvature and 1 − aν of every row, (4, c).

    By :func:`streamgp.numerics.sigmoid.sigmoid_sweep`; rows that it does not serve (variance above 1e4, far
    margins) by adaptive quadrature of ``density``, which has bias and power in it.
    columns are targets, latent mean and variance, (c,) each.
    """
    targets, mean, variance = columns
    moments = np.empty((4, targets.size))
    sigmoid_sweep(code, bias, power, targets, mean, variance, moments)
    left = np.flatnonzero(~(moments[3] >= 0.0))
    if left.size:
        moments[:, left] = tilted_quadrature(density, targets[left], mean[left], variance[left])[:4]
    return moments
