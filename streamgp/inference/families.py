"""Rows left out together with all their versions: a row must not be judged by its own virtual twins."""

from __future__ import annotations

import numpy as np

from streamgp.arrays import FloatArray, IntArray
from streamgp.inference.active_set import ActiveSet
from streamgp.inference.sites import head_from_sites
from streamgp.kernels import Kernel

BLOCK = 512
"""Rows at a time."""


def without_families(
    kernel: Kernel, active: ActiveSet, families: IntArray, inputs: FloatArray, own: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Marginals of rows by the active rows without those of their own family.

    h = kᵀα − u_Fᵀ G α_F,  a = k(x, x) − kᵀu + u_Fᵀ G u_F,  u = C⁻¹k,  α = C⁻¹z,  G = (C⁻¹_FF)⁻¹
    C = K + Π⁻¹ and z = b/π of the active rows, k the row's covariances with them, F its family
    families (d,) of active rows, own (s,) of the rows; inputs (s, p) standardised.  Shapes → (s,), (s,).
    Cost: O(d³ + s d²).  Hazard: a is a difference, clamped at zero.  Oracle: tests/training/test_virtual.py
    """
    d = active.count
    gram = kernel.gram(active.inputs[:d]).astype(np.float64, copy=False)
    head = head_from_sites(gram, active.sites, slice(0, d))
    assert head.projection is not None
    projection, weights = head.projection.astype(np.float64), head.weights
    order = np.argsort(families, kind="stable")
    starts = np.searchsorted(families[order], own, "left")
    stops = np.searchsorted(families[order], own, "right")
    mean, variance = np.empty(len(own)), np.empty(len(own))
    for first in range(0, len(own), BLOCK):
        tile = slice(first, first + BLOCK)
        block = np.asarray(kernel.block(inputs[tile], active.inputs[:d]), np.float64)
        stubs = block @ projection
        mean[tile] = block @ weights
        variance[tile] = kernel.diagonal(inputs[tile]) - np.einsum("ij,ij->i", stubs, stubs)
        for place in range(first, min(first + BLOCK, len(own))):
            inside = order[starts[place] : stops[place]]
            pulled = projection[inside] @ stubs[place - first]
            solved = np.linalg.solve(projection[inside] @ projection[inside].T, pulled)
            mean[place] -= solved @ weights[inside]
            variance[place] += solved @ pulled
    return mean, np.maximum(variance, 0.0)
