"""What the tables of c-against-rest tasks share: one fit and its scores, ten classes, a table for people."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgp import StreamGPClassifier
from streamgp.budget import peak_memory
from streamgp.kernels import RBF, Constant, Kernel
from streamgp.selection import IVM

Array = NDArray[Any]

BIAS_VARIANCE = 0.1
"""Variance of the bias, a constant in the kernel ([IVM2003] section 4)."""


@dataclass(frozen=True, eq=False)
class Digits:
    """Training and test rows of a digit data set."""

    X_train: Array
    y_train: Array
    X_test: Array
    y_test: Array


@dataclass(frozen=True, eq=False)
class Outcome:
    """One fitted task: log P(+1) of the test rows (m,), and what a table says about it."""

    log_positive: NDArray[np.float64]
    model: StreamGPClassifier
    row: dict[str, Any]


def add_fit_options(parser: argparse.ArgumentParser, memory_budget: str | None = "512MiB") -> None:
    """Options of every c-against-rest script."""
    parser.add_argument(
        "--digits", type=int, nargs="+", default=None, help="tasks; default those of the paper"
    )
    parser.add_argument("--kernel-variance", type=float, default=None, help="fixed instead of learned")
    parser.add_argument("--lengthscale", type=float, default=None, help="fixed, in standardised units")
    parser.add_argument("--memory-budget", default=memory_budget)
    parser.add_argument("--seed", type=int, default=0)


def fixed_kernel(options: argparse.Namespace) -> Kernel | None:
    """The kernel that the options fix, None where it is to be learned."""
    if options.kernel_variance is None and options.lengthscale is None:
        return None
    if options.kernel_variance is None or options.lengthscale is None:
        raise SystemExit("--kernel-variance and --lengthscale are given together")
    return RBF(options.kernel_variance, options.lengthscale) + Constant(BIAS_VARIANCE)


def one_against_rest(
    digits: Digits,
    digit: int,
    n_active: int,
    options: argparse.Namespace,
    *,
    selection: IVM | str = "ivm",
    like: StreamGPClassifier | None = None,
) -> Outcome:
    """Fit one task, with another model's hyperparameters where it is given, and score it on the test rows."""
    kernel = fixed_kernel(options) if like is None else like.kernel_
    model = StreamGPClassifier(
        n_active,
        selection=selection,
        kernel=kernel,
        likelihood=None if like is None else like.likelihood_[0],
        learn_hyperparameters=kernel is None,
        validation=False,
        memory_budget=options.memory_budget,
        random_state=options.seed,
    )
    begun = time.perf_counter()
    model.fit_stream((digits.X_train, digits.y_train == digit))
    seconds = time.perf_counter() - begun
    truth = digits.y_test == digit
    with np.errstate(divide="ignore"):
        log_p = np.log(model.predict_proba(digits.X_test))
    row = {
        "digit": digit,
        "active": len(model.active_rows_),
        "rows": len(digits.y_train),
        "error_percent": round(100 * float(np.mean((log_p[:, 1] > log_p[:, 0]) != truth)), 3),
        "log_likelihood": round(float(np.mean(log_p[np.arange(len(truth)), truth.astype(int)])), 4),
        "seconds": round(seconds, 2),
        "peak_bytes": peak_memory(),
        "kernel": repr(model.kernel_),
    }
    return Outcome(log_p[:, 1], model, row)


def combined_error(log_positive: Mapping[int, Array], y_test: Array) -> float | None:
    """Percent of test rows whose class is not the one of largest log P(+1); None unless there are all ten."""
    if len(log_positive) < 10:
        return None
    guess = np.argmax(np.column_stack([log_positive[digit] for digit in range(10)]), axis=1)
    return round(100 * float(np.mean(guess != y_test)), 3)


def mean_of(rows: Sequence[Mapping[str, Any]], column: str) -> float:
    """Mean of one column."""
    return round(float(np.mean([row[column] for row in rows])), 4)


def warm_up() -> None:
    """Compile everything, so that no benchmark measures it."""
    features = np.random.default_rng(0).standard_normal((300, 4))
    model = StreamGPClassifier(10, random_state=0).fit(features, features[:, 0] > 0)
    model.predict_proba(features)


def show(title: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """A table for people, to standard error."""
    cells = [list(columns), *([_cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(columns))]
    lines = ("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)
    print("", title, *lines, sep="\n", file=sys.stderr, flush=True)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
