"""Rows worth keeping: random samples, and candidates of best score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from streamgp.arrays import Array, BoolArray, FloatArray, IntArray
from streamgp.data import Span
from streamgp.passes.block import Block, Visitor
from streamgp.posterior import Marginals

Keys = Callable[[IntArray], FloatArray]
Scores = Callable[[IntArray, FloatArray, Marginals], FloatArray]


class Pool(NamedTuple):
    """Rows with what selects them; features are as stored, which is small and exact.

    Shapes: rows, targets, keys (m,), features (m, p), scores (m, heads). Rows are in the order of the store.
    """

    rows: IntArray
    features: Array
    targets: FloatArray
    keys: FloatArray
    scores: FloatArray

    def take(self, places: Array) -> Pool:
        """Some of the rows."""
        return Pool._make(column[places] for column in self)

    def without_features(self) -> Pool:
        """The same rows, their features left out: what decides about them is small."""
        return self._replace(features=self.features[:, :0])


@dataclass(frozen=True, eq=False)
class PickRows(Visitor[list[Pool]]):
    """Keeps the rows of best score for each head, and a stratified random sample beside them.

    ``per_head`` rows of best score are kept for each head; of each class (target code; one class for real
    targets) ``quotas`` rows of smallest key, none of which reaches ``key_bounds``. ``excluded`` rows (sorted)
    are passed over, ``always`` rows kept. Without ``scores`` it is the random sample alone. Ties go to the
    lowest row. ``score_bounds``: scores of each head that the best rows surely reach, where they are known:
    rows below are not held.
    """

    keys: Keys
    quotas: IntArray
    key_bounds: FloatArray
    excluded: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    always: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    scores: Scores | None = None
    per_head: int = 0
    score_bounds: FloatArray | None = None

    @property
    def needs_variance(self) -> bool:
        """Yes, where there are scores."""
        return self.scores is not None

    def visit(self, block: Block) -> list[Pool]:
        """The block's rows that are not excluded, pruned."""
        assert block.targets is not None
        rows = np.arange(block.start, block.start + block.rows)
        scores = np.empty((block.rows, 0))
        if self.scores is not None:
            assert block.marginals is not None
            scores = self.scores(rows, block.targets, block.marginals)
        pool = Pool(rows, block.stored, block.targets, self.keys(rows), scores)
        hopeful = self._hopeful(pool)
        eligible = hopeful[~is_among(rows[hopeful], self.excluded)]
        return [gather([pool], eligible[self._keep([pool.without_features().take(eligible)])])]

    def merge(self, earlier: list[Pool], later: list[Pool]) -> list[Pool]:
        """Rows of both; pruned only when they have become many, because pruning copies."""
        both = earlier + later
        heads = both[0].scores.shape[1]
        most = int(self.quotas.sum()) + len(self.always) + heads * self.per_head
        held = sum(len(pool.rows) for pool in both)
        return both if held <= 1.25 * most else [self.pooled(both)]

    def finish(self, span: Span, total: list[Pool]) -> list[Pool]:
        """One pruned pool per task."""
        return [self.pooled(total)]

    def pooled(self, total: list[Pool]) -> Pool:
        """The rows worth keeping of several pools, as one."""
        return gather(total, np.flatnonzero(self._keep(total)))

    def _hopeful(self, pool: Pool) -> IntArray:
        """Places of rows that may be worth keeping, by the bounds alone."""
        if self.scores is not None and self.score_bounds is None:
            return np.arange(len(pool.rows))
        hopeful = pool.keys < np.max(self.key_bounds, initial=0.0)
        if self.always.size:
            hopeful |= is_among(pool.rows, self.always)
        if self.score_bounds is not None:
            for head, bound in enumerate(self.score_bounds):
                hopeful |= pool.scores[:, head] >= bound
        return np.flatnonzero(hopeful)

    def _keep(self, pools: list[Pool]) -> BoolArray:
        """Which of the pools' rows, counted through, are worth keeping."""
        rows, _, targets, keys, scores = _joined_without_features(pools)
        keep = is_among(rows, self.always)
        for code, (quota, bound) in enumerate(zip(self.quotas, self.key_bounds, strict=True)):
            drawn = keys < bound
            members = np.flatnonzero(drawn if len(self.quotas) == 1 else drawn & (targets == code))
            keep[members[smallest(keys[members], int(quota))]] = True
        for head in range(scores.shape[1]):
            if self.score_bounds is None:
                keep[smallest(-scores[:, head], self.per_head)] = True
            else:
                members = np.flatnonzero(scores[:, head] >= self.score_bounds[head])
                keep[members[smallest(-scores[members, head], self.per_head)]] = True
        return keep


def is_among(rows: IntArray, known: IntArray) -> BoolArray:
    """Whether each row is one of the known ones (sorted): (c,), (m,) → (c,)."""
    among: BoolArray = np.append(known, -1)[np.searchsorted(known, rows)] == rows
    return among


def _joined_without_features(pools: list[Pool]) -> Pool:
    """The narrow columns of several pools."""
    bare = [pool.without_features() for pool in pools]
    return (
        bare[0] if len(bare) == 1 else Pool(*(np.concatenate(columns) for columns in zip(*bare, strict=True)))
    )


def gather(pools: list[Pool], places: IntArray) -> Pool:
    """Some rows of several pools, counted through, as one pool: every feature is copied once."""
    rows, _, targets, keys, scores = _joined_without_features(pools)
    first = pools[0].features
    features = np.empty((len(places), first.shape[1]), first.dtype)
    start = taken = 0
    for pool in pools:
        stop = start + len(pool.rows)
        here = places[np.searchsorted(places, start) : np.searchsorted(places, stop)] - start
        np.take(pool.features, here, axis=0, out=features[taken : taken + len(here)], mode="clip")
        start, taken = stop, taken + len(here)
    return Pool(rows[places], features, targets[places], keys[places], scores[places])


def smallest(values: FloatArray, count: int) -> IntArray:
    """IntArray of the ``count`` smallest values, in order of place; equal values: the first places."""
    if count >= len(values):
        return np.arange(len(values))
    if count <= 0:
        return np.zeros(0, np.int64)
    largest = np.partition(values, count - 1)[count - 1]
    chosen = values < largest
    ties = np.flatnonzero(values == largest)
    chosen[ties[: count - np.count_nonzero(chosen)]] = True
    return np.flatnonzero(chosen)
