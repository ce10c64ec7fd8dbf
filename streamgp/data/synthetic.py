"""A data set of any size whose true probabilities are known."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from streamgp.arrays import FloatArray
from streamgp.data.rows import COMPLETE

CHUNK_ROWS = 65536
SHIFT = 3.0


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
    labels: tuple[Any, Any] = ("no", "yes"),
) -> None:
    """Write a Zarr group with ``X`` (float32) and ``y`` (two labels, of strings or int8), a chunk at a time.

    The columns have different units, as real ones do. Every chunk has its own random stream.
    """
    group = zarr.open_group(os.fspath(path), mode="w-")
    chunk = min(chunk_rows, n_rows)
    features = group.create_array(
        "X", shape=(n_rows, n_features), chunks=(chunk, n_features), dtype="float32"
    )
    dtype = str if isinstance(labels[0], str) else np.int8
    targets = group.create_array("y", shape=(n_rows,), chunks=(chunk,), dtype=dtype)
    units = _units(n_features)
    for number, start in enumerate(range(0, n_rows, chunk)):
        generator = np.random.default_rng([seed, number])
        block = generator.standard_normal((min(chunk, n_rows - start), n_features))
        positive = generator.random(len(block)) < true_probability(block)
        features[start : start + chunk] = (block + SHIFT) * units
        targets[start : start + chunk] = np.where(positive, labels[1], labels[0])
    group.attrs[COMPLETE] = True


def best_scores(path: str | os.PathLike[str]) -> tuple[float, float]:
    """Error and log loss (in nats) of the true probabilities on a store: no model can be better for long."""
    group = zarr.open_group(os.fspath(path), mode="r")
    features: Any = group["X"]
    labels: Any = group["y"]
    n_rows, n_features = features.shape
    wrong = loss = 0.0
    for start in range(0, n_rows, features.chunks[0]):
        here = slice(start, start + features.chunks[0])
        positive = true_probability(features[here] / _units(n_features) - SHIFT)
        is_positive = labels[here] == "yes"
        wrong += float(((positive > 0.5) != is_positive).sum())
        loss -= float(np.log(np.where(is_positive, positive, 1 - positive)).sum())
    return wrong / n_rows, loss / n_rows


def _units(n_features: int) -> FloatArray:
    return np.asarray(10.0 ** (np.arange(n_features) % 4 - 1), np.float64)
