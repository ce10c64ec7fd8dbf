"""Writes a store of any size whose Bayes error is known, because a known teacher drew its labels.

    python -m benchmarks.scale.make_teacher teacher.zarr --rows 10000000
    python -m benchmarks.scale.make_teacher test.zarr --rows 100000 --first-row 10000000
    python -m benchmarks.scale.make_teacher drifting.zarr --rows 1000000 --classes 5 --drift 2 --sorted

The teacher is a draw of a Gaussian process, by random Fourier features: a smooth function of all features and
a rougher one of the first few. Labels are drawn from its probabilities, so that the errors that no model can
avoid follow from them; they are written to the attributes ``bayes_error`` and ``bayes_log_loss`` of the
store. A row is a function of its number (and the teacher), so that two stores of one teacher with other rows
are a training and a test set, chunks can be written in any order, and a run that was interrupted goes on
where it was.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import zarr
from scipy.special import ndtr, ndtri, softmax
from threadpoolctl import threadpool_limits

from benchmarks.datasets import Array
from streamgp.data.rows import COMPLETE

UNIT_ROWS = 4096
"""Rows drawn from one random stream: a row's number says which stream, and its place there."""
CHUNK_ROWS = 16 * UNIT_ROWS
TEACHER = "teacher"


class Function(NamedTuple):
    """f(x) = Σ weight cos(frequencies x + phases): one function for each column of weights."""

    frequencies: Array
    phases: Array
    weights: Array

    def __call__(self, features: Array) -> Array:
        """Values (c, functions) of rows (c, p)."""
        return np.cos(features @ self.frequencies + self.phases) @ self.weights


class Drawn(NamedTuple):
    """Rows of a teacher: features (c, p), targets (c,), and the least expected error and log loss of each."""

    features: Array
    targets: Array
    error: Array
    log_loss: Array


@dataclass(frozen=True)
class Teacher:
    """What labels are drawn from.

    ``classes``: 2: y = 1 with probability Φ(f(x)/noise); more: softmax(f(x)/noise); 0: real targets,
    f(x) + noise · N(0, 1). ``drift``: how far the mean of the features moves from the first row to the last,
    in standard deviations; labels stay the same function of the features. ``sorted``: by the first feature.
    ``period``: rows over which both happen; others follow as if from the start.
    """

    features: int = 8
    classes: int = 2
    noise: float = 0.25
    rough_features: int = 3
    rough_lengthscale: float = 0.4
    smooth_lengthscale: float = 3.0
    frequencies: int = 256
    drift: float = 0.0
    sorted: bool = False
    period: int = 1
    seed: int = 0

    @cached_property
    def functions(self) -> tuple[Function, Function]:
        """The rougher one, of the first features, and the smooth one, of all; each of variance 1/2."""
        generator = np.random.default_rng([self.seed, 1])
        count = self.classes if self.classes > 2 else 1

        def draw(lengthscale: float, used: int) -> Function:
            shape = (self.features, self.frequencies)
            frequencies = generator.standard_normal(shape) / lengthscale
            frequencies[used:] = 0.0
            phases = generator.uniform(0.0, 2.0 * np.pi, self.frequencies)
            weights = generator.standard_normal((self.frequencies, count)) / np.sqrt(self.frequencies)
            return Function(*(array.astype(np.float32) for array in (frequencies, phases, weights)))

        return draw(self.rough_lengthscale, self.rough_features), draw(self.smooth_lengthscale, self.features)

    def unit(self, number: int) -> Drawn:
        """The rows of one random stream."""
        generator = np.random.default_rng([self.seed, 2, number])
        features = generator.standard_normal((UNIT_ROWS, self.features), dtype=np.float32)
        chance = generator.random(UNIT_ROWS)
        share = (number * UNIT_ROWS + np.arange(UNIT_ROWS)) % self.period / self.period
        if self.sorted:
            features[:, 0] = np.sqrt(12.0) * (share - 0.5)  # as wide as the others
        features += (self.drift * (share[:, None] - 0.5)).astype(np.float32)
        rough, smooth = self.functions
        latent = (rough(features) + smooth(features)).astype(np.float64)
        return Drawn(features, *self._labelled(latent / self.noise, chance))

    def _labelled(self, latent: Array, chance: Array) -> tuple[Array, Array, Array]:
        """Targets, expected errors and log losses from functions in units of the noise."""
        if self.classes == 0:
            log_loss = 0.5 * np.log(2.0 * np.pi * np.e * self.noise**2)
            constant = np.ones(len(chance))
            return self.noise * (latent[:, 0] + ndtri(chance)), self.noise**2 * constant, log_loss * constant
        if self.classes == 2:
            positive = ndtr(latent[:, 0])
            probabilities = np.stack([1.0 - positive, positive], axis=1)
        else:
            probabilities = softmax(latent, axis=1)
        targets = (chance[:, None] > np.cumsum(probabilities[:, :-1], axis=1)).sum(axis=1)
        surprise = -np.log(np.maximum(probabilities, 1e-300))
        return targets, 1.0 - probabilities.max(axis=1), (probabilities * surprise).sum(axis=1)

    def rows(self, start: int, stop: int) -> Drawn:
        """Rows by their numbers, whatever was drawn before."""
        units = range(start // UNIT_ROWS, -(-stop // UNIT_ROWS))
        columns = zip(*(self.unit(number) for number in units), strict=True)
        first = start - units.start * UNIT_ROWS
        return Drawn(*(np.concatenate(column)[first : first + stop - start] for column in columns))


def write_teacher(
    path: str | os.PathLike[str],
    teacher: Teacher,
    n_rows: int,
    first_row: int = 0,
    workers: int = 2,
    chunk_rows: int = CHUNK_ROWS,
) -> dict[str, float]:
    """Write ``X`` (float32) and ``y``, chunk by chunk, those that are there already not again.

    Returns what no model can avoid: ``bayes_error`` (of real targets the mean square) and ``bayes_log_loss``.
    """
    group = zarr.open_group(os.fspath(path), mode="a")
    made = json.dumps({**asdict(teacher), "rows": n_rows, "first_row": first_row})
    if group.attrs.setdefault(TEACHER, made) != made:
        raise ValueError(f"{os.fspath(path)!r} is of another teacher: {group.attrs[TEACHER]}; remove it")
    chunk = min(chunk_rows, n_rows)
    starts = range(0, n_rows, chunk)
    kind = "int8" if teacher.classes else "float32"
    X, y, expected = (
        group.require_array(name, shape=shape, chunks=chunks, dtype=dtype, fill_value=fill)
        for name, shape, chunks, dtype, fill in (
            ("X", (n_rows, teacher.features), (chunk, teacher.features), "float32", 0.0),
            ("y", (n_rows,), (chunk,), kind, 0),
            # Means of a chunk, written after its rows: which chunks have them is known from here.
            ("bayes", (len(starts), 2), (1, 2), "float64", np.nan),
        )
    )

    def write(number: int) -> None:
        start = number * chunk
        stop = min(start + chunk, n_rows)
        drawn = teacher.rows(first_row + start, first_row + stop)
        X[start:stop], y[start:stop] = drawn.features, drawn.targets
        expected[number] = [drawn.error.mean(), drawn.log_loss.mean()]

    missing = np.flatnonzero(np.isnan(expected[:]).any(axis=1)).tolist()
    with threadpool_limits(1), ThreadPoolExecutor(workers) as pool:
        list(pool.map(write, missing))
    sizes = np.diff([*starts, n_rows])
    error, log_loss = sizes @ expected[:] / n_rows
    found = {"bayes_error": float(error), "bayes_log_loss": float(log_loss)}
    group.attrs.update({**found, COMPLETE: True})
    return found


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Options for every field of a teacher; their names."""
    for field in fields(Teacher):
        name = "--" + field.name.replace("_", "-")
        if isinstance(field.default, bool):
            parser.add_argument(name, action="store_true")
        else:
            parser.add_argument(name, type=type(field.default), default=field.default)
        yield field.name


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="a Zarr group, new or begun")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--first-row", type=int, default=0, help="number of the first row")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--chunk-rows", type=int, default=CHUNK_ROWS, help="rows of a chunk of the store")
    names = list(_options(parser))
    options = parser.parse_args(arguments)
    values = {name: getattr(options, name) for name in names}
    if options.period == 1:
        values["period"] = options.rows
    found = write_teacher(
        options.out,
        Teacher(**values),
        options.rows,
        options.first_row,
        options.workers,
        options.chunk_rows,
    )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
