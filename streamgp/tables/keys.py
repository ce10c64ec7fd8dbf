"""Random numbers that belong to rows: a hash of the seed, the purpose and the number of the row.

They do not depend on how a source is cut into pieces, so neither do split, folds and order.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import BoolArray, IntArray

N_FOLDS = 5
"""Parts of the training rows: the mean of a category for a row comes from the four parts it is not in."""


@dataclass(frozen=True)
class RowDraws:
    """What chance says about each row."""

    seed: int
    test_share: float = 0.0

    def in_test(self, start: int, stop: int) -> BoolArray:
        """Whether rows belong to the test part."""
        return self.keys("test", start, stop) < np.uint64(int(self.test_share * 2.0**64))

    def folds(self, start: int, stop: int) -> IntArray:
        """The fold of each row."""
        return (self.keys("fold", start, stop) % np.uint64(N_FOLDS)).astype(np.int64)

    def order(self, start: int, stop: int) -> NDArray[np.uint64]:
        """Sorted by these numbers, rows are in random order."""
        return self.keys("order", start, stop)

    def keys(self, purpose: str, start: int, stop: int) -> NDArray[np.uint64]:
        """SplitMix64 of the row number, from a start that seed and purpose give.  Shape: (stop - start,)."""
        digest = hashlib.sha256(f"{self.seed} {purpose}".encode()).digest()
        state = np.arange(start + 1, stop + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        state += np.frombuffer(digest, "<u8", count=1)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: NDArray[np.uint64] = state ^ (state >> np.uint64(31))
        return mixed
