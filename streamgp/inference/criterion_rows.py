"""The learning criterion over all rows of a store: what a block adds, as the step of a pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.data import Targets
from streamgp.data.targets import head_targets
from streamgp.inference.criterion import TILE_ROWS, Begun, Sums, candidate_sums, merge_sums, no_sums
from streamgp.passes.candidates import is_among


@dataclass(frozen=True, eq=False)
class CriterionRows:
    """Rows of a block as candidates of one head; ``left_out`` (sorted) are active, or held out."""

    begun: Begun
    targets: Targets
    head: int
    left_out: IntArray

    def __call__(
        self, start: int, features: Array, encoded: FloatArray, sites: FloatArray | None
    ) -> tuple[None, list[Sums]]:
        """Sums of the block; no sites are kept.

        Cost: 3 d² flops a row, and the kernel block (c, d) twice.  Oracle: ``criterion`` on rows in memory.
        """
        candidates = ~is_among(np.arange(start, start + len(encoded)), self.left_out)
        inputs, targets = features[candidates], head_targets(self.targets, encoded[candidates], self.head)
        tiles = [slice(first, first + TILE_ROWS) for first in range(0, len(inputs), TILE_ROWS)]
        parts = [candidate_sums(self.begun, inputs[tile], targets[tile]) for tile in tiles]
        return None, [reduce(merge_sums, parts, no_sums(self.begun))]
