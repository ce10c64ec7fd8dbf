"""Where a value lies: the row that a message can name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamgp.arrays import FloatArray, IntArray
from streamgp.passes.block import Block, Visitor

_NOWHERE = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Locate(Visitor[IntArray]):
    """First row at which each of some columns has a value, as stored.  Shapes: columns, values (k,)."""

    columns: IntArray
    values: FloatArray

    def visit(self, block: Block) -> IntArray:
        """First rows of this block."""
        there = block.stored[:, self.columns] == self.values
        return np.where(there.any(axis=0), block.start + there.argmax(axis=0), _NOWHERE)

    def merge(self, earlier: IntArray, later: IntArray) -> IntArray:
        """First rows of both."""
        return np.minimum(earlier, later)
