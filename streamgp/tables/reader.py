"""Readings of a source: batches on several threads, results in the order of rows."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from tqdm.auto import tqdm

from streamgp.passes.run import available_threads
from streamgp.tables.journal import Journal
from streamgp.tables.sources import Columns, Source

T = TypeVar("T")
logger = logging.getLogger(__name__)

BATCH_BYTES = 16 << 20
"""Most raw values of a batch, as float64; a table of very many columns may have more."""
MOST_ROWS, FEWEST_ROWS = 2**14, 2**8
REMEMBERED_BATCHES = 64
"""After so many batches what they told is kept for the call that may have to go on: about a million rows."""
COPIES = 3
"""Of a batch: as it was read, filtered, and its features."""


class Codec(NamedTuple, Generic[T]):
    """Values to bytes and back, the same bits."""

    written: Callable[[T], bytes]
    read: Callable[[bytes], T]


class Reader:
    """Readings of a source: batches are worked on side by side, results come in the order of rows."""

    def __init__(self, source: Source, budget: int, progress: bool | None) -> None:
        self.source = source
        self.hidden = None if progress is None else not progress  # None: silent unless a terminal
        row_bytes = 8 * max(1, len(source.schema.names))
        # A power of two that the source's columns give alone: sums over batches then have the same rounding.
        room = 2 ** int(np.log2(max(1, BATCH_BYTES // row_bytes)))
        self.batch_rows = min(MOST_ROWS, max(FEWEST_ROWS, room))
        batch = COPIES * self.batch_rows * row_bytes
        self.threads = max(1, min(available_threads(), budget // 4 // batch - 2))
        self.workspace_bytes = batch * (self.threads + 2)
        self.pool = ThreadPoolExecutor(self.threads)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *error: object) -> None:
        self.pool.shutdown(cancel_futures=True)

    def in_order(
        self, work: Callable[[int, Columns], T], columns: Iterable[str], label: str, row: int = 0
    ) -> Iterator[T]:
        """What ``work`` makes of each batch, from the one on that has this row."""
        running: deque[tuple[int, Future[T]]] = deque()
        first, names = row - row % self.batch_rows, list(dict.fromkeys(columns))
        bar = tqdm(
            total=self.source.n_rows,
            initial=first,
            desc=label,
            unit="row",
            unit_scale=True,
            disable=self.hidden,
        )
        with bar:
            for start, batch in self.source.batches(names, self.batch_rows, first):
                running.append((len(next(iter(batch.values()))), self.pool.submit(work, start, batch)))
                while len(running) > 1 + self.threads:
                    rows, future = running.popleft()
                    yield future.result()
                    bar.update(rows)
            for rows, future in running:
                yield future.result()
                bar.update(rows)

    def folded(
        self,
        work: Callable[[int, Columns], T],
        merge: Callable[[T, T], T],
        columns: Iterable[str],
        label: str,
        journal: Journal,
        codec: Codec[T],
    ) -> T:
        """What ``work`` makes of all batches, merged in order; known rows are not read again."""
        row, total = 0, None
        if known := journal.recall(label):
            row, total = known[0], codec.read(known[1])
            logger.info("%s: %d of %d rows are known already", label, row, self.source.n_rows)
        if total is None or row < self.source.n_rows:
            results = self.in_order(work, columns, label, row)
            for number, result in enumerate(results, 1):
                total = result if total is None else merge(total, result)
                row += self.batch_rows
                if number % REMEMBERED_BATCHES == 0:
                    journal.remember(label, row, codec.written(total))
            assert total is not None
            journal.remember(label, self.source.n_rows, codec.written(total))
        return total
