"""Rows in memory, worked on block by block as a pass works on a store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import TypeVar

from streamgp.arrays import Array, FloatArray
from streamgp.passes.threads import Threads

T = TypeVar("T")

ROWS_PER_BLOCK = 1024
TASKS_PER_WORKER = 2
"""Blocks whose sums may wait for their turn to be added up, for each worker."""


def no_check() -> None:
    """Done before a round that nothing may end."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in memory: features (n, p) in the basis's type, targets (n,), weights (n,) or None for ones.

    They are worked on in blocks of ``rows_per_block``, side by side on ``workers`` threads. ``before`` is
    called before each round over all of them; what it raises ends the work.
    """

    features: Array
    targets: FloatArray
    weights: FloatArray | None = None
    rows_per_block: int = ROWS_PER_BLOCK
    workers: int = 1
    before: Callable[[], None] = no_check

    def block(self, start: int) -> tuple[slice, Array, FloatArray, FloatArray | None]:
        """IntArray, features, targets and weights of one block."""
        place = slice(start, start + self.rows_per_block)
        weights = None if self.weights is None else self.weights[place]
        return place, self.features[place], self.targets[place], weights

    def fold(self, function: Callable[[int], T], merge: Callable[[T, T], T]) -> T:
        """The function of every block's start, merged in their order."""
        self.before()
        starts = range(0, len(self.features), self.rows_per_block)
        if self.workers == 1:  # a scheduler would take longer than a small block
            return reduce(merge, map(function, starts))
        threads = Threads(self.workers, advance=lambda: None, window=TASKS_PER_WORKER * self.workers)
        total: T = threads(_call, function, ((start,) for start in starts), merge)
        return total


def _call(function: Callable[[int], T], start: int) -> T:
    return function(start)
