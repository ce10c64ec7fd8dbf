"""Heads of blocks that have predicted, held for the rows that come next."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference.inducing.posterior import InducingPosterior
from streamgp.inference.local.divided import divide_block
from streamgp.inference.local.prediction import LatentHead, latent_head
from streamgp.inference.local.prior import BlockPrior
from streamgp.inference.sites import Sites


def sites_of(sites: FloatArray, head: int) -> Sites:
    """The sites of one latent function, from those of all: (c, heads, 2)."""
    return Sites(*np.ascontiguousarray(sites[:, head].T))


@dataclass(frozen=True, eq=False)
class LatentsInTurn:
    """The heads of all latent functions, each made when it has its turn; sites (b, heads, 2) of all."""

    prior: BlockPrior
    sites: FloatArray
    posteriors: tuple[InducingPosterior, ...]

    def __iter__(self) -> Iterator[LatentHead]:
        for head, posterior in enumerate(self.posteriors):
            yield latent_head(divide_block(self.prior, sites_of(self.sites, head)), posterior)


class WidenedHead(NamedTuple):
    """A block and its halo, ready to predict: inputs (b, p), W features (b, m), one latent head each."""

    inputs: FloatArray
    features: FloatArray
    latents: Iterable[LatentHead]

    @property
    def nbytes(self) -> int:
        """Bytes that it holds."""
        return self.inputs.nbytes + self.features.nbytes + sum(latent.nbytes for latent in self.latents)


class RecentHeads:
    """Heads used last, up to so many bytes; one for each process, whatever number of threads."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._held = most_bytes, 0
        self._heads: OrderedDict[int, WidenedHead] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def most_bytes(self) -> int:
        """Bytes that may be held."""
        return self._most

    def resize(self, most_bytes: int) -> None:
        """Hold so many bytes from now on."""
        with self._lock:
            self._most = most_bytes
            self._make_room()

    def get(self, block: int) -> WidenedHead | None:
        """The head of a block if it is held; it counts as used."""
        with self._lock:
            if block in self._heads:
                self._heads.move_to_end(block)
            return self._heads.get(block)

    def put(self, block: int, head: WidenedHead) -> None:
        """Hold a head; those used longest ago make room."""
        with self._lock:
            if block in self._heads or head.nbytes > self._most:
                return
            self._heads[block] = head
            self._held += head.nbytes
            self._make_room()

    def _make_room(self) -> None:
        while self._held > self._most:
            self._held -= self._heads.popitem(last=False)[1].nbytes
