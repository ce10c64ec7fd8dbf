"""Random order on disk: rows go to buckets by their keys, and each bucket is sorted in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Array


class Buckets:
    """Files that each hold the rows of a range of keys.

    Rows of one bucket after the other, each sorted by key, are all rows sorted by key: the order does not
    depend on the number of buckets. Equal keys keep the order in which rows came.
    """

    def __init__(self, folder: Path, number: int, target_dtype: np.dtype[Any]) -> None:
        folder.mkdir(parents=True)
        self._target_dtype = target_dtype
        self.paths = [folder / f"bucket-{place:05d}" for place in range(number)]
        self._dtype: np.dtype[Any] | None = None

    def add(self, keys: NDArray[np.uint64], features: Array, targets: Array) -> None:
        """Append rows to their buckets."""
        if self._dtype is None:
            row = ("X", features.dtype, (features.shape[1],))
            self._dtype = np.dtype([("key", np.uint64), ("y", self._target_dtype), row])
        records = np.empty(len(keys), self._dtype)
        records["key"], records["X"], records["y"] = keys, features, targets
        # The bucket from the upper half of the key: products of the whole key would overflow.
        places = ((keys >> np.uint64(32)) * np.uint64(len(self.paths)) >> np.uint64(32)).astype(np.int64)
        order = np.argsort(places, kind="stable")
        ends = np.searchsorted(places[order], np.arange(len(self.paths) + 1))
        for place in np.flatnonzero(np.diff(ends)):
            with self.paths[place].open("ab") as file:
                records[order[ends[place] : ends[place + 1]]].tofile(file)

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """Features and targets in the order of keys; a bucket's file is removed once it has been read."""
        for path in self.paths:
            if self._dtype is None or not path.exists():
                continue
            records = np.fromfile(path, self._dtype)
            path.unlink()
            order = np.argsort(records["key"], kind="stable")
            yield records["X"][order], records["y"][order]
