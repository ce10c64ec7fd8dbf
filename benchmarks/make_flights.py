"""Writes the flights data set as a new user would find it: a Parquet file of raw columns.

    python -m benchmarks.make_flights flights.parquet new_flights.parquet

3 million flights of 2001: departure (a time), distance, origin and destination (strings), and whether the
flight was late ("yes": by more than 15 minutes). About 1 % of distances and origins are missing. One row in
fifty, drawn at random, goes to the second file. ``--rows`` draws some of the flights; ``--synthetic`` makes
flights up where the data set (``flights3m.npz``) is not there.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.datasets import Array, Arrays, load

LATE_MINUTES = 15
MISSING = 0.01
NEW = 0.02
ROW_GROUP = 100_000


def flights(arrays: Arrays, generator: np.random.Generator) -> pa.Table:
    """Raw columns of the arrays of ``flights3m.npz``."""
    month, day, _, minute, distance, origin, destination = arrays["X"].T.astype(np.int64)
    dates = (np.datetime64("2001-01") + (month - 1)).astype("datetime64[D]") + (day - 1)
    codes = pa.array(arrays["airport_codes"])

    def airports(places: Array, absent: Array | None = None) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(places, mask=absent), codes).cast(pa.string())

    absent = generator.random((2, len(month))) < MISSING
    return pa.table(
        {
            "departure": dates.astype("datetime64[s]") + minute.astype("timedelta64[m]"),
            "distance": pa.array(distance.astype(np.float64), mask=absent[0]),
            "origin": airports(origin, absent[1]),
            "destination": airports(destination),
            "late": np.where(arrays["y"] > LATE_MINUTES, "yes", "no"),
        }
    )


def made_up(rows: int, generator: np.random.Generator) -> Arrays:
    """Arrays like those of the data set: some airports and the evening are late more often."""
    codes = np.array([f"{first}{second}X" for first in "ABCDE" for second in "ABCDE"])
    X = np.column_stack(
        [generator.integers(low, high, rows) for low, high in ((1, 7), (1, 29), (0, 7), (0, 1440))]
    )
    places = generator.integers(0, len(codes), (rows, 2))
    chance = 0.1 + 0.2 * (places[:, 0] < 5) + 0.2 * (X[:, 3] > 1000)
    distance = generator.integers(100, 3000, rows)
    y = np.where(generator.random(rows) < chance, 30, 0)
    return {"X": np.column_stack([X, distance, places]), "y": y, "airport_codes": codes}


def drawn(arrays: Arrays, rows: int | None, generator: np.random.Generator) -> Arrays:
    """So many of the flights, in their order."""
    if rows is None or rows >= len(arrays["y"]):
        return arrays
    chosen = np.sort(generator.permutation(len(arrays["y"]))[:rows])
    return arrays | {name: arrays[name][chosen] for name in ("X", "y")}


def write(
    out: Path, new: Path | None, rows: int | None, data: str | None, synthetic: bool, share: float = NEW
) -> None:
    """Write both files; ``share`` of the rows go to the second."""
    generator = np.random.default_rng(0)
    found = made_up(rows or 20_000, generator) if synthetic else load("flights3m", data)
    table = flights(drawn(found, rows, generator), generator)
    is_new = generator.random(len(table)) < (share if new is not None else 0.0)
    pq.write_table(table.filter(pa.array(~is_new)), out, row_group_size=ROW_GROUP)
    if new is not None:
        pq.write_table(table.filter(pa.array(is_new)), new, row_group_size=ROW_GROUP)


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="a new .parquet file")
    parser.add_argument("new", type=Path, nargs="?", help="one for rows that are kept apart")
    parser.add_argument("--rows", type=int, help="so many flights, drawn at random (default: all)")
    parser.add_argument("--data", help="folder of flights3m.npz; default STREAMGP_DATA")
    parser.add_argument("--synthetic", action="store_true", help="made-up flights")
    options = parser.parse_args(arguments)
    write(options.out, options.new, options.rows, options.data, options.synthetic)


if __name__ == "__main__":
    main()
