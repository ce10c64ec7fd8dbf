"""A random share of a data set as a store of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import zarr

from streamgp.data.columns import load
from streamgp.data.rows import COMPLETE, Rows
from streamgp.errors import StoreError


def write_sample(rows: Rows, out: Path, share: float, seed: int) -> int:
    """Write a random share of the rows, in their order, to a new group; returns how many.

    Every chunk is read once, one at a time: sorted stores need no care. Chunks of the sample have as many
    rows as those of the store.
    """
    if rows.targets is None:
        raise StoreError("a sample needs targets: name their array by y=")
    generator = np.random.default_rng(seed)
    taken = max(2, round(share * rows.n_rows))
    strings = rows.targets.dtype.kind in "UST"
    group = zarr.open_group(out, mode="w-")
    chunk = min(rows.features.chunk_rows, taken)
    x = group.create_array(
        "X",
        shape=(taken, rows.n_features),
        dtype=rows.features.dtype,
        chunks=(chunk, rows.n_features),
        config={"write_empty_chunks": True},
    )
    y = group.create_array(
        "y",
        shape=(taken,),
        dtype=str if strings else rows.targets.dtype,
        chunks=(chunk,),
        config={"write_empty_chunks": True},
    )
    for span in rows.spans():
        first, last = span.start * taken // rows.n_rows, span.stop * taken // rows.n_rows
        if first < last:
            here = np.sort(generator.choice(span.rows, last - first, replace=False))
            features, targets = rows.pieces(span)
            x[first:last], y[first:last] = load(features)[here], load(targets)[here]
    group.attrs[COMPLETE] = True
    return taken
