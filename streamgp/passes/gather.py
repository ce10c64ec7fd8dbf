"""Rows picked by number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.passes.block import Block, Visitor


class Gathered(NamedTuple):
    """Picked rows in the order of the store: numbers (m,), features (m, p), targets (m,) if any."""

    rows: NDArray[np.int64]
    features: NDArray[Any]
    targets: NDArray[Any] | None


@dataclass(frozen=True, eq=False)
class GatherRows(Visitor[Gathered]):
    """Collects the rows with the given numbers (sorted)."""

    rows: NDArray[np.int64]

    def visit(self, block: Block) -> Gathered:
        """The wanted rows of one block."""
        first, last = np.searchsorted(self.rows, (block.start, block.start + block.rows))
        chosen = self.rows[first:last]
        places = chosen - block.start
        return Gathered(
            chosen, block.features[places], None if block.targets is None else block.targets[places]
        )

    def merge(self, earlier: Gathered, later: Gathered) -> Gathered:
        """Rows of both."""
        targets = None
        if earlier.targets is not None and later.targets is not None:
            targets = np.concatenate([earlier.targets, later.targets])
        return Gathered(
            np.concatenate([earlier.rows, later.rows]),
            np.concatenate([earlier.features, later.features]),
            targets,
        )
