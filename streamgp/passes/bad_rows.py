"""What becomes of rows that a fitted model cannot compute with: refused by number, or counted."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args

import numpy as np

from streamgp.data import Span
from streamgp.errors import DataWarning, ParameterError
from streamgp.passes.block import Block, Visitor
from streamgp.passes.finite import OnBadRows
from streamgp.posterior import Marginals

T = TypeVar("T")


def check_on_bad_rows(value: Any) -> OnBadRows:
    """The setting, or an error that lists what there is."""
    if value not in get_args(OnBadRows):
        raise ParameterError(f"on_bad_rows must be 'raise' or 'nan', not {value!r}")
    return value  # type: ignore[no-any-return]


def warn_of_bad_rows(count: int, fate: str) -> None:
    """Say how many rows could not be computed with."""
    if count:
        warnings.warn(
            f"{count} rows hold NaN, infinity or numbers beyond float32; they {fate}",
            DataWarning,
            stacklevel=4,
        )


@dataclass(frozen=True, eq=False)
class LeaveOutBadRows(Visitor[tuple[T, int]], Generic[T]):
    """Shows another visitor the good rows only, and counts the others."""

    visitor: Visitor[T]

    @property
    def needs_variance(self) -> bool:
        """As the visitor does."""
        return self.visitor.needs_variance

    def visit(self, block: Block) -> tuple[T, int]:
        """The partial result of the good rows of a block, and the number of bad ones."""
        if block.bad is None or not block.bad.size:
            return self.visitor.visit(block), 0
        good = np.delete(np.arange(block.rows), block.bad)
        marginals = block.marginals
        if marginals is not None:
            variance = None if marginals.variance is None else marginals.variance[good]
            marginals = Marginals(marginals.mean[good], variance)
        targets = None if block.targets is None else block.targets[good]
        shown = Block(block.start, block.stored[good], block.features[good], targets, marginals)
        return self.visitor.visit(shown), len(block.bad)

    def merge(self, earlier: tuple[T, int], later: tuple[T, int]) -> tuple[T, int]:
        """As the visitor does; counts add up."""
        return self.visitor.merge(earlier[0], later[0]), earlier[1] + later[1]

    def finish(self, span: Span, total: tuple[T, int]) -> tuple[T, int]:
        """As the visitor does."""
        return self.visitor.finish(span, total[0]), total[1]
