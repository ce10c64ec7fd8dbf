"""Random draws that belong to a row: the same for any chunking, order or worker."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamgp.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class RowKeys:
    """One number in [0, 1) for each row, uniform and independent, a pure function of row and seed.

    The m rows of smallest key are a simple random sample of size m, whatever the order they are met in.
    """

    seed: int

    def __call__(self, rows: IntArray) -> FloatArray:
        """Keys of rows.

        Shapes: (c,) → (c,).  Cost: O(c).  Source: the finaliser of SplitMix64 [Steele2014].
        """
        # Multiplication modulo 2⁶⁴ is the point: NumPy's unsigned integers wrap silently in arrays.
        z = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(self.seed % 2**64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        keys: FloatArray = (z >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return keys


def key_bounds(quotas: IntArray, counts: IntArray) -> FloatArray:
    """Keys that the ``quotas`` smallest of each class surely stay below, so that others need not be held.

    The m-th smallest of n uniform keys exceeds (m + 7√m + 20)/n with a probability below 1e-9; should it,
    a few rows fewer are drawn.  Shapes: (k,), (k,) → (k,).
    """
    bounds: FloatArray = (quotas + 7.0 * np.sqrt(quotas) + 20.0) / np.maximum(counts, 1)
    return bounds


def score_bound(scores: FloatArray, weights: FloatArray, wanted: int) -> float:
    """A score that surely ``wanted`` rows reach, so that others need not be held; −inf where none is known.

    ``scores`` are those of a random sample in which a row stands for ``weights`` rows. Rows of a score of s
    or more number Σ ω, and fall short of that by 7 √(Σ ω²) + 20 max ω with a probability below 1e-9.
    Shapes: (c,), (c,).  Cost: O(c log c).
    """
    order = np.argsort(-scores, kind="stable")
    weights = weights[order]
    surely = np.cumsum(weights) - 7.0 * np.sqrt(np.cumsum(weights**2)) - 20.0 * weights.max(initial=0.0)
    enough = np.flatnonzero(surely >= wanted)
    return float(scores[order[enough[0]]]) if enough.size else -np.inf


def stratified_quotas(counts: IntArray, size: int, least_share: float = 0.0) -> IntArray:
    """How many rows to draw from each class: by its share, and at least ``least_share`` of an equal part.

    Shapes: counts (k,) → (k,).  No class is asked for more rows than it has; the sum is near ``size``.
    """
    if size >= counts.sum():
        return counts
    proportional = size * counts / max(1, counts.sum())
    wanted = np.maximum(proportional, least_share * size / max(1, len(counts)))
    shrunk = np.ceil(wanted * min(1.0, size / max(1e-9, wanted.sum())))
    quotas: IntArray = np.minimum(counts, shrunk.astype(np.int64))
    return quotas
