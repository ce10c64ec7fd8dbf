"""A data set of any size whose true probabilities are known."""

from __future__ import annotations

import os

import numpy as np
import zarr
from numpy.typing import NDArray

from streamgp.arrays import FloatArray
from streamgp.data.rows import COMPLETE

CHUNK_ROWS = 65536


def true_probability(features: NDArray[np.floating]) -> FloatArray:
    """Probability of the positive class: a smooth, nonlinear function of four of the columns."""
    a, b, c, d = np.asarray(features[:, :4], np.float64).T
    score = 1.5 * np.sin(1.5 * a) + b * c + 0.5 * (d**2 - 1) - 0.5
    probability: FloatArray = 1.0 / (1.0 + np.exp(-2.5 * score))
    return probability


def write_store(
    path: str | os.PathLike[str],
    n_rows: int,
    n_features: int = 8,
    seed: int = 0,
    chunk_rows: int = CHUNK_ROWS,
) -> None:
    """Write a Zarr group with ``X`` (float32) and ``y`` (labels "no", "yes"), one chunk at a time.

    The columns have different units, as real ones do. Every chunk has its own random stream.
    """
    group = zarr.open_group(os.fspath(path), mode="w-")
    chunk = min(chunk_rows, n_rows)
    features = group.create_array(
        "X", shape=(n_rows, n_features), chunks=(chunk, n_features), dtype="float32"
    )
    labels = group.create_array("y", shape=(n_rows,), chunks=(chunk,), dtype=str)
    units = 10.0 ** (np.arange(n_features) % 4 - 1)
    for number, start in enumerate(range(0, n_rows, chunk)):
        generator = np.random.default_rng([seed, number])
        block = generator.standard_normal((min(chunk, n_rows - start), n_features))
        positive = generator.random(len(block)) < true_probability(block)
        features[start : start + chunk] = (block + 3.0) * units
        labels[start : start + chunk] = np.where(positive, "yes", "no")
    group.attrs[COMPLETE] = True
