"""Held-out rows watch active sets grow, and say when these are large enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from streamgp.arrays import FloatArray
from streamgp.inference.active_set import ActiveSet
from streamgp.training.codec import record
from streamgp.training.judge import is_better, log_densities, marginals_in_memory
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft

FIRST_LOOK = 32
"""Active rows at the first look at held-out rows."""
LOOK_GROWTH = 1.25
"""Growth of the active set between two looks."""
PATIENCE = 8
"""Looks without improvement after which an active set is large enough."""
LEAST_GAIN = 0.001
"""What counts as improvement at least, relative to the best mean log density before,"""
STANDARD_ERRORS = 2.0
"""and beyond so many standard errors of the improvement."""
NO_GAIN = "held-out rows did not gain from more"
NO_TIME = "max_seconds have passed"


@record
class Look(NamedTuple):
    """What held-out rows said about active sets of some size: their mean log density."""

    n_active: int
    log_density: float


@record
@dataclass(frozen=True, eq=False)
class Looks:
    """Looks at held-out rows while active sets grow.

    ``best`` are the rows' log densities (n,) at the best look, ``waited`` the looks since then that were no
    improvement. An improvement is larger than twice its standard error, which the rows' differences tell:
    so chance does not keep an active set growing, however few rows look.
    """

    looks: tuple[Look, ...] = ()
    best: FloatArray | None = None
    waited: int = 0

    def after(self, n_active: int, densities: FloatArray) -> Looks:
        """The looks and one more."""
        looks = (*self.looks, Look(n_active, float(densities.mean())))
        least = 0.0 if self.best is None else LEAST_GAIN * abs(float(self.best.mean()))
        if self.best is None or is_better(densities - least, self.best, STANDARD_ERRORS):
            return Looks(looks, densities)
        return replace(self, looks=looks, waited=self.waited + 1)


@dataclass(frozen=True)
class Watching:
    """How held-out rows are asked whether an active set is large enough; ``calibrated`` as the model is."""

    calibrated: bool


class Watch:
    """Looks at held-out rows while the active sets of a group grow, and says when they are large enough.

    ``reason`` says why it has asked to stop, None if it has not.
    """

    def __init__(
        self,
        problem: Problem,
        draft: Draft,
        heads: tuple[int, ...],
        dtype: DTypeLike,
        watching: Watching | None,
        looks: Looks,
    ) -> None:
        self._problem, self._draft, self._heads, self._dtype = problem, draft, heads, dtype
        self._watching = watching if len(problem.held_out.rows) else None
        weights = problem.weights.of_rows(problem.held_out.rows, problem.held_out.targets)
        self._weights = weights / max(weights.mean(), 1e-300) if len(weights) else weights
        self.looks = looks
        self.reason: str | None = None

    def __call__(self, actives: Sequence[ActiveSet]) -> bool:
        """Whether to stop: no time left, or no improvement in the last looks."""
        if self._problem.is_late():
            self.reason = NO_TIME
        elif self._watching is not None and self._look_is_due(actives[0].count):
            pairs = zip(self._heads, actives, strict=True)
            densities = np.mean([self._log_densities(head, active) for head, active in pairs], axis=0)
            self.looks = self.looks.after(actives[0].count, self._weights * densities)
            self.reason = NO_GAIN if self.looks.waited >= PATIENCE else None
        return self.reason is not None

    def _look_is_due(self, count: int) -> bool:
        looks = self.looks.looks
        return count >= (LOOK_GROWTH * looks[-1].n_active if looks else FIRST_LOOK)

    def _log_densities(self, head: int, active: ActiveSet) -> FloatArray:
        """Log densities of the held-out rows, by the posterior as calibrated to them."""
        assert self._watching is not None
        held_out = self._problem.held_out
        snapshot = active.snapshot(self._draft.kernel).astype(self._dtype)
        mean, variance = marginals_in_memory(snapshot, held_out.features, self._problem)
        assert variance is not None
        return log_densities(
            self._draft.likelihoods[head],
            self._problem.head_targets(held_out.targets, head),
            mean[:, 0],
            variance[:, 0],
            calibrated=self._watching.calibrated,
            weights=self._weights,
        )
