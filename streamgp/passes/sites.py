"""Sums over all rows whose per-row numbers live on disk: one generation is read, the next is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr

from streamgp.arrays import Array, FloatArray
from streamgp.data import Span
from streamgp.passes.block import Block, Visitor

Sums = list[Any]
"""One record of sums for each head that the step works on."""
Swept = tuple[list[FloatArray], Sums]
Step = Callable[[int, Array, FloatArray, FloatArray | None], tuple[FloatArray | None, Sums]]
"""(first row, features, encoded targets, sites (c, heads, 2) or None) → new sites or None, sums."""


@dataclass(frozen=True, eq=False)
class SiteSweep(Visitor[Swept]):
    """Gives each block its sites of generation k, writes those of k + 1 and adds the sums up.

    ``old`` None: sites are flat. ``new`` None: nothing is written. A span is one chunk of either array and is
    written whole, so a task may run twice; the old generation stays as it is until the pass is done.
    """

    step: Step
    merge_sums: Callable[[Any, Any], Any]
    old: zarr.Array | None = None
    new: zarr.Array | None = None

    def visit(self, block: Block) -> Swept:
        """New sites and sums of one block."""
        assert block.targets is not None
        sites = None
        if self.old is not None:
            sites = np.asarray(self.old[block.start : block.start + block.rows])
        swept, sums = self.step(block.start, block.features, block.targets, sites)
        return ([] if swept is None else [swept]), sums

    def merge(self, earlier: Swept, later: Swept) -> Swept:
        """Sites of both in order, sums of both added."""
        pairs = zip(earlier[1], later[1], strict=True)
        return earlier[0] + later[0], [self.merge_sums(one, other) for one, other in pairs]

    def finish(self, span: Span, total: Swept) -> Swept:
        """Write the span's sites; sums are left to return."""
        if self.new is not None:
            self.new[span.start : span.stop] = np.concatenate(total[0])
        return [], total[1]
