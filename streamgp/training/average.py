"""How far each of several candidates is to be believed: by what they said about rows they had not seen.

Where rows are few, which of them wins is chance to some part; their average is better than the winner.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from streamgp.arrays import FloatArray

PRIOR = 0.5
"""Rows for which every candidate is taken to have been right, beside those that judge."""
STEPS = 200
LEAST = 0.02
"""Candidates of less weight are not worth a fit."""


def averaging_weights(densities: Mapping[str, FloatArray], counts: FloatArray) -> dict[str, float]:
    """Weights of candidates: stacking of what they said about every row.

    argmax_w  Σ_i c_i log Σ_k w_k p_ik + a Σ_k log w_k,  by expectation maximisation:
    r_ik ∝ w_k p_ik,  w_k ∝ a + Σ_i c_i r_ik
    ``densities`` log p_ik by name, (n,) each; ``counts`` c_i (n,), how often each row counts; a = PRIOR.
    Cost: O(k n) a step.
    """
    logs = np.array(list(densities.values()))
    likely = np.exp(logs - logs.max(axis=0))
    weights = np.full(len(likely), 1.0 / len(likely))
    for _ in range(STEPS):
        shares = weights[:, None] * likely
        weights = PRIOR + (shares / shares.sum(axis=0)) @ counts
        weights /= weights.sum()
    weights[weights < LEAST] = 0.0
    shares = (weights / weights.sum()).tolist()
    return {name: share for name, share in zip(densities, shares, strict=True) if share > 0}


def averaged_log_loss(
    densities: Mapping[str, FloatArray], counts: FloatArray, weights: Mapping[str, float]
) -> float:
    """Mean log loss of the average on the rows that its weights were learned from."""
    logs = np.array([densities[name] + np.log(weight) for name, weight in weights.items()])
    return -float(np.average(np.logaddexp.reduce(logs, axis=0), weights=counts))
