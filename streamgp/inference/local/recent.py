"""Heads of blocks that have predicted, held for the rows that come next."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

from streamgp.arrays import FloatArray
from streamgp.inference.local.prediction import LatentHead


class WidenedHead(NamedTuple):
    """A block and its halo, ready to predict: inputs (b, p), W features (b, m), one latent head each."""

    inputs: FloatArray
    features: FloatArray
    latents: tuple[LatentHead, ...]

    @property
    def nbytes(self) -> int:
        """Bytes that it holds."""
        own = sum(latent.nbytes for latent in self.latents)
        return self.inputs.nbytes + self.features.nbytes + own


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
