"""Passes of local blocks over a store: rows come in waves, so that a block's head is made once for many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, Generic, TypeVar

import numpy as np

from streamgp.arrays import Array, IntArray
from streamgp.data import Rows, Span
from streamgp.inference.local.snapshot import LocalSnapshot, marginals_side_by_side
from streamgp.passes.block import Block, Reading, Visitor
from streamgp.passes.finite import OnBadRows
from streamgp.passes.run import PassSettings, run_pass
from streamgp.posterior import Marginals

T = TypeVar("T")


@dataclass(frozen=True)
class CollectFeatures(Visitor[list[Array]]):
    """Keeps the standardised features of every row, in pieces."""

    def visit(self, block: Block) -> list[Array]:
        """A copy of the block's features."""
        return [block.features.copy()]

    def merge(self, earlier: list[Array], later: list[Array]) -> list[Array]:
        """Pieces of both, in order."""
        return earlier + later


@dataclass(frozen=True, eq=False)
class WithMarginals(Visitor[T], Generic[T]):
    """Shows another visitor marginals that are known already: those of rows ``starts`` (s,) and following."""

    visitor: Visitor[T]
    marginals: Marginals
    starts: IntArray
    places: IntArray

    @staticmethod
    def of(visitor: Visitor[T], marginals: Marginals, spans: list[Span]) -> WithMarginals[T]:
        """For marginals of the rows of spans, one span after the other."""
        ends = np.cumsum([span.rows for span in spans])
        return WithMarginals(
            visitor, marginals, np.array([span.start for span in spans]), np.concatenate([[0], ends[:-1]])
        )

    def visit(self, block: Block) -> T:
        """What the visitor makes of the block and the marginals of its rows."""
        span = int(np.searchsorted(self.starts, block.start, side="right")) - 1
        first = int(self.places[span] + block.start - self.starts[span])
        here = slice(first, first + block.rows)
        mean, variance = self.marginals
        known = Marginals(mean[here], None if variance is None else variance[here])
        return self.visitor.visit(block._replace(marginals=known))

    def merge(self, earlier: T, later: T) -> T:
        """As the visitor does."""
        return self.visitor.merge(earlier, later)

    def finish(self, span: Span, total: T) -> T:
        """As the visitor does."""
        return self.visitor.finish(span, total)


def run_in_waves(
    rows: Rows,
    visitor: Visitor[T],
    settings: PassSettings,
    most_bytes: int,
    *,
    reading: Reading,
    snapshot: LocalSnapshot,
    spans: Iterable[Span] | None = None,
    on_bad_rows: OnBadRows | None = None,
    label: str = "pass",
) -> T:
    """A pass as :func:`run_pass` makes it, with the marginals of a wave of rows found block by block.

    Any span may have rows near every block, and a block's head costs as much as some hundred rows: so rows
    are held while ``most_bytes`` allow it, and each head is made once for all of them.
    """
    how: dict[str, Any] = {"reading": reading, "on_bad_rows": on_bad_rows, "label": label}
    chosen = list(rows.spans() if spans is None else spans)
    parts = []
    for wave in waves(chosen, most_bytes // row_bytes(snapshot, rows.n_features)):
        pieces = run_pass(rows, CollectFeatures(), settings, spans=wave, **how)
        found = marginals_side_by_side(snapshot, np.concatenate(pieces), settings)
        del pieces
        parts.append(run_pass(rows, WithMarginals.of(visitor, found, wave), settings, spans=wave, **how))
    return reduce(visitor.merge, parts)


def waves(spans: list[Span], most_rows: int) -> Iterator[list[Span]]:
    """Spans in order, as many at a time as have at most so many rows, but always one."""
    wave: list[Span] = []
    held = 0
    for span in spans:
        if wave and held + span.rows > most_rows:
            yield wave
            wave, held = [], 0
        wave.append(span)
        held += span.rows
    if wave:
        yield wave


def row_bytes(snapshot: LocalSnapshot, n_features: int) -> int:
    """Bytes that a row of a wave takes: features (three copies), blocks asked, what each of them says."""
    asked, heads = snapshot.neighbours, len(snapshot.posteriors)
    return 8 * (3 * n_features + 6 * asked + 4 * asked * heads + 2 * heads)
