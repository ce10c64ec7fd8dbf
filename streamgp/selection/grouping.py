"""Blocks of near rows: centres, the rows nearest to each, and clusters brought to a useful size.

A grouping is nothing but centres: a row belongs to the nearest one, in the metric of the kernel, whether it
is learned from or predicted. Sizes are kept within bounds by rounds of assign → count → :func:`regroup`,
which splits and merges centres; what cannot be split because its rows are alike is cut by :func:`slices`, in
order of rows. All of it is a function of rows and counts, never of chunks or workers.

Near its border a block knows only half of the rows around a new one. So the head that predicts with a block
is made of more rows than the block: those of its neighbours that are nearest to the border
(:func:`halo_blocks`), as many again as its own. Why this and not the union of two blocks:
docs/decisions.md.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from streamgp.arrays import Array, BoolArray, FloatArray, IntArray
from streamgp.passes.nearest import Nearest, centre_tree, nearest_centres, tile_rows
from streamgp.passes.regroup import Assigned
from streamgp.selection.centres import cluster_centres

LLOYD_STEPS = 10
MOST_AT_ONCE = 512
"""Centres that one level of k-means looks for; more are looked for within clusters."""
ROWS_PER_CENTRE = 16
"""Rows of a sample for each centre, where memory allows: what is not sampled cannot be split by nearness."""
BLOCK_ROWS = 500
"""Rows of a block where nothing else is asked for."""
ONE_BLOCK = 1000
"""Up to so many rows are one block: the exact process costs no more than two widened blocks."""
NEAR_CENTRES = 8
"""Centres that a row may widen: its nearest ones."""
GENEROSITY = 1.3
"""How many more rows than wanted a limit of a sample lets through: surplus ones are left out when counted."""


class Sizes(NamedTuple):
    """Rows that a block should have, at least and at most."""

    target: int
    least: int
    most: int


def block_sizes(wanted: int | None, n_rows: int) -> Sizes:
    """Sizes of blocks for a data set, as wanted or by its number of rows: few enough rows are one block.

    Measurements: docs/decisions.md.
    """
    if n_rows <= (ONE_BLOCK if wanted is None else wanted):
        return Sizes(n_rows, 1, n_rows)
    target = BLOCK_ROWS if wanted is None else wanted
    return Sizes(target, max(1, target // 3), target + target // 2)


class Regrouped(NamedTuple):
    """Centres after splitting and merging, (m′, p), and how many old ones were split and merged away."""

    centres: FloatArray
    split: int
    merged: int


def kmeans(rows: Array, count: int, steps: int = LLOYD_STEPS) -> FloatArray:
    """Centres of clusters by Lloyd's algorithm, from the first rows, which should be in random order.

    Many centres are found on two levels: √count clusters first, then in each its share of centres.
    Shapes: rows (n, p) → (m, p), m = min(count, distinct rows among the first).
    Cost: 2 n m p flops a step, 4 n √m p where there are two levels.
    """
    if count <= MOST_AT_ONCE:
        return cluster_centres(rows, np.unique(rows[:count], axis=0), steps)
    coarse = kmeans(rows, min(MOST_AT_ONCE, round(np.sqrt(count))), steps)
    labels = nearest_centres(rows, coarse).labels[:, 0]
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(block_counts(labels, len(coarse)))[:-1])
    shares = (max(1, round(count * len(own) / len(rows))) for own in members)
    found = [kmeans(rows[own], share, steps) for own, share in zip(members, shares, strict=True) if len(own)]
    return np.concatenate(found)


def block_counts(labels: IntArray, n_centres: int) -> IntArray:
    """Rows of each centre, (m,): the counts of chunks add up."""
    return np.bincount(labels, minlength=n_centres).astype(np.int64)


def regroup(
    centres: FloatArray, counts: IntArray, sample: Array, sample_labels: IntArray, sizes: Sizes
) -> Regrouped:
    """Centres whose clusters are nearer to the wanted sizes: large ones split, tiny ones merged.

    count > most: k-means of the cluster's sample rows into ⌈count/target⌉ centres, in its place.
    count < least, smallest first: joins the nearest centre with which it does not exceed ``most``, at their
    weighted mean; that one may join on in its turn. A cluster that no one can take stays.
    Shapes: centres (m, p), counts (m,), sample (s, p) with labels (s,), in random order → (m′, p).
    Cost: O(m′² p) where many are merged, and k-means of the sample.
    Hazard: sub-centres also draw rows from neighbours: after splitting, assign and count anew. Clusters of
    equal rows have one distinct sample row and are left to :func:`slices`.
    """
    merged_centres, merged_counts, origin = _merge_tiny(centres, counts, sizes)
    found: list[FloatArray] = []
    split = 0
    homes = origin[sample_labels]
    by_home = np.argsort(homes, kind="stable")
    first = np.searchsorted(homes[by_home], np.arange(len(merged_centres) + 1))
    for number, (centre, count) in enumerate(zip(merged_centres, merged_counts, strict=True)):
        parts = -(-int(count) // sizes.target)
        if count <= sizes.most or parts < 2:
            found.append(centre[None])
            continue
        rows = sample[by_home[first[number] : first[number + 1]]]
        # More centres than a handful of rows each would be noise.
        pieces = kmeans(rows, min(parts, max(1, len(rows) // 4))) if len(rows) else centre[None]
        found.append(pieces if len(pieces) > 1 else centre[None])
        split += len(pieces) > 1
    return Regrouped(np.concatenate(found), split, len(centres) - len(merged_centres))


def balanced_centres(sample: Array, n_rows: int, sizes: Sizes, rounds: int = 6) -> FloatArray:
    """Centres for all rows of a store, from a random sample of them: k-means, then rounds of regrouping.

    The sample's counts stand for n_rows/s times as many rows.
    Shapes: sample (s, p) in units of the metric, in random order → (m, p).  Cost: some 2 s m p flops a round.
    Hazard: clusters of the sample estimate those of all rows to within a few per cent at 40 rows each.
    """
    share = n_rows / max(1, len(sample))
    centres = kmeans(sample, max(1, round(n_rows / sizes.target)))
    for _ in range(rounds):
        labels = nearest_centres(sample, centres).labels[:, 0]
        counts = np.rint(share * block_counts(labels, len(centres))).astype(np.int64)
        centres, split, merged = regroup(centres, counts, sample, labels, sizes)
        if split == 0 and merged == 0:
            break
    return centres


def halo_limits(nearest: Nearest, n_centres: int, share: float = 1.0) -> FloatArray:
    """How near rows of other blocks must be to widen a block's head by about ``share`` of its own size.

    margin_ij = d_ij² − d_i1², the excess of block j's centre over the row's own: zero on the border of both
    limit_j: so that share · count_j rows of other blocks have a smaller margin; −1 where there are none
    nearest: several centres of each row of a sample (n, k).  Shapes: → (m,).  Cost: O(n k log n).
    Hazard: a row offers itself to its k nearest centres only; in many dimensions k should be 6 or more.
    """
    labels, margins = nearest.labels[:, 1:].ravel(), _margins(nearest)[:, 1:].ravel()
    own = block_counts(nearest.labels[:, 0], n_centres)
    order = np.lexsort((margins, labels))
    first = np.searchsorted(labels[order], np.arange(n_centres + 1))
    offered = np.diff(first)
    wanted = np.minimum(np.rint(share * own).astype(np.int64), offered)
    limits = np.full(n_centres, -1.0)
    some = np.flatnonzero(wanted > 0)
    limits[some] = margins[order[first[some] + wanted[some] - 1]]
    return limits


def halo_blocks(nearest: Nearest, limits: FloatArray) -> BoolArray:
    """Which of its k nearest centres, other than the first, a row also serves: (n, k)."""
    inside: BoolArray = _margins(nearest) <= limits[nearest.labels]
    inside[:, :1] = False
    return inside


@dataclass(frozen=True, eq=False)
class AssignRows:
    """The centre of each row, and the offers of rows near the border to the centres beyond it.

    ``centres`` (m, p) in units of ``scale`` (p,); ``limits`` (m,) of margins, see :func:`halo_limits`.
    """

    centres: FloatArray
    scale: FloatArray
    limits: FloatArray | None = None

    @cached_property
    def tree(self) -> cKDTree | None:
        """Made once in a process, for all its tasks."""
        return centre_tree(self.centres)

    def __call__(self, features: Array) -> Assigned:
        """Centres and offers of standardised rows."""
        count = 1 if self.limits is None else NEAR_CENTRES
        nearest = nearest_centres(features / self.scale, self.centres, count, self.tree)
        if self.limits is None:
            nothing = np.zeros(0, np.int64)
            return Assigned(nearest.labels[:, 0], nothing, nothing, np.zeros(0))
        rows, places = np.nonzero(halo_blocks(nearest, self.limits))
        margins = _margins(nearest)[rows, places]
        return Assigned(nearest.labels[:, 0], rows, nearest.labels[rows, places], margins)


def _margins(nearest: Nearest) -> FloatArray:
    return nearest.squares - nearest.squares[:, :1]


def slices(counts: IntArray, most: int) -> IntArray:
    """First places of the blocks when rows are ordered by centre: one for each centre that has any rows.

    A centre of more than ``most`` rows is cut into equal parts, in order of rows.
    Shapes: (m,) → (blocks + 1,), the last one being the number of rows.
    """
    starts, before = [0], 0
    for count in counts.tolist():
        parts = -(-count // most)
        starts += [before + count * part // parts for part in range(1, parts + 1)]
        before += count
    return np.array(starts, np.int64)


def _merge_tiny(centres: FloatArray, counts: IntArray, sizes: Sizes) -> tuple[FloatArray, IntArray, IntArray]:
    """Centres and counts after tiny clusters have joined others, and where each old centre has gone."""
    moved, size = centres.astype(np.float64, copy=True), counts.copy()
    home = np.arange(len(centres))
    alive = np.ones(len(centres), bool)
    tiny = [(int(size[j]), j) for j in np.flatnonzero(size < sizes.least).tolist()]
    heapq.heapify(tiny)
    while tiny:
        count, one = heapq.heappop(tiny)
        if not alive[one] or count != size[one]:
            continue  # merged away, or larger by now
        can_take = alive & (size + size[one] <= sizes.most)
        can_take[one] = False
        if not can_take.any():
            continue
        squares = np.where(can_take, ((moved - moved[one]) ** 2).sum(axis=1), np.inf)
        other = int(np.argmin(squares))
        total = max(1, int(size[one] + size[other]))
        moved[other] = (size[one] * moved[one] + size[other] * moved[other]) / total
        size[other] += size[one]
        alive[one] = False
        home[home == one] = other
        if size[other] < sizes.least:
            heapq.heappush(tiny, (int(size[other]), other))
    place = np.cumsum(alive) - 1
    return moved[alive], size[alive], place[home]


def grouping_bytes(rows: int, n_centres: int, n_features: int, count: int = 1) -> int:
    """Upper bound of the bytes that :func:`nearest_centres` takes, its result included."""
    tile = 8 * min(rows, tile_rows(n_centres)) * (n_centres + n_features + 4)
    return tile + 16 * rows * count + 8 * n_centres * (n_features + 1)
