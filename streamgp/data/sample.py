"""A random share of a data set: in memory, or as a store of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import zarr

from streamgp.arrays import Array
from streamgp.data.columns import load
from streamgp.data.rows import COMPLETE, Rows
from streamgp.errors import StoreError


class Draw(NamedTuple):
    """Rows ``first`` to ``last`` of a sample."""

    first: int
    last: int
    features: Array
    targets: Array


MOST_ROWS = 20_000
MOST_NUMBERS = 3_000_000
"""Rows, and numbers in their features, of a sample in memory."""


def take_sample(rows: Rows, seed: int) -> tuple[Array, Array]:
    """Features and targets of some thousand random rows, in their order, in memory."""
    drawn = list(_draws(rows, min(rows.n_rows, MOST_ROWS, max(1, MOST_NUMBERS // rows.n_features)), seed))
    return np.concatenate([part.features for part in drawn]), np.concatenate([part.targets for part in drawn])


def write_sample(rows: Rows, out: Path, share: float, seed: int) -> int:
    """Write a random share of the rows, in their order, to a new group; returns how many.

    Chunks of the sample have as many rows as those of the store.
    """
    if rows.targets is None:
        raise StoreError("a sample needs targets: name their array by y=")
    taken = max(2, round(share * rows.n_rows))
    strings = rows.targets.dtype.kind in "UST"
    group = zarr.open_group(out, mode="w-")
    chunk = min(rows.features.chunk_rows, taken)
    shapes = {
        "X": ((rows.n_features,), rows.features.dtype),
        "y": ((), str if strings else rows.targets.dtype),
    }
    x, y = (
        group.create_array(
            name,
            shape=(taken, *axes),
            dtype=dtype,
            chunks=(chunk, *axes),
            config={"write_empty_chunks": True},
        )
        for name, (axes, dtype) in shapes.items()
    )
    for first, last, features, targets in _draws(rows, taken, seed):
        x[first:last], y[first:last] = features, targets
    group.attrs[COMPLETE] = True
    return taken


def _draws(rows: Rows, taken: int, seed: int) -> Iterator[Draw]:
    """Random rows of every span, as many as its share: sorted stores need no care. One span at a time."""
    generator = np.random.default_rng(seed)
    for span in rows.spans():
        first, last = span.start * taken // rows.n_rows, span.stop * taken // rows.n_rows
        if first < last:
            here = np.sort(generator.choice(span.rows, last - first, replace=False))
            features, targets = rows.pieces(span)
            yield Draw(first, last, load(features)[here], load(targets)[here])
