"""Writes as many handwritten digits as asked for: those of MNIST, moved, turned and bent a little.

    python -m benchmarks.scale.make_digits digits.zarr --rows 8100000

The recipe of infinite MNIST in our own code. The first 60,000 rows are the digits as they are; a later one is
digit number row mod 60,000 under a small random translation, rotation, scaling and shear and a smooth elastic
deformation. A row is a function of its number, so chunks can be written in any order, and a run that was
interrupted goes on where it was. uint8: 8.1 million rows are 6.4 GB, and 25 GB as float32.
"""

from __future__ import annotations

import argparse
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np
import zarr

from benchmarks.datasets import Array, load
from streamgp.data.rows import COMPLETE

SIDE = 28
UNIT_ROWS = 4096
"""Rows drawn from one random stream: a row's number says which stream, and its place there."""
CHUNK_ROWS = UNIT_ROWS
KNOTS = 6
"""Displacements are drawn on a grid of KNOTS x KNOTS points and are smooth in between."""
BEND, SHIFT = 0.8, 0.8
"""Standard deviations in pixels: of the displacement of a knot, and of the whole digit."""
TURN, SCALE, SHEAR = 0.1, 0.06, 0.08
"""Standard deviations: of the rotation in radians, of the logarithm of the size, of the shear."""
NUMBERS = 5 + 2 * KNOTS * KNOTS
RECIPE = "digits"


@numba.njit(cache=True, nogil=True)
def deformed(image: Array, draw: Array, out: Array) -> None:
    """One digit (28 x 28, bytes) under the transformation that standard normal numbers describe.

    Each pixel of the result looks up where it comes from: an affine map about the centre, and a displacement
    between the four knots around it, weighted by smooth steps (3t² − 2t³). Bytes are interpolated linearly.
    """
    turn, size = TURN * draw[0], np.exp(SCALE * draw[1])
    cosine, sine, shear = np.cos(turn) * size, np.sin(turn) * size, SHEAR * draw[2]
    middle = 0.5 * (SIDE - 1)
    bends = draw[5:].reshape(2, KNOTS, KNOTS)
    for row in range(SIDE):
        for column in range(SIDE):
            place = (KNOTS - 1) * row / (SIDE - 1), (KNOTS - 1) * column / (SIDE - 1)
            i, j = min(int(place[0]), KNOTS - 2), min(int(place[1]), KNOTS - 2)
            s, t = place[0] - i, place[1] - j
            s, t = s * s * (3.0 - 2.0 * s), t * t * (3.0 - 2.0 * t)
            y, x = row - middle, column - middle
            from_y = middle + cosine * y + (sine + shear) * x + SHIFT * draw[3]
            from_x = middle - sine * y + cosine * x + SHIFT * draw[4]
            knots = (1.0 - s) * (1.0 - t), (1.0 - s) * t, s * (1.0 - t), s * t
            for k in range(4):
                a, b = i + k // 2, j + k % 2
                from_y += BEND * knots[k] * bends[0, a, b]
                from_x += BEND * knots[k] * bends[1, a, b]
            top, left = int(np.floor(from_y)), int(np.floor(from_x))
            down, right = from_y - top, from_x - left
            value = 0.0
            for k in range(4):
                a, b = top + k // 2, left + k % 2
                if 0 <= a < SIDE and 0 <= b < SIDE:
                    weight = (down if k // 2 else 1.0 - down) * (right if k % 2 else 1.0 - right)
                    value += weight * image[a, b]
            out[row, column] = np.uint8(value + 0.5)


@numba.njit(cache=True, nogil=True)
def _deform_all(images: Array, sources: Array, draws: Array, out: Array) -> None:
    for place in range(len(sources)):
        deformed(images[sources[place]], draws[place], out[place])


def digits(images: Array, start: int, stop: int, seed: int = 0) -> Array:
    """Rows by their numbers (c, 784), whatever was drawn before; ``images`` (n, 784) are the first n."""
    units = range(start // UNIT_ROWS, -(-stop // UNIT_ROWS))
    first = start - units.start * UNIT_ROWS
    draws = np.concatenate(
        [np.random.default_rng([seed, unit]).standard_normal((UNIT_ROWS, NUMBERS)) for unit in units]
    )[first : first + stop - start]
    numbers = np.arange(start, stop)
    draws[numbers < len(images)] = 0.0  # these come out as they are
    out = np.empty((len(numbers), SIDE, SIDE), np.uint8)
    _deform_all(images.reshape(-1, SIDE, SIDE), numbers % len(images), draws, out)
    return out.reshape(len(numbers), -1)


def write_digits(
    path: str | os.PathLike[str],
    images: Array,
    labels: Array,
    n_rows: int,
    *,
    seed: int = 0,
    workers: int = 2,
) -> None:
    """Write ``X`` (uint8) and ``y``, chunk by chunk, those that are there already not again."""
    group = zarr.open_group(os.fspath(path), mode="a")
    made = json.dumps({"rows": n_rows, "seed": seed, "bend": BEND, "shift": SHIFT, "turn": TURN})
    if group.attrs.setdefault(RECIPE, made) != made:
        raise ValueError(f"{os.fspath(path)!r} is of other digits: {group.attrs[RECIPE]}; remove it")
    chunk = min(CHUNK_ROWS, n_rows)
    X = group.require_array("X", shape=(n_rows, SIDE * SIDE), chunks=(chunk, SIDE * SIDE), dtype="uint8")
    y = group.require_array("y", shape=(n_rows,), chunks=(chunk,), dtype="int8")
    count = -(-n_rows // chunk)
    # Written after the rows of a chunk: which chunks there are is known from here.
    written = group.require_array("written", shape=(count,), chunks=(1,), dtype="uint8", fill_value=0)

    def write(number: int) -> None:
        start, stop = number * chunk, min((number + 1) * chunk, n_rows)
        X[start:stop] = digits(images, start, stop, seed)
        y[start:stop] = labels[np.arange(start, stop) % len(labels)]
        written[number] = 1

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(write, np.flatnonzero(written[:] == 0).tolist()))
    group.attrs[COMPLETE] = True


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="a Zarr group, new or begun")
    parser.add_argument("--rows", type=int, default=8_100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--data", help="folder of mnist.npz; default STREAMGP_DATA")
    options = parser.parse_args(arguments)
    arrays = load("mnist", options.data)
    write_digits(
        options.out,
        arrays["X_train"],
        arrays["y_train"],
        options.rows,
        seed=options.seed,
        workers=options.workers,
    )


if __name__ == "__main__":
    main()
