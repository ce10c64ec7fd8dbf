"""One prediction out of those of several near blocks, without jumps where blocks change places.

Which rows a block's head is made of is another matter: its own, or those of its neighbours near its border
too (``streamgp.selection.grouping``). What was measured of both: docs/decisions.md.
"""

from __future__ import annotations

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference.local.prediction import Predicted

POWER = 4.0
"""Weights fall with this power of the variance: less would suit smooth functions, more rough ones."""
STEEPNESS = 3.0
"""How fast a block gains its full weight once it is nearer than the first one that is not asked."""


def continuous_weights(
    variances: FloatArray, squares: FloatArray, power: float = POWER, steepness: float = STEEPNESS
) -> FloatArray:
    """Weights of the k nearest blocks of each row.

    w_j ∝ v_j^−power min(1, steepness (1 − d_j²/d_{k+1}²))
    v variances (c, k); d² squares (c, k + 1), squared distances to the centres, nearest first, the last one
    that of the first block not asked; (c, k) where there is no other. The block that is about to be replaced
    by it has weight 0, so that the prediction is continuous in x wherever the blocks' own are.
    Shapes: → (c, k), rows sum to 1.  Cost: O(c k).
    Hazard: a row as far from all k + 1 centres has no weights but by the variances.
    """
    count = variances.shape[1]
    weights: FloatArray = (variances.min(axis=1, keepdims=True) / variances) ** power
    if squares.shape[1] > count:
        limit = np.maximum(squares[:, count : count + 1], np.finfo(np.float64).tiny)
        weights *= np.clip(steepness * (1.0 - squares[:, :count] / limit), 1e-12, 1.0)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def combine(means: FloatArray, variances: FloatArray, weights: FloatArray) -> Predicted:
    """The weighted mean of means, and of variances.

    Not the variance of the mixture: blocks differ most where each of them already says so.
    Shapes: (c, k) each → (c,).
    """
    return Predicted(np.einsum("ij,ij->i", weights, means), np.einsum("ij,ij->i", weights, variances))
