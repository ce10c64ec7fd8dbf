"""Time and peak memory of the IVM against rows n and active rows d.

    python -m benchmarks.scale.ivm_scaling
    python -m benchmarks.scale.ivm_scaling --rows 10000000 --features 20 --active 500 --memory-budget 1GiB

Synthetic stores on disk; every fit in a process of its own, after a tiny one that compiles. With several
``--rows`` or ``--active``, exponents of the training time are fitted by least squares in logarithms: in n at
the largest d (expected 1), in d at the largest n (expected 2). Hyperparameters stay as they are unless
``--learn``: learning works on a sample, so its time is the same for every n.

The share of BLAS is the time that the fit's matrix products alone would take at the rates measured in the
same process, over the fit's time. Counted are, in the precision of passes and on all cores, for every pass
over the rows with a active rows n (2 p a + a²) flops, and for every stage of selection that brings |J|
candidates to b active rows |J| (2 p b + b²) flops; learning and calibration are left out.
``refreshes``: of each pass that finds candidates the active rows, its seconds, and the share of them that
bare reading, those flops and n a exponentials would take alone (a², not 2 a²: the factor is a triangle).
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.harness import Options, Row, Rows, Script, Stores, defaults, in_own_process, measured, option
from benchmarks.limits.machine import exp_rate, gemm_rate
from benchmarks.limits.pass_throughput import Rates, bare_reading, limit_seconds
from streamgp import StreamGPClassifier
from streamgp.data import open_rows, synthetic
from streamgp.passes.progress import Progress

LABELS = (0, 1)
"""Numbers: what reading strings takes would be a part of every pass, and of its limit."""
REFRESH = "candidates at"
"""How the label of a pass begins that finds candidates."""


class Passes(Progress):
    """Remembers how long each pass took, by its label."""

    def __init__(self) -> None:
        super().__init__(False)
        self.seconds: dict[str, float] = {}

    @contextmanager
    def passing(self, rows: int, label: str) -> Iterator[Callable[[int], None]]:
        """As of any pass."""
        before = self.pass_seconds
        with super().passing(rows, label) as advance:
            yield advance
        self.seconds[label] = self.pass_seconds - before


def refreshes(passes: Passes, store: Path) -> Row:
    """Passes that find candidates, beside their limits."""
    rows = open_rows(store)
    rows = rows.cut(rows.features.chunk_rows)
    found = {
        int(label.split()[-1]): took for label, took in passes.seconds.items() if label.startswith(REFRESH)
    }
    if not found:
        return {"refreshes": [], "refresh_share": None}
    reading, rates = bare_reading(rows, 1), Rates(gemm_rate(np.float32), exp_rate())
    limits = {active: limit_seconds(rows, active, reading, rates, triangle=True) for active in found}
    return {
        "refreshes": [
            [active, round(seconds, 2), round(limits[active] / seconds, 3)]
            for active, seconds in found.items()
        ],
        "refresh_share": round(sum(limits.values()) / sum(found.values()), 3),
    }


def blas_seconds(model: StreamGPClassifier, n_rows: int) -> float:
    """Time of the fit's matrix products alone, from its history and the measured rates."""
    steps = [entry for entry in model.history_ if "candidates" in entry]
    stages = [(entry["n_active"][0], entry["candidates"]) for entry in steps]
    # A refresh of candidates comes before every stage but the first, unless they are all rows anyway.
    passes = [(size, n_rows) for size, count in stages[:-1] if count < n_rows]
    p = model.n_features_in_
    flops = sum(count * (2.0 * p * size + float(size) ** 2) for size, count in (*passes, *stages))
    return flops / gemm_rate(model.model_.snapshot.dtype)


def fit_row(stores: Stores, n_active: int, options: Options) -> Row:
    """In a process of its own: one fit, and its scores on new rows."""
    passes = Passes()
    model = StreamGPClassifier(
        n_active,
        learn_hyperparameters=options.learn,
        validation=False,
        memory_budget=options.memory_budget,
        random_state=0,
        selection="ivm",
        progress=passes,
    )
    row = measured(model, stores)
    return {
        **row,
        "active": int(row["active"]),
        "memory_budget": options.memory_budget,
        "blas_share": round(blas_seconds(model, row["rows"]) / row["seconds"], 3),
        **refreshes(passes, stores.train),
        "precision": str(model.model_.snapshot.dtype),
        "stages": [[entry["stage"], round(entry["seconds"], 2)] for entry in model.history_],
    }


def exponents(found: Sequence[Row]) -> Row:
    """Slopes of log seconds against log size, where there is more than one size."""
    fitted: Row = {}
    for varied, other in (("rows", "active"), ("active", "rows")):
        most = max(row[other] for row in found)
        own = [row for row in found if row[other] == most]
        if len(own) > 1:
            sizes, seconds = ([row[name] for row in own] for name in (varied, "seconds"))
            slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
            fitted[f"exponent_{varied}"] = round(float(slope), 3)
            fitted[f"fit_bytes_ratio_{varied}"] = round(own[-1]["fit_bytes"] / max(1, own[0]["fit_bytes"]), 3)
    return fitted


def rows(options: Options) -> Rows:
    found = []
    with tempfile.TemporaryDirectory(prefix="streamgp-bench-", dir=options.folder) as folder:
        test = Path(folder) / "test.zarr"
        synthetic.write_store(test, options.test_rows, options.features, seed=1, labels=LABELS)
        for n_rows in sorted(options.rows):
            train = Path(folder) / f"{n_rows}.zarr"
            synthetic.write_store(train, n_rows, options.features, labels=LABELS)
            # All sizes of d at the largest n only; n is varied at the largest d.
            sizes = sorted(options.active) if n_rows == max(options.rows) else [max(options.active)]
            for n_active in sizes:
                found.append(in_own_process(fit_row, Stores(train, test), n_active, options))
                yield found[-1]
            shutil.rmtree(train)
    if len(found) > 1:
        yield exponents(found)


OPTIONS = (
    option("--learn", False, "learn hyperparameters too"),
    option("--folder", None, "where the stores are written"),
    *defaults(rows=[250_000, 500_000, 1_000_000], active=[500, 1000, 2000]),
    *defaults(features=20, test_rows=20_000, memory_budget="512MiB"),
)
SCRIPT = Script("ivm_scaling", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
