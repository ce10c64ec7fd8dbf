"""Random order on disk: rows go to buckets by their keys, and each bucket is sorted in memory."""

from __future__ import annotations

import json
import logging
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Array
from streamgp.persistence.atomic import discard
from streamgp.tables.journal import Journal

logger = logging.getLogger(__name__)

READ_BYTES = 1 << 20


class Buckets:
    """Files that each hold the rows of a range of keys.

    Rows of one bucket after the other, each sorted by key, are all rows sorted by key: the order does not
    depend on the number of buckets. Equal keys keep the order in which rows came.
    """

    def __init__(self, folder: Path, number: int, record: np.dtype[Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.paths = [folder / f"bucket-{place:05d}" for place in range(number)]
        self.written = [(0, 0)] * number
        """Bytes of each file, and their checksum."""
        self._record = record

    def add(self, keys: NDArray[np.uint64], features: Array, targets: Array) -> None:
        """Append rows to their buckets."""
        records = np.empty(len(keys), self._record)
        records["key"], records["X"], records["y"] = keys, features, targets
        # The bucket from the upper half of the key: products of the whole key would overflow.
        places = ((keys >> np.uint64(32)) * np.uint64(len(self.paths)) >> np.uint64(32)).astype(np.int64)
        order = np.argsort(places, kind="stable")
        ends = np.searchsorted(places[order], np.arange(len(self.paths) + 1))
        for place in np.flatnonzero(np.diff(ends)):
            content = records[order[ends[place] : ends[place + 1]]].tobytes()
            size, checksum = self.written[place]
            with self.paths[place].open("ab") as file:
                file.write(content)
            self.written[place] = size + len(content), zlib.crc32(content, checksum)

    def resume(self, written: list[tuple[int, int]]) -> bool:
        """Cut the files to what was noted; whether they hold it."""
        for path, (size, checksum) in zip(self.paths, written, strict=True):
            if not size:
                discard(path)
            elif not path.exists() or path.stat().st_size < size:
                return False
            else:
                os.truncate(path, size)
                if _checksum(path) != checksum:
                    return False
        self.written = written
        return True

    def blocks(self, first: int) -> Iterator[tuple[int, Array, Array]]:
        """Features and targets of each bucket from the ``first`` on, in the order of keys."""
        for place, path in enumerate(self.paths[first:], first):
            if self.written[place][0]:
                records = np.fromfile(path, self._record)
                order = np.argsort(records["key"], kind="stable")
                yield place, records["X"][order], records["y"][order]


class Spill:
    """The buckets of all parts, and how much of the source is in them."""

    def __init__(self, journal: Journal, numbers: Mapping[str, int], record: np.dtype[Any]) -> None:
        self._journal, self._numbers, self._record = journal, numbers, record
        self.parts = self._buckets()

    def resume(self) -> int:
        """The row from which on rows are in no bucket."""
        if known := self._journal.recall("spill"):
            written = json.loads(known[1])
            pairs = {part: [(size, checksum) for size, checksum in written[part]] for part in self.parts}
            if all(buckets.resume(pairs[part]) for part, buckets in self.parts.items()):
                logger.info("shuffle: the first %d rows are on disk already", known[0])
                return known[0]
        discard(self._journal.shuffle)
        self.parts = self._buckets()
        return 0

    def remember(self, row: int) -> None:
        """Note that all rows before this one are in their buckets."""
        written = {part: buckets.written for part, buckets in self.parts.items()}
        self._journal.remember("spill", row, json.dumps(written).encode())

    def _buckets(self) -> dict[str, Buckets]:
        folder = self._journal.shuffle
        return {
            part: Buckets(folder / (part or "train"), number, self._record)
            for part, number in self._numbers.items()
        }


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while content := file.read(READ_BYTES):
            checksum = zlib.crc32(content, checksum)
    return checksum
