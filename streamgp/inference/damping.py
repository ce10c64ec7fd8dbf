"""Damped iteration towards a fixed point of expectation propagation: one rule for every loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

S = TypeVar("S")
R = TypeVar("R")

FOR_PREDICTION = 1e-3
"""Moment residual that is small enough for marginals."""
FOR_EVIDENCE = 1e-5
"""Moment residual that is small enough for the evidence and its gradient."""
LEAST_STEP = 0.1


class Damped(NamedTuple):
    """How far a damped iteration has come.

    ``step`` is how far the next sweep moves the sites towards those that match. ``residual`` is the moment
    residual that the last sweep found, ``skipped`` the number of rows that had no cavity in it.
    """

    step: float = 0.8
    residual: float = np.inf
    sweeps: int = 0
    skipped: int = 0
    converged: bool = False

    def after(self, residual: float, skipped: int, tolerance: float) -> Damped:
        """The state after one more sweep.

        The step is halved (floor 0.1) where the residual has risen, else times 1.25 (cap 1). Converged is
        what has a residual of at most the tolerance and as many rows without a cavity as the sweep before, or
        none: rows whose weight is below 1 may never have one.
        """
        rises = residual > self.residual
        step = max(0.5 * self.step, LEAST_STEP) if rises else min(1.25 * self.step, 1.0)
        settled = skipped == 0 or (self.sweeps > 0 and skipped == self.skipped)
        return Damped(step, residual, self.sweeps + 1, skipped, residual <= tolerance and settled)

    def after_first(self, skipped: int) -> Damped:
        """The state after a sweep that started from moments of other rows: its residual says nothing yet."""
        return self._replace(sweeps=self.sweeps + 1, skipped=skipped)


Sweep = Callable[[S, Damped], tuple[S, R, float, int]]
"""(state, progress) → next state, result if it is the last sweep, moment residual, rows without a cavity."""


def iterate(
    sweep: Sweep[S, R], state: S, progress: Damped, *, tolerance: float, most_sweeps: int
) -> tuple[R, Damped]:
    """Sweep until converged, or often enough: the result of the best sweep, and the progress at its residual.

    The last sweep is the best one if it has converged, else the one of the smallest residual.
    """
    best: list[R] = []
    smallest = np.inf
    while not progress.converged and progress.sweeps < most_sweeps:
        state, result, residual, skipped = sweep(state, progress)
        progress = progress.after(residual, skipped, tolerance)
        if not best or progress.converged or residual < smallest:
            best, smallest = [result], residual
    return best[0], progress._replace(residual=smallest)
