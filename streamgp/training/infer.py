"""Inference on the final active sets by expectation propagation, and their evidence."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.errors import NumericsWarning
from streamgp.inference import Propagated
from streamgp.inference.ep import FOR_EVIDENCE
from streamgp.passes.inactive_density import InactiveDensity
from streamgp.selection.predictive import Predictive
from streamgp.training.context import Context, make_snapshot, run_snapshot_pass
from streamgp.training.heads import propagate, side_by_side
from streamgp.training.select import pass_precision
from streamgp.training.state import State


def infer(context: Context, state: State) -> State:
    """Converge the sites of every head, tell the evidence, hand over to calibration.

    After a predictive selection the evidence of all rows is told too: one pass more.
    """
    state, propagated = converged(context, state, FOR_EVIDENCE)
    evidence: dict[str, Any] = {"log_evidence_active": [found.log_evidence for found in propagated]}
    if isinstance(context.settings.selection, Predictive) and not context.is_late():
        inactive = inactive_density(context, state)
        evidence["log_evidence_all"] = (np.add(evidence["log_evidence_active"], inactive)).tolist()
    state = state.told(
        n_active=[active.count for active in state.actives],
        sweeps=[found.sweeps for found in propagated],
        residual=max(found.residual for found in propagated),
        **evidence,
    )
    return replace(state, phase="calibrate")


def converged(context: Context, state: State, tolerance: float) -> tuple[State, list[Propagated]]:
    """The state with sites at the fixed point of expectation propagation, from those that it has."""

    def one(head: int) -> Propagated:
        return propagate(state.kernel, state.likelihoods[head], state.actives[head], tolerance)

    found = side_by_side(context, one, context.n_heads)
    far = [head for head, result in enumerate(found) if not result.converged]
    if far:
        warnings.warn(
            f"expectation propagation did not converge for {len(far)} of {len(found)} latent functions: "
            f"moments are off by {max(found[head].residual for head in far):.1e} (wanted {tolerance:.0e}); "
            f"the best sites met are used. A smaller kernel variance converges more easily.",
            NumericsWarning,
            stacklevel=2,
        )
    actives = tuple(
        replace(active, precision=result.sites.precision, precision_mean=result.sites.precision_mean)
        for active, result in zip((active.trimmed() for active in state.actives), found, strict=True)
    )
    return replace(state, actives=actives), found


def inactive_density(context: Context, state: State) -> list[float]:
    """Sum of log p(y | active set) over all other rows, for each head: one pass."""
    snapshot = pass_precision(context, make_snapshot(state.kernel, state))
    visitor = InactiveDensity(
        context.prepared.targets,
        state.likelihoods,
        tuple(np.sort(active.rows[: active.count]) for active in state.actives),
    )
    return [float(value) for value in run_snapshot_pass(context, visitor, snapshot, label="evidence")]
