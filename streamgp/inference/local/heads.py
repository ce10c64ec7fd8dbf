"""Sweeps of all latent functions over a group of blocks: steps of a pass over the block store.

All functions share their inducing inputs and their blocks, so W and R of a block are made once for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import DTypeLike

from streamgp.arrays import Array, FloatArray
from streamgp.data import Targets
from streamgp.data.targets import head_targets
from streamgp.inference.inducing.basis import Basis
from streamgp.inference.inducing.posterior import InducingPosterior
from streamgp.inference.local.held import HeldBlocks
from streamgp.inference.local.prior import block_prior, prior_bytes
from streamgp.inference.local.sweep import LocalSums, exact_block, merge_local, sweep_block, sweep_bytes
from streamgp.inference.local.workspace import Workspace
from streamgp.inference.sites import Sites
from streamgp.kernels import Kernel
from streamgp.likelihoods import Gaussian, Likelihood
from streamgp.passes.block_store import BlockTable

COLUMNS = 4
"""Numbers kept for each row and head between sweeps: both of its site, its left-out log density, and what it
pushes if it may be linear."""

PlaceWeights = Callable[[int, FloatArray], FloatArray | None]
"""(first place, encoded targets) → how often the rows there count; None where all count once."""


@dataclass(frozen=True, eq=False)
class LocalSweep:
    """One damped sweep of some heads over the blocks of a group; see :func:`sweep_block`.

    ``posteriors`` and ``damping`` are of the heads that move, by their number; other heads keep their sites.
    Places that belong to no block keep zeros. ``straight``: see :func:`sweep_block`. ``held``: what former
    sweeps left of the same blocks.
    """

    basis: Basis
    posteriors: Mapping[int, InducingPosterior]
    likelihoods: tuple[Likelihood, ...]
    targets: Targets
    damping: Mapping[int, float]
    weights: PlaceWeights
    table: BlockTable
    straight: float = 0.0
    held: HeldBlocks = field(default_factory=lambda: HeldBlocks(0))

    def __call__(
        self, start: int, features: Array, encoded: FloatArray, sites: FloatArray | None
    ) -> tuple[FloatArray, list[LocalSums]]:
        """New sites, left-out densities, pushes (c, heads, 4), and sums of the heads that move, in order.

        Cost: that of a block's prior, and of a sweep for each head.
        """
        weights = self.weights(start, encoded)
        is_first = sites is None
        old = np.zeros((len(encoded), len(self.likelihoods), COLUMNS)) if sites is None else sites
        new, room = old.copy(), Workspace()
        sums: dict[int, LocalSums] = {}
        for block in self.table.blocks_within(start, start + len(encoded)):
            here = _place(self.table, block, start)
            prior = self.held.prior(block) or block_prior(self.basis, features[here], room)
            self.held.keep_prior(block, prior)
            for head, step in self.damping.items():
                swept = sweep_block(
                    prior,
                    self.posteriors[head],
                    head_targets(self.targets, encoded[here], head),
                    self.likelihoods[head],
                    Sites(old[here, head, 0], old[here, head, 1]),
                    step,
                    weights=None if weights is None else weights[here],
                    left_out=None if is_first else old[here, head, 2],
                    straight=self.straight,
                    start=self.held.start(block, head),
                    room=room,
                )
                self.held.keep_start(block, head, swept.end)
                new[here, head, 0], new[here, head, 1] = swept.sites
                new[here, head, 2], new[here, head, 3] = swept.left_out, swept.pushes
                sums[head] = merge_local(sums[head], swept.sums) if head in sums else swept.sums
        return new, [sums[head] for head in self.damping]


@dataclass(frozen=True, eq=False)
class LocalExact:
    """What Gaussian noise needs of all blocks, final after one pass; see :func:`exact_block`."""

    basis: Basis
    likelihood: Gaussian
    weights: PlaceWeights
    table: BlockTable
    dtype: DTypeLike = np.float64

    def __call__(
        self, start: int, features: Array, encoded: FloatArray, sites: FloatArray | None
    ) -> tuple[None, list[LocalSums]]:
        """Sums of the one head that there is; no sites are kept."""
        weights, room = self.weights(start, encoded), Workspace()
        total: list[LocalSums] = []
        for block in self.table.blocks_within(start, start + len(encoded)):
            here = _place(self.table, block, start)
            own = None if weights is None else weights[here]
            prior = block_prior(self.basis, features[here], room)
            part = exact_block(
                prior, encoded[here], self.likelihood, weights=own, dtype=self.dtype, room=room
            ).sums
            total = [merge_local(earlier, part) for earlier in total] or [part]
        return None, total


def _place(table: BlockTable, block: int, start: int) -> slice:
    first = int(table.starts[block]) - start
    return slice(first, first + int(table.counts[block]))


def local_bytes(
    kernel: Kernel, likelihood: Likelihood, rows: int, n_inducing: int, n_features: int, itemsize: int
) -> int:
    """Upper bound of the bytes that a sweep over one block of ``rows`` rows takes, its sums included."""
    prior = prior_bytes(kernel, rows, n_inducing, n_features)
    return prior + sweep_bytes(likelihood, rows, n_inducing, itemsize)
