"""Rows worth keeping: random samples, and candidates of best score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.data import Span
from streamgp.passes.block import Block, Visitor
from streamgp.posterior import Marginals

FloatArray = NDArray[np.float64]
Keys = Callable[[NDArray[np.int64]], FloatArray]
Scores = Callable[[FloatArray, Marginals], FloatArray]


class Pool(NamedTuple):
    """Rows with what selects them.

    Shapes: rows, targets, keys (m,), features (m, p), scores (m, heads). Rows are in the order of the store.
    """

    rows: NDArray[np.int64]
    features: NDArray[Any]
    targets: FloatArray
    keys: FloatArray
    scores: FloatArray

    def take(self, places: NDArray[Any]) -> Pool:
        """Some of the rows."""
        return Pool(*(column[places] for column in self))


@dataclass(frozen=True, eq=False)
class PickRows(Visitor[list[Pool]]):
    """Keeps the rows of best score for each head, and a stratified random sample beside them.

    ``per_head`` rows of best score are kept for each head; of each class (target code; one class for real
    targets) ``quotas`` rows of smallest key. ``excluded`` rows (sorted) are passed over, ``always`` rows
    kept. Without ``scores`` it is the random sample alone. Ties go to the lowest row.
    """

    keys: Keys
    quotas: NDArray[np.int64]
    excluded: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    always: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    scores: Scores | None = None
    per_head: int = 0

    @property
    def needs_variance(self) -> bool:
        """Yes, where there are scores."""
        return self.scores is not None

    @property
    def capacity(self) -> int:
        """Rows that are kept at most, for one head."""
        return int(self.quotas.sum()) + self.per_head + len(self.always)

    def visit(self, block: Block) -> list[Pool]:
        """The block's rows that are not excluded, pruned."""
        assert block.targets is not None
        rows = np.arange(block.start, block.start + block.rows)
        scores = np.empty((block.rows, 0))
        if self.scores is not None:
            assert block.marginals is not None
            scores = self.scores(block.targets, block.marginals)
        pool = Pool(rows, block.features, block.targets, self.keys(rows), scores)
        return [self._prune(pool.take(np.flatnonzero(~is_among(rows, self.excluded))))]

    def merge(self, earlier: list[Pool], later: list[Pool]) -> list[Pool]:
        """Rows of both; pruned only when they have become many, because pruning copies."""
        both = earlier + later
        held = sum(len(pool.rows) for pool in both)
        return both if held <= 1.25 * self.capacity else [self._prune(join(both))]

    def finish(self, span: Span, total: list[Pool]) -> list[Pool]:
        """One pruned pool per task."""
        return [self.pooled(total)]

    def pooled(self, total: list[Pool]) -> Pool:
        """The result of a pass as one pool."""
        return self._prune(join(total))

    def _prune(self, pool: Pool) -> Pool:
        keep = is_among(pool.rows, self.always)
        for code, quota in enumerate(self.quotas):
            one_class = len(self.quotas) == 1
            members = np.arange(len(pool.rows)) if one_class else np.flatnonzero(pool.targets == code)
            keep[members[smallest(pool.keys[members], int(quota))]] = True
        for head in range(pool.scores.shape[1]):
            keep[smallest(-pool.scores[:, head], self.per_head)] = True
        return pool if keep.all() else pool.take(np.flatnonzero(keep))


def is_among(rows: NDArray[np.int64], known: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each row is one of the known ones (sorted): (c,), (m,) → (c,)."""
    among: NDArray[np.bool_] = np.append(known, -1)[np.searchsorted(known, rows)] == rows
    return among


def join(pools: list[Pool]) -> Pool:
    """All rows of several pools."""
    return Pool(*(np.concatenate(columns) for columns in zip(*pools, strict=True)))


def smallest(values: FloatArray, count: int) -> NDArray[np.int64]:
    """Places of the ``count`` smallest values, in order of place; equal values: the first places."""
    if count >= len(values):
        return np.arange(len(values))
    return np.sort(np.argsort(values, kind="stable")[:count])
