"""What a visitor sees, and what it must be able to do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from threading import Semaphore
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.data import Span, Standardizer, Targets
from streamgp.passes.finite import OnBadRows, bad_rows, refuse_row
from streamgp.posterior import Marginals

T = TypeVar("T")


class Block(NamedTuple):
    """Consecutive rows of the store.

    ``features`` and ``targets`` are as stored where the pass has no :class:`Reading`, else standardised and
    encoded; ``stored`` are the features as stored in either case. ``marginals`` belong to the pass's
    snapshot. Arrays of features are reused for the next block: what a visitor keeps, it copies. ``bad`` are
    the places of rows that cannot be computed with, where the pass looks for them; their features are zero.
    """

    start: int
    stored: Array
    features: Array
    targets: Array | None
    marginals: Marginals | None
    bad: IntArray | None = None

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return len(self.features)


@dataclass(frozen=True, eq=False)
class Reading:
    """How stored values become what the model works with."""

    standardizer: Standardizer
    targets: Targets | None
    dtype: np.dtype[Any]


class Posterior(Protocol):
    """What a pass asks of a frozen posterior: :class:`~streamgp.posterior.Snapshot` is the plain one."""

    @property
    def prepared(self) -> Any:
        """What is made once in a process, for all blocks and threads."""

    def buffer(self, rows: int) -> Array | None:
        """Room that :meth:`marginals` can use again and again."""

    def marginals(
        self, features: Array, with_variance: bool = True, kernel_out: Array | None = None
    ) -> Marginals:
        """Latent mean and variance of standardised rows."""


class Buffers(NamedTuple):
    """Arrays that a task uses for one block after the other: standardised features, kernel block."""

    features: Array | None
    kernel: Array | None


class Visitor(ABC, Generic[T]):
    """A frozen value that turns blocks into partial results, and merges them.

    All methods are pure (a writer writes the same rows however often it is called), because a task may run
    twice. ``merge`` is called in the order of rows, first within a task, then across tasks.
    """

    @property
    def needs_variance(self) -> bool:
        """Whether the marginals must come with variances, which cost most of a pass."""
        return False

    @abstractmethod
    def visit(self, block: Block) -> T:
        """The partial result of one block."""

    @abstractmethod
    def merge(self, earlier: T, later: T) -> T:
        """The result of both; ``earlier`` stands for the rows before."""

    def finish(self, span: Span, total: T) -> T:
        """Called in the task once its span has been visited, with the span's merged result."""
        return total


@dataclass(frozen=True, eq=False)
class Job:
    """All that tasks of one pass have in common; shipped once per pass.

    ``turns``: taken by whoever computes, where more threads of this process read than may compute.
    ``threads``: so many visit the blocks of one span, where there are fewer tasks than threads.
    """

    visitor: Visitor[Any]
    reading: Reading | None
    snapshot: Posterior | None
    rows_per_block: int
    on_bad_rows: OnBadRows | None = None  # None: rows are known to be good
    turns: Semaphore | None = None
    threads: int = 1

    def buffers(self, rows: int) -> Buffers:
        """Room for blocks of at most so many rows."""
        features = kernel = None
        if self.reading is not None:
            features = np.empty((rows, len(self.reading.standardizer.shift)), self.reading.dtype)
        if self.snapshot is not None:
            kernel = self.snapshot.buffer(rows)
        return Buffers(features, kernel)

    def block(self, start: int, stored: Array, targets: Array | None, buffers: Buffers) -> Block:
        """Prepare stored rows for the visitor."""
        features, bad = stored, None
        if self.reading is not None:
            assert buffers.features is not None
            with np.errstate(over="ignore"):  # float32 cannot hold it: a bad row
                features = self.reading.standardizer.apply(
                    stored, self.reading.dtype, out=buffers.features[: len(stored)]
                )
            if self.on_bad_rows is not None:
                # That a row has no label does not make it a bad one.
                free = getattr(self.reading.targets, "no_label", None) is not None
                bad = bad_rows(features, None if free else targets)
                if bad.size and self.on_bad_rows == "raise":
                    refuse_row(
                        start + int(bad[0]), stored[bad[0]], None if targets is None else targets[bad[0]]
                    )
                features[bad] = 0.0
            if targets is not None and self.reading.targets is not None:
                targets = _encoded(self.reading.targets, targets, bad)
        marginals = None
        if self.snapshot is not None:
            room = None if buffers.kernel is None else buffers.kernel[: len(stored)]
            marginals = self.snapshot.marginals(features, self.visitor.needs_variance, kernel_out=room)
        return Block(start, stored, features, targets, marginals, bad)


def _encoded(encoding: Targets, targets: Array, bad: IntArray | None) -> FloatArray:
    """Encoded targets; those of bad rows are zero, because they may be no target at all."""
    if bad is None or not bad.size:
        return encoding.encode(targets)
    encoded, good = np.zeros(len(targets)), np.delete(np.arange(len(targets)), bad)
    encoded[good] = encoding.encode(targets[good])
    return encoded
