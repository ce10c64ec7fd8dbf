"""Nearest centres of rows; a round of Lloyd's algorithm over all rows in one pass, each class by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.numerics.nearest import settle_nearest
from streamgp.passes.block import Block, Visitor
from streamgp.passes.candidates import is_among

ROWS_PER_TILE = 2048
PAIRS_PER_TILE = 2**22
"""Rows times centres of a tile, at most."""
TREE_CENTRES = 4096
TREE_FEATURES = 16
"""From so many centres of at most so many features a tree is never slower than all distances."""


class Nearest(NamedTuple):
    """Centres of n rows, nearest first: labels (n, k), and squared distances (n, k) in scaled inputs."""

    labels: IntArray
    squares: FloatArray


def tile_rows(n_centres: int) -> int:
    """Rows that meet all centres at a time; their number does not change a bit of the result."""
    return max(16, min(ROWS_PER_TILE, PAIRS_PER_TILE // n_centres))


def centre_tree(centres: FloatArray) -> cKDTree | None:
    """A tree of centres, where they are so many and their features so few that it finds near ones faster.

    20,000 centres: 2 to 26 µs a row, as 3 or 8 features matter; by all distances 25 µs.
    """
    if len(centres) < TREE_CENTRES or centres.shape[1] > TREE_FEATURES:
        return None
    return cKDTree(centres)


def _nearest_by_tree(tree: cKDTree, rows: Array, count: int) -> Nearest:
    wanted = min(count, tree.n)
    distances, labels = tree.query(np.asarray(rows, np.float64), k=np.arange(1, wanted + 1))
    return Nearest(np.asarray(labels, np.int64), np.square(distances))


def nearest_centres(rows: Array, centres: FloatArray, count: int = 1, tree: cKDTree | None = None) -> Nearest:
    """The nearest centres of rows, both in units of the metric; of equally near ones the lowest number.

    Shapes: rows (n, p), centres (m, p) → (n, k), k = min(count, m).
    Cost: 2 n m p flops; memory: a tile of rows × m. Many centres of few features: by a tree, see
    :func:`centre_tree`.  Hazard: none of chunking, see :func:`settle_nearest`; a tree decides otherwise
    between centres that are equally near, but each row for itself too.
    """
    if tree is None:
        tree = centre_tree(centres)
    if tree is not None:
        return _nearest_by_tree(tree, rows, count)
    wanted = min(count, len(centres))
    labels, squares = np.empty((len(rows), wanted), np.int64), np.empty((len(rows), wanted))
    known = np.ascontiguousarray(centres, np.float64)
    half = 0.5 * np.einsum("ij,ij->i", known, known)
    reach = float(np.sqrt(2.0 * half.max(initial=0.0)))
    unit = 4.0 * np.finfo(np.float64).eps * (1.0 + known.shape[1])
    at_once = tile_rows(len(known))
    room = np.empty((min(len(rows), at_once), len(known)))
    for start in range(0, len(rows), at_once):
        tile = np.ascontiguousarray(rows[start : start + at_once], np.float64)
        rough = np.matmul(tile, known.T, out=room[: len(tile)])
        np.subtract(half, rough, out=rough)
        norms = np.sqrt(np.einsum("ij,ij->i", tile, tile))
        place = slice(start, start + len(tile))
        settle_nearest(tile, known, rough, unit * reach * (reach + norms), labels[place], squares[place])
    return Nearest(labels, squares)


class ClusterSums(NamedTuple):
    """Of the rows nearest to each centre: their sum, (m, p), and their number, (m,)."""

    sums: FloatArray
    sizes: FloatArray

    def centres(self, before: FloatArray) -> FloatArray:
        """The means; an empty cluster stays where it was."""
        filled = self.sizes > 0
        return np.where(filled[:, None], self.sums / np.maximum(self.sizes, 1.0)[:, None], before)


def nearest_sums(inputs: Array, centres: FloatArray) -> ClusterSums:
    """Sums of rows by their nearest centre, found in the type of the inputs, added up in float64.

    Shapes: inputs (n, p), centres (m, p).  Cost: 2 n m p flops; memory (n, m).
    """
    sums = np.zeros(centres.shape)
    if len(inputs) == 0 or len(centres) == 0:
        return ClusterSums(sums, np.zeros(len(centres)))
    known = centres.astype(inputs.dtype)
    half = 0.5 * np.einsum("ij,ij->i", known, known)
    nearest = np.argmin(half - inputs @ known.T, axis=1)
    order = np.argsort(nearest, kind="stable")
    present, first = np.unique(nearest[order], return_index=True)
    sums[present] = np.add.reduceat(inputs[order].astype(np.float64), first, axis=0)
    return ClusterSums(sums, np.bincount(nearest, minlength=len(centres)).astype(np.float64))


def merge_clusters(earlier: ClusterSums, later: ClusterSums) -> ClusterSums:
    """Sums over the rows of both."""
    return ClusterSums(earlier.sums + later.sums, earlier.sizes + later.sizes)


@dataclass(frozen=True, eq=False)
class Assign(Visitor[ClusterSums]):
    """Sums of all rows but ``excluded`` ones (sorted) by the nearest centre of their class.

    ``centres`` are in units of ``scale`` (p,), one array for each class, or one alone for real targets.
    """

    centres: tuple[FloatArray, ...]
    scale: FloatArray
    excluded: IntArray

    def visit(self, block: Block) -> ClusterSums:
        """Sums of one block, classes one after the other."""
        assert block.targets is not None
        rows = np.arange(block.start, block.start + block.rows)
        inputs = block.features / self.scale.astype(block.features.dtype)
        counted = ~is_among(rows, self.excluded)
        if len(self.centres) == 1:
            return nearest_sums(inputs[counted], self.centres[0])
        parts = [
            nearest_sums(inputs[counted & (block.targets == code)], centres)
            for code, centres in enumerate(self.centres)
        ]
        return ClusterSums(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def merge(self, earlier: ClusterSums, later: ClusterSums) -> ClusterSums:
        """Sums over both."""
        return merge_clusters(earlier, later)
