"""The log density of every training row, as if it had been left out, for a range of variance factors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.likelihoods import Likelihood
from streamgp.passes.block import Block, Visitor
from streamgp.posterior.calibration import VARIANCE_SCALES, density_by_scale

FloatArray = NDArray[np.float64]


class LeftOut(NamedTuple):
    """Active rows of a head (sorted) and their marginals without their own sites: (d,) each."""

    rows: NDArray[np.int64]
    mean: FloatArray
    variance: FloatArray


@dataclass(frozen=True, eq=False)
class Calibrate(Visitor[FloatArray]):
    """Sums log densities by head and variance factor: (heads, scales).

    Rows outside of the active set were never included, so their marginals are as good as left-out ones;
    active rows get theirs from ``left_out``. ``head_targets(targets, head)`` says what a head had to learn.
    """

    likelihoods: tuple[Likelihood, ...]
    head_targets: Callable[[FloatArray, int], FloatArray]
    left_out: tuple[LeftOut, ...]

    @property
    def needs_variance(self) -> bool:
        """Yes."""
        return True

    def visit(self, block: Block) -> FloatArray:
        """Sums of one block."""
        assert block.marginals is not None
        assert block.marginals.variance is not None
        assert block.targets is not None
        sums = np.empty((len(self.likelihoods), len(VARIANCE_SCALES)))
        for head, likelihood in enumerate(self.likelihoods):
            mean = block.marginals.mean[:, head].copy()
            variance = block.marginals.variance[:, head].copy()
            rows, left_out_mean, left_out_variance = self.left_out[head]
            first, last = np.searchsorted(rows, (block.start, block.start + block.rows))
            places = rows[first:last] - block.start
            mean[places], variance[places] = left_out_mean[first:last], left_out_variance[first:last]
            targets = self.head_targets(block.targets, head)
            sums[head] = density_by_scale(likelihood, targets, mean, variance)
        return sums

    def merge(self, earlier: FloatArray, later: FloatArray) -> FloatArray:
        """Sums of both."""
        return earlier + later
