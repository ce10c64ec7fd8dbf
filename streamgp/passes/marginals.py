"""The latent marginals themselves, or what they amount to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.passes.block import Block, Visitor
from streamgp.posterior import Marginals


@dataclass(frozen=True)
class CollectMarginals(Visitor[list[Marginals]]):
    """Keeps the marginals of every row, in pieces: for rows that are in memory anyway."""

    with_variance: bool = True

    @property
    def needs_variance(self) -> bool:
        """As asked for."""
        return self.with_variance

    def visit(self, block: Block) -> list[Marginals]:
        """The block's marginals."""
        assert block.marginals is not None
        return [block.marginals]

    def merge(self, earlier: list[Marginals], later: list[Marginals]) -> list[Marginals]:
        """Pieces of both, in order."""
        return earlier + later


def concatenate(pieces: list[Marginals]) -> Marginals:
    """One record of all rows."""
    mean = np.concatenate([piece.mean for piece in pieces])
    if pieces[0].variance is None:
        return Marginals(mean, None)
    return Marginals(mean, np.concatenate([piece.variance for piece in pieces if piece.variance is not None]))


class MarginalTotals(NamedTuple):
    """Sums over rows of the latent mean, its square and the latent variance, per head; the number of rows."""

    rows: int
    mean: FloatArray
    squared_mean: FloatArray
    variance: FloatArray


@dataclass(frozen=True)
class TotalMarginals(Visitor[MarginalTotals]):
    """Adds the marginals up: how much the posterior explains, and how much uncertainty it leaves."""

    @property
    def needs_variance(self) -> bool:
        """Yes."""
        return True

    def visit(self, block: Block) -> MarginalTotals:
        """Sums of one block."""
        assert block.marginals is not None
        mean, variance = block.marginals
        assert variance is not None
        return MarginalTotals(block.rows, mean.sum(axis=0), (mean**2).sum(axis=0), variance.sum(axis=0))

    def merge(self, earlier: MarginalTotals, later: MarginalTotals) -> MarginalTotals:
        """Sums of both."""
        return MarginalTotals(
            earlier.rows + later.rows,
            earlier.mean + later.mean,
            earlier.squared_mean + later.squared_mean,
            earlier.variance + later.variance,
        )
