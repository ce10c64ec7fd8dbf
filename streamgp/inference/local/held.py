"""Blocks held from one sweep to the next: what a sweep would compute again, where memory has room for it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import DTypeLike

from streamgp.arrays import Floats
from streamgp.inference.local.factor import BlockFactor
from streamgp.inference.local.prior import BlockPrior
from streamgp.inference.sites import Sites


@dataclass(frozen=True, eq=False)
class BlockStart:
    """What a sweep ends with and the next one of the same block and head starts from; frozen.

    factor of all rows with the new sites;  Y = L⁻¹ S W projected (b, m), in the type of products.
    """

    factor: BlockFactor
    projected: Floats

    def serves(self, sites: Sites, dtype: DTypeLike) -> bool:
        """Whether it is of these sites, which count as they are, and of products of this type."""
        return self.projected.dtype == dtype and all(map(np.array_equal, self.factor.sites, sites))


class HeldBlocks:
    """W and R of blocks, and starts of their next sweeps, up to so many bytes, for threads side by side.

    What is held has the bits that would be computed, so that it matters to nobody how much that is. It stays
    in its process: sent to others it is empty, and holds nothing there.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most, self._bytes = most_bytes, 0
        self._priors: dict[int, BlockPrior] = {}
        self._starts: dict[tuple[int, int], BlockStart] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[HeldBlocks], tuple[int]]:
        """Other processes hold nothing: their memory is not ours to divide."""
        return HeldBlocks, (0,)

    @property
    def nbytes(self) -> int:
        """Bytes that are held."""
        return self._bytes

    def prior(self, block: int) -> BlockPrior | None:
        """W and R of a block if they are held."""
        return self._priors.get(block)

    def start(self, block: int, head: int) -> BlockStart | None:
        """How the last sweep of a block and head ended if that is held."""
        return self._starts.get((block, head))

    def keep_prior(self, block: int, prior: BlockPrior) -> None:
        """Hold a copy of W and R unless they are held, or there is no room."""
        size = prior.features.nbytes + prior.residual.nbytes
        if block not in self._priors and self._takes(size):
            self._priors[block] = BlockPrior(prior.features.copy(), prior.residual.copy())

    def keep_start(self, block: int, head: int, start: BlockStart | None) -> None:
        """Hold a copy of a start instead of the one before, if its prior is held and there is room."""
        prior, former = self._priors.get(block), self._starts.pop((block, head), None)
        freed = 0 if former is None else _start_bytes(former)
        if start is None or prior is None or not self._takes(_start_bytes(start) - freed):
            self._takes(-freed)
            return
        factor = replace(start.factor, prior=prior, lower=start.factor.lower.copy())
        self._starts[block, head] = BlockStart(factor, start.projected.copy())

    def restart(self, most_bytes: int) -> None:
        """Hold nothing of what was, and so many bytes from now on."""
        with self._lock:
            self._most, self._bytes = most_bytes, 0
            self._priors.clear()
            self._starts.clear()

    def _takes(self, size: int) -> bool:
        with self._lock:
            fits = self._bytes + size <= self._most
            self._bytes += size if fits else 0
            return fits


def _start_bytes(start: BlockStart) -> int:
    return start.factor.lower.nbytes + start.projected.nbytes


def held_prior_bytes(rows: int, n_inducing: int) -> int:
    """Bytes of W and R of a block of so many rows."""
    return 8 * rows * (rows + n_inducing)
