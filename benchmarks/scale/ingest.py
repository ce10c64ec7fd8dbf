"""Seconds and memory of making a store from a Parquet file of 20 raw columns.

    python -m benchmarks.scale.ingest --rows 10000000

The file is generated: 14 real and 2 integer columns, a column of 8 categories, one of 300, a date, a truth
value; two have gaps. Its target has two classes. The store is split and, with ``--shuffle``, shuffled on
disk. It is made in a process of its own; ``ingest_bytes`` is how far its memory rises above what it had
after a tiny ingest.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import streamgp
from benchmarks.harness import Options, Row, Rows, Script, defaults, in_own_process, option, timed
from streamgp.budget import parse_size

PIECE = 250_000
N_REAL = 14


def piece(n_rows: int, seed: int) -> pa.Table:
    """So many rows of all kinds of columns."""
    generator = np.random.default_rng(seed)
    real = generator.standard_normal((N_REAL, n_rows), dtype=np.float32)
    columns = {f"real{place}": pa.array(values) for place, values in enumerate(real)}
    columns["real0"] = pa.array(real[0], mask=generator.random(n_rows) < 0.05)
    columns |= {f"count{place}": pa.array(generator.integers(0, 1000, n_rows)) for place in range(2)}
    city, kind = generator.integers(0, 300, n_rows), generator.integers(0, 8, n_rows)
    for name, places, number, gaps in (("city", city, 300, 0.02), ("kind", kind, 8, 0.0)):
        labels = pa.array([f"{name} {place}" for place in range(number)])
        indices = pa.array(places, mask=generator.random(n_rows) < gaps)
        columns[name] = pa.DictionaryArray.from_arrays(indices, labels).cast(pa.string())
    seconds = generator.integers(0, 3 * 10**7, n_rows)
    columns["when"] = pa.array(np.datetime64("2024-01-01T00:00:00") + seconds.astype("timedelta64[s]"))
    columns["flag"] = pa.array(generator.random(n_rows) < 0.5)
    score = real[1] + np.sin(city) + 0.5 * (kind == 3)
    columns["y"] = pa.array(np.where(score + generator.logistic(size=n_rows) > 0, "yes", "no"))
    return pa.table(columns)


def write_parquet(path: Path, rows: int) -> None:
    """Write the file piece by piece; each is a row group."""
    first = piece(2, 0)
    with pq.ParquetWriter(path, first.schema) as writer:
        for number, start in enumerate(range(0, rows, PIECE)):
            writer.write_table(piece(min(PIECE, rows - start), number))


def ingest_row(path: str, folder: str, shuffle: bool, memory_budget: str) -> Row:
    """One ingest, after a tiny one."""
    settings = {"target": "y", "test": "10%", "shuffle": shuffle, "memory_budget": memory_budget}
    streamgp.ingest(piece(1000, 0), Path(folder) / "tiny.zarr", **settings)
    before = time.process_time()
    cost = timed(lambda: streamgp.ingest(path, Path(folder) / "all.zarr", **settings))
    cost["ingest_bytes"] = cost.pop("fit_bytes")
    return {**cost, "cpu_seconds": round(time.process_time() - before, 2)}


def rows(options: Options) -> Rows:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "raw.parquet"
        write_parquet(path, options.rows)
        row = in_own_process(ingest_row, str(path), folder, options.shuffle, options.memory_budget)
        within = row["ingest_bytes"] <= parse_size(options.memory_budget)
        yield {
            "rows": options.rows,
            "columns": 20,
            "file_bytes": path.stat().st_size,
            "shuffle": options.shuffle,
            **row,
            "within_budget": within,
            "rows_per_second": round(options.rows / row["seconds"]),
        }


OPTIONS = (
    *defaults(rows=10_000_000, memory_budget="512MiB"),
    option("--shuffle", False, "write the rows in random order"),
)
SCRIPT = Script("ingest", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
