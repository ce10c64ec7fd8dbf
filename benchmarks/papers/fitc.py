"""What the benchmarks of generalized FITC share: data sets in training and test rows, one fit, its scores."""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Arrays, load
from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.budget import peak_memory

Array = NDArray[Any]


class Split(NamedTuple):
    """Training and test rows."""

    X_train: Array
    y_train: Array
    X_test: Array
    y_test: Array


def made_up(n_features: int = 2, rows: int = 240, real: bool = False) -> Arrays:
    """A small problem in place of a data set."""
    generator = np.random.default_rng(0)
    features = generator.standard_normal((rows, n_features))
    signal = np.sin(2 * features[:, 0]) + 0.2 * generator.standard_normal(rows)
    test = np.arange(rows) % 3 == 0
    return {"X": features, "y": signal if real else np.sign(signal).astype(int), "test_mask": test[:, None]}


def split_of(arrays: Arrays, number: int = 0) -> Split:
    """Split ``number`` of a data set, in whichever form the file has it."""
    if "X_train" in arrays:
        return Split(arrays["X_train"], arrays["y_train"], arrays["X_test"], arrays["y_test"])
    features, targets = arrays["X"], arrays["y"]
    if "train_idx" in arrays:
        train, test = arrays["train_idx"][number], arrays["test_idx"][number]
    else:
        mask = arrays["test_mask"][:, number].astype(bool)
        train, test = np.flatnonzero(~mask), np.flatnonzero(mask)
    return Split(features[train], targets[train], features[test], targets[test])


def n_splits(arrays: Arrays) -> int:
    """How many splits a data set comes with."""
    return len(arrays["train_idx"]) if "train_idx" in arrays else 1


def add_set_options(parser: argparse.ArgumentParser) -> None:
    """Where the data sets are, and how much memory a fit may take."""
    parser.add_argument("--data", default=None, help="folder of the .npz files; default STREAMGP_DATA")
    parser.add_argument("--synthetic", action="store_true", help="a small made-up problem instead")
    parser.add_argument("--memory-budget", default="1GiB")


def add_fitc_options(parser: argparse.ArgumentParser) -> None:
    """Options of a script that has one selection and one seed."""
    add_set_options(parser)
    parser.add_argument("--selection", default="kmeans")
    parser.add_argument("--seed", type=int, default=0)


def arrays_of(name: str, options: argparse.Namespace, real: bool = False) -> Arrays:
    """The data set that the options ask for."""
    return made_up(real=real) if options.synthetic else load(name, options.data)


def fit_and_score(
    split: Split, n_active: int, options: argparse.Namespace, **parameters: Any
) -> dict[str, Any]:
    """One fit, and error (or root mean squared error) and negative log probability on the test rows."""
    real = split.y_train.dtype.kind == "f"
    kind = StreamGPRegressor if real else StreamGPClassifier
    settings = {
        "inference": "fitc",
        "selection": options.selection,
        "memory_budget": options.memory_budget,
        "random_state": options.seed,
        **parameters,
    }
    model = kind(n_active, **settings)
    begun = time.perf_counter()
    model.fit_stream((split.X_train, split.y_train))
    seconds = time.perf_counter() - begun
    score = model.evaluate_stream((split.X_test, split.y_test))
    chosen = next((e for e in model.history_ if e["stage"] == "infer: approximation"), {})
    return {
        "rows": len(split.y_train),
        "inducing": len(model.model_.snapshot.active_inputs),
        **({"rmse": round(score.rmse, 4)} if real else {"error_percent": round(100 * score.error, 3)}),
        "nlp": round(score.log_loss, 4),
        "seconds": round(seconds, 2),
        "peak_bytes": peak_memory(),
        "selection": str(settings["selection"]),
        "residual": chosen.get("residual"),
        "power": chosen.get("power"),
        "sweeps": sum(entry["stage"] == "infer: all rows" for entry in model.history_),
        "kernel": repr(model.kernel_),
    }
