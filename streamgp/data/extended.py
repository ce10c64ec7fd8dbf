"""Rows of a store followed by rows in memory, as one data set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import dask
import numpy as np

from streamgp.arrays import Array
from streamgp.data.columns import Column, Promise, load
from streamgp.data.missing import Absent
from streamgp.data.rows import Rows


@dataclass(frozen=True, eq=False)
class JoinedPiece(Promise):
    """A piece of a stored array, and what follows it in memory."""

    stored: Any
    more: Array

    def load(self) -> Array:
        """Read, and put both together."""
        return _joined(self.stored, self.more)


def _joined(stored: Any, more: Array) -> Array:
    return np.concatenate([load(stored), more])


@dataclass(frozen=True, eq=False)
class ExtendedColumn:
    """A column, and more rows of it in memory."""

    stored: Column
    more: Array

    @property
    def name(self) -> str:
        """That of the stored one."""
        return self.stored.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows of both."""
        rows, *others = self.stored.shape
        return (rows + len(self.more), *others)

    @property
    def dtype(self) -> np.dtype[Any]:
        """A type that holds both."""
        return np.result_type(self.stored.dtype, self.more.dtype)

    @property
    def chunk_rows(self) -> int:
        """That of the stored one."""
        return self.stored.chunk_rows

    @property
    def chunk_bytes(self) -> int:
        """Those of the stored one."""
        return self.stored.chunk_bytes

    def piece(self, start: int, stop: int) -> Any:
        """A piece of the stored one, of memory, or of both where one ends and the other begins."""
        end = self.stored.shape[0]
        if start >= end:
            return self.more[start - end : stop - end]
        stored = self.stored.piece(start, min(stop, end))
        if stop <= end:
            return stored
        more = self.more[: stop - end]
        # Dask computes what a task is given, but not what lies inside of it.
        return (
            dask.delayed(_joined)(stored, more)
            if dask.is_dask_collection(stored)
            else JoinedPiece(stored, more)
        )

    def absent_chunks(self) -> Absent:
        """Those of the stored one."""
        return self.stored.absent_chunks()

    def cut(self, rows: int) -> ExtendedColumn:
        """The stored one cut; memory can be cut anywhere."""
        return replace(self, stored=self.stored.cut(rows))


def extended_rows(rows: Rows, features: Array, targets: Array) -> Rows:
    """The rows, then those given.  Shapes: features (m, p), targets (m,)."""
    assert rows.targets is not None
    return replace(
        rows, features=ExtendedColumn(rows.features, features), targets=ExtendedColumn(rows.targets, targets)
    )
