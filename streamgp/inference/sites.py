"""Gaussian sites on the active set, and the posterior that they imply."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from streamgp.arrays import FloatArray
from streamgp.numerics import factors
from streamgp.posterior import Head


class Sites(NamedTuple):
    """Gaussian stand-ins of likelihood terms, N(f; b/π, 1/π): precision π and precision_mean b, (d,) each."""

    precision: FloatArray
    precision_mean: FloatArray


def head_from_sites(gram: FloatArray, sites: Sites, columns: slice = slice(None)) -> Head:
    """The posterior head of given sites, from scratch; ``gram`` is overwritten.

    S = diag(√π),  L Lᵀ = B = 1 + S K S,  T = S L⁻ᵀ,  β = L⁻¹ S⁻¹ b
    K gram.  Shapes: gram (d, d), sites (d,).  Cost: O(d³); memory: two matrices (d, d), gram among them.
    Hazard: none in B, whose eigenvalues are at least 1; a site without precision must carry no mean either
    and drops out.  Source: [IVM2006] eq. 4.  Oracle: tests/reference/gp_dense.py
    """
    root = np.sqrt(sites.precision)
    factor = scaled_cholesky(gram, root)
    scaled_targets = np.divide(sites.precision_mean, root, out=np.zeros_like(root), where=root > 0)
    targets = solve_triangular(factor, scaled_targets, lower=True, check_finite=False)
    return head_from_factor(factor, root, targets, columns)


def head_from_factor(
    factor: FloatArray, root: FloatArray, targets: FloatArray, columns: slice = slice(None)
) -> Head:
    """The head of a factor L and projected targets β; ``factor`` (Fortran order) is overwritten.

    T = S L⁻ᵀ, S = diag(root).  Shapes: (d, d), (d,), (d,).  Cost: ⅓ d³ flops.
    """
    factors.invert_upper(factor.T)
    projection = np.ascontiguousarray(factor.T)
    projection *= root[:, None]
    return Head(projection, targets, columns)


def inverse_factor(gram: FloatArray, root: FloatArray) -> tuple[FloatArray, float]:
    """The inverse L⁻¹ of the lower factor of B = 1 + S K S, in place of K (Fortran order), and log|B|.

    S = diag(root).  Shapes: gram (d, d), root (d,).  Cost: ⅔ d³ flops, no other matrix.
    """
    factor = scaled_cholesky(gram, root)
    log_determinant = 2.0 * float(np.log(factor.diagonal()).sum())
    factors.invert_upper(factor.T)
    return factor, log_determinant


def scaled_cholesky(gram: FloatArray, root: FloatArray) -> FloatArray:
    """The lower factor L of 1 + S K S, in place of K (Fortran order).

    S = diag(root).  Shapes: gram (d, d), root (d,).  Cost: O(d³), no other matrix.
    """
    gram *= root
    gram *= root[:, None]
    gram.flat[:: len(gram) + 1] += 1.0
    # The matrix is symmetric: its transpose is itself, in the order that LAPACK works in.
    factors.cholesky(gram, upper=True)
    factors.clear_below(gram)
    return gram.T
