"""The rows of a store nearest to some points, each point in a metric of its own: one pass for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.passes.block import Block, Visitor
from streamgp.passes.candidates import is_among


class NearRows(NamedTuple):
    """Rows near a point: squared distances, numbers, targets (k,), and features (k, p) as stored."""

    squares: FloatArray
    numbers: IntArray
    targets: FloatArray
    features: Array

    def nearest(self, count: int) -> NearRows:
        """The ``count`` nearest, in the order of the store; of equally near ones the lowest numbers."""
        if len(self.numbers) <= count:
            return self
        chosen = np.sort(np.argsort(self.squares, kind="stable")[:count])
        return NearRows._make(column[chosen] for column in self)


@dataclass(frozen=True, eq=False)
class FindNearRows(Visitor[list[NearRows]]):
    """For each point the ``count`` rows that are nearest to it, ``excluded`` ones (sorted) left out.

    points (k, p) standardised, scales (k, p): the units of distances from each.
    Cost: 3 n k p flops.  Memory: k (count + rows of a block) (p + 3) numbers.
    """

    points: FloatArray
    scales: FloatArray
    count: int
    excluded: IntArray

    def visit(self, block: Block) -> list[NearRows]:
        """The nearest of a block's rows."""
        assert block.targets is not None
        numbers = np.arange(block.start, block.start + block.rows)
        kept = np.flatnonzero(~is_among(numbers, self.excluded))
        features = np.asarray(block.features[kept], np.float64)
        found = []
        for point, scale in zip(self.points, self.scales, strict=True):
            difference = (features - point) / scale
            squares = np.einsum("ij,ij->i", difference, difference)
            chosen = np.sort(np.argsort(squares, kind="stable")[: self.count])
            places = kept[chosen]
            found.append(
                NearRows(squares[chosen], numbers[places], block.targets[places], block.stored[places])
            )
        return found

    def merge(self, earlier: list[NearRows], later: list[NearRows]) -> list[NearRows]:
        """The nearest of both."""
        return [
            NearRows(*(np.concatenate(pair) for pair in zip(one, other, strict=True))).nearest(self.count)
            for one, other in zip(earlier, later, strict=True)
        ]
