"""Where a value lies: the row that a message can name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamgp.arrays import FloatArray, IntArray
from streamgp.passes.block import Block, Visitor

TARGET = -1
"""The column that the targets are."""
_NOWHERE = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Locate(Visitor[IntArray]):
    """First row at which each of some columns (or the targets) has a value, as stored.

    Shapes: columns, values (k,).
    """

    columns: IntArray
    values: FloatArray

    def visit(self, block: Block) -> IntArray:
        """First rows of this block."""
        first = np.full(len(self.columns), _NOWHERE)
        for place, (column, value) in enumerate(zip(self.columns, self.values, strict=True)):
            values = block.targets if column == TARGET else block.stored[:, column]
            if (there := values == value).any():
                first[place] = block.start + int(there.argmax())
        return first

    def merge(self, earlier: IntArray, later: IntArray) -> IntArray:
        """First rows of both."""
        return np.minimum(earlier, later)
