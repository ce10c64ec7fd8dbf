"""When to stop: looks at held-out rows while active sets grow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from streamgp.inference.active_set import ActiveSet
from streamgp.posterior.calibration import calibrate
from streamgp.training.context import Context
from streamgp.training.marginals import marginals_in_memory
from streamgp.training.state import State

FIRST_LOOK = 32
"""Active rows at the first look."""
GROWTH = 1.25
"""Growth of the active set between two looks."""
PATIENCE = 8
"""Looks without improvement after which an active set is large enough."""
LEAST_GAIN = 0.001
"""What counts as improvement, relative to the best log density before."""


class Watch:
    """Looks at held-out rows while the active set of some heads grows, and says when it is large enough."""

    def __init__(self, context: Context, state: State, heads: list[int], dtype: DTypeLike) -> None:
        self._context, self._state, self._heads, self._dtype = context, state, heads, dtype
        self.looks: list[dict[str, float]] = []
        self._before = [
            look
            for entry in state.history
            for look in entry.get("validation", [])
            if look["head"] == heads[0]
        ]

    def __call__(self, actives: Sequence[ActiveSet]) -> bool:
        """Whether to stop: no time left, or no improvement in the last looks."""
        if self._context.is_late():
            return True
        if self._context.settings.inference == "fitc":
            return False  # the sites of this selection are not the model's: their density tells nothing
        count = actives[0].count
        looks = self._before + self.looks
        last = looks[-1]["n_active"] if looks else FIRST_LOOK / GROWTH
        if len(self._context.validation.rows) == 0 or count < GROWTH * last:
            return False
        pairs = zip(self._heads, actives, strict=True)
        density = float(np.mean([self._log_density(head, active) for head, active in pairs]))
        self.looks.append({"head": self._heads[0], "n_active": count, "log_density": density})
        values = [look["log_density"] for look in looks] + [density]
        if len(values) <= PATIENCE:
            return False
        best = max(values[:-PATIENCE])
        return bool(max(values[-PATIENCE:]) < best + LEAST_GAIN * abs(best))

    def _log_density(self, head: int, active: ActiveSet) -> float:
        """Mean log density of the held-out rows, by the posterior as calibrated to them."""
        context, validation = self._context, self._context.validation
        likelihood = self._state.likelihoods[head]
        targets = context.head_targets(validation.targets, head)
        snapshot = active.snapshot(self._state.kernel).astype(self._dtype)
        mean, variance = marginals_in_memory(context, snapshot, validation.features)
        if context.settings.calibrate:
            # Without it, small active sets are overconfident at first and would be stopped for that.
            return calibrate(likelihood, targets, mean, variance).log_density
        return float(np.mean(likelihood.log_predictive_density(targets, mean, variance)))
