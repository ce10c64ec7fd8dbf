"""Gaussian sites on the active set, and the posterior that they imply."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from streamgp.posterior import Head

FloatArray = NDArray[np.float64]


class Sites(NamedTuple):
    """Gaussian stand-ins of likelihood terms, N(f; b/π, 1/π): precision π and precision_mean b, (d,) each."""

    precision: FloatArray
    precision_mean: FloatArray


def head_from_sites(gram: FloatArray, sites: Sites, columns: slice = slice(None)) -> Head:
    """The posterior head of given sites, from scratch.

    S = diag(√π),  L Lᵀ = B = 1 + S K S,  T = S L⁻ᵀ,  β = L⁻¹ S⁻¹ b
    K gram.  Shapes: gram (d, d), sites (d,).  Cost: O(d³).
    Hazard: none in B, whose eigenvalues are at least 1; a site without precision must carry no mean either
    and drops out.  Source: [IVM2006] eq. 4.  Oracle: tests/reference/gp_dense.py
    """
    root = np.sqrt(sites.precision)
    scaled_gram = root[:, None] * gram * root
    scaled_gram.flat[:: len(gram) + 1] += 1.0
    factor = cholesky(scaled_gram, lower=True, overwrite_a=True, check_finite=False)
    projection = solve_triangular(factor, np.diag(root), lower=True, check_finite=False).T
    scaled_targets = np.divide(sites.precision_mean, root, out=np.zeros_like(root), where=root > 0)
    targets = solve_triangular(factor, scaled_targets, lower=True, check_finite=False)
    return Head(np.ascontiguousarray(projection), targets, columns)
