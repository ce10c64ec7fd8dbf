"""Keeping the best active sets that a predictive selection has met.

Rows of low probability may be mislabelled, and an active set full of them finds all other rows improbable.
The selection does not see that; rows left out do.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streamgp.posterior.calibration import calibrate
from streamgp.training.calibrate import sample_marginals
from streamgp.training.context import Context
from streamgp.training.heads import side_by_side
from streamgp.training.state import Best, State

LOOK_ROWS = 2000
CLEARLY = 0.5
"""Loss of log density, relative to the best, from which on a selection is taken back: less is chance."""


def keep_best(context: Context, state: State) -> State:
    """The state, which remembers its active sets and parameters if they are the best so far.

    They are judged by the mean log density of rows of the sample, active ones as if left out, calibrated as
    the model will be.
    """
    sample = context.sample
    chosen = np.sort(np.argsort(sample.keys, kind="stable")[-LOOK_ROWS:])
    inputs = context.inputs(sample.features[chosen])

    def one(head: int) -> float:
        targets, likelihood = context.head_targets(sample.targets[chosen], head), state.likelihoods[head]
        mean, variance = sample_marginals(
            state.kernel, state.actives[head], sample.rows[chosen], inputs, targets
        )
        return calibrate(likelihood, targets, mean, variance).log_density

    density = float(np.mean(side_by_side(context, one, context.n_heads)))
    *before, latest = state.history
    state = replace(state, history=(*before, {**latest, "left_out_log_density": density}))
    if state.best is not None and density < state.best.density:
        return state
    best = Best(density, state.kernel, state.likelihoods)
    return replace(state, best=best, best_actives=state.actives)


def with_best(state: State) -> State:
    """The state, or, where it is clearly worse than the best it has met, that one: rows and parameters."""
    assert state.best is not None
    density = state.history[-1]["left_out_log_density"]
    if density >= state.best.density - CLEARLY * max(abs(state.best.density), 0.02):
        return replace(state, best=None, best_actives=())
    return replace(
        state,
        kernel=state.best.kernel,
        likelihoods=state.best.likelihoods,
        actives=state.best_actives,
        best=None,
        best_actives=(),
    )
