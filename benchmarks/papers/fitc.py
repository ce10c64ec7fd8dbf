"""What the benchmarks of generalized FITC share: options, one fit and its row."""

from typing import Any

from benchmarks.datasets import Split
from benchmarks.harness import SET, Options, Row, measured, option, told
from streamgp import StreamGPClassifier, StreamGPRegressor

SETS = (*SET, option("--memory-budget", "1GiB"))
ONE_FIT = (*SETS, option("--selection", "kmeans"), option("--seed", 0))
"""Options of a script that has one selection and one seed."""


def fit_and_score(split: Split, n_active: int, options: Options, **parameters: Any) -> Row:
    """One fit: its row, with the approximation that it chose and the number of its sweeps."""
    settings = {
        "inference": "fitc",
        "selection": options.selection,
        "memory_budget": options.memory_budget,
        "random_state": options.seed,
        **parameters,
    }
    kind = StreamGPRegressor if split.y_train.dtype.kind == "f" else StreamGPClassifier
    model = kind(n_active, **settings)
    row = {"selection": str(options.selection), **measured(model, split)}
    chosen = next(iter(told(model, "infer: approximation")), {})
    approximation = {name: chosen.get(name) for name in ("residual", "power")}
    sweeps = told(model, "infer: all rows")
    reached = {"log_evidence": sweeps[-1]["log_evidence"]} if sweeps else {}
    return {**row, **approximation, **reached, "sweeps": len(sweeps)}
