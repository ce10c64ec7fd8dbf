"""Rare classes in a trial: how many rows of one there are to learn from and to judge, and their shares."""

from __future__ import annotations

import math

import numpy as np

from streamgp.arrays import IntArray
from streamgp.passes.candidates import Pool, smallest

FEWEST_RARE = 20
"""Rows of the rarer of two classes that learn, and as many that judge; with fewer a verdict is chance."""


def rarer(counts: IntArray, n_rows: float) -> float:
    """Rows of the rarer of two classes among so many; of more classes or numbers: enough."""
    return n_rows * float(counts.min() / counts.sum()) if len(counts) == 2 else math.inf


def by_share(sample: Pool, counts: IntArray) -> Pool:
    """Rows of the sample in which every class has its share again: rare ones were drawn more often.

    ``counts``: rows of each class in all. The class with most rows in the sample says which part of all rows
    that is: a common class was never drawn more often than its share. A class of which there are fewer (its
    other rows judge) keeps what it has, and none loses its last row.
    """
    if len(counts) == 1:
        return sample
    codes = sample.targets.astype(np.intp)
    drawn = np.bincount(codes, minlength=len(counts))
    most = int(np.argmax(drawn))
    quotas = np.minimum(drawn, np.maximum(1, np.rint(drawn[most] * counts / counts[most]).astype(np.int64)))
    kept = [
        members[smallest(sample.keys[members], int(quota))]
        for members, quota in ((np.flatnonzero(codes == code), quota) for code, quota in enumerate(quotas))
    ]
    return sample.take(np.sort(np.concatenate(kept)))
