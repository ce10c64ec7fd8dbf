"""Peak memory of a fit by every recipe, beside its plan and its budget.

``grown_mib`` is what a fit and an evaluation add to a process that has run the same recipe on few rows (the
baseline: Python, libraries, compiled code); ``cold_mib`` is what that first small run added to a process
that had imported the library. ``within`` says that what was added is at most the plan's figure, and the
plan's at most the budget. With ``--limit`` the whole process may not map more data than baseline and budget
together (RLIMIT_DATA).
"""

from __future__ import annotations

import resource
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import zarr

import streamgp
from benchmarks.harness import Options, Row, Rows, Script, defaults, in_own_process, option
from benchmarks.robustness.recipes import RECIPES
from streamgp.budget import parse_size, peak_memory

FEW_ROWS = 2000


def write(path: Path, n_rows: int, n_features: int, classes: int) -> None:
    """A store of random rows, chunk by chunk."""
    group, chunk = zarr.open_group(path, mode="w"), 20_000
    X = group.create_array("X", shape=(n_rows, n_features), chunks=(chunk, n_features), dtype="float32")
    y = group.create_array("y", shape=(n_rows,), chunks=(chunk,), dtype="int64")
    for start in range(0, n_rows, chunk):
        generator = np.random.default_rng(start)
        rows = generator.standard_normal((min(chunk, n_rows - start), n_features))
        score = rows[:, 0] + np.sin(2 * rows[:, 1]) + 0.3 * generator.standard_normal(len(rows))
        X[start : start + chunk] = rows
        y[start : start + chunk] = 1 + np.digitize(score, np.linspace(-1, 1, classes + 1)[1:-1])


def measure(folder: str, settings: dict[str, Any], options: Options) -> Row:
    """A fit and an evaluation in this process, which has done nothing before."""
    warnings.simplefilter("ignore")
    few, many = (Path(folder) / f"{name}.zarr" for name in ("few", "many"))
    common = {"random_state": 0, "memory_budget": options.memory_budget, **settings}
    imported = peak_memory()
    streamgp.fit_stream(few, n_active=min(20, options.active), **common).evaluate_stream(few)
    baseline = peak_memory()
    budget = parse_size(options.memory_budget)
    if options.limit:
        mapped = _mapped_data() + budget
        resource.setrlimit(resource.RLIMIT_DATA, (mapped, resource.RLIM_INFINITY))
    model = streamgp.fit_stream(many, n_active=options.active, **common)
    model.evaluate_stream(many)
    grown, planned = peak_memory() - baseline, model.about_["planned_memory"]
    return {
        "recipe_": model.recipe_,
        "cold_mib": _mib(baseline - imported),
        "grown_mib": _mib(grown),
        "planned_mib": _mib(planned),
        "budget_mib": _mib(budget),
        "within": bool(grown <= planned <= budget),
    }


def rows(options: Options) -> Rows:
    for name in options.recipes or RECIPES:
        settings = {key: value for key, value in RECIPES[name].items() if key != "classes"}
        with tempfile.TemporaryDirectory() as folder:
            for store, n_rows in (("few", FEW_ROWS), ("many", options.rows)):
                write(
                    Path(folder) / f"{store}.zarr", n_rows, options.features, RECIPES[name].get("classes", 2)
                )
            yield {"recipe": name, "rows": options.rows, **in_own_process(measure, folder, settings, options)}


def _mapped_data() -> int:
    """Bytes of data that this process has mapped, as RLIMIT_DATA counts them."""
    with open("/proc/self/status", encoding="ascii") as status:
        [line] = [line for line in status if line.startswith("VmData:")]
    return int(line.split()[1]) * 1024


def _mib(size: int) -> float:
    return round(size / 2**20, 1)


SCRIPT = Script(
    "memory",
    __doc__,
    rows,
    (
        *defaults(rows=100_000, features=8, active=100, memory_budget="64MiB"),
        option("--recipes", None, "only these, by name", nargs="+"),
        option("--limit", False, "no more data may be mapped than baseline and budget"),
    ),
)

if __name__ == "__main__":
    SCRIPT.main()
