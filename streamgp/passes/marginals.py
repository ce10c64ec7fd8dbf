"""The latent marginals themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
