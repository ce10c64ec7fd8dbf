"""Table 1 of [IVM2006]: USPS, ten tasks c against rest at d = 50, 100, 200, 500, then ten classes.

    python -m benchmarks.papers.ivm2006_table1

7291 training and 2007 test rows; hyperparameters are learned anew for every task and d. ``log_likelihood`` is
the mean over test rows (the paper's tlh). Ten classes: the largest log P(+1) wins, once of the ten tasks,
each with its own hyperparameters, and once of ten classes learned in one stream, with one kernel. The memory
budget lets every row be a candidate, as in the paper. Peak memory is that of the process so far.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from benchmarks.datasets import add_data_options, drawn_rows, load_by_options
from benchmarks.papers.binary import (
    Digits,
    add_fit_options,
    combined_error,
    mean_of,
    one_against_rest,
    show,
    warm_up,
)
from benchmarks.papers.ten_classes import fit_ten, score_ten
from benchmarks.record import add_save_option, record

PAPER = {  # d: (test error in percent, mean test log likelihood) of digits 0 to 9
    50: (
        (3.64, 0.75, 4.24, 2.84, 4.38, 4.98, 2.24, 2.39, 2.39, 1.44),
        (-0.117, -0.088, -0.190, -0.110, -0.220, -0.230, -0.263, -0.089, -0.112, -0.080),
    ),
    100: (
        (0.95, 0.70, 2.09, 1.69, 2.74, 2.94, 1.64, 0.90, 1.94, 1.15),
        (-0.081, -0.037, -0.110, -0.087, -0.148, -0.117, -0.097, -0.087, -0.104, -0.074),
    ),
    200: (
        (0.80, 0.75, 1.25, 1.15, 1.40, 1.00, 0.70, 0.65, 1.69, 0.95),
        (-0.035, -0.032, -0.094, -0.079, -0.091, -0.094, -0.028, -0.029, -0.067, -0.065),
    ),
    500: (
        (0.80, 0.70, 1.59, 1.30, 1.49, 1.20, 0.65, 0.60, 1.15, 0.80),
        (-0.029, -0.031, -0.052, -0.045, -0.048, -0.041, -0.020, -0.024, -0.054, -0.036),
    ),
}
TARGET_TEN_CLASSES = 4.5
MEASURED = ("error_percent", "log_likelihood", "seconds")
COLUMNS = (
    *("digit", "active", *MEASURED, "peak_bytes"),
    *("paper_error_percent", "paper_log_likelihood", "target_error_percent"),
)


def one_stream(digits: Digits, n_active: int, options: argparse.Namespace) -> dict[str, Any]:
    """Ten classes at once: their common error, the mean error of the classes against the rest, the time."""
    model, row = fit_ten(
        digits, n_active, validation=False, memory_budget=options.memory_budget, random_state=options.seed
    )
    scores = score_ten(model, digits)
    return {
        "error_percent": scores["error_percent"],
        "binary_error_percent": round(float(np.mean(scores["binary_error_percent"])), 4),
        "seconds": row["seconds"],
        "kernel": row["kernel"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_options(parser)
    add_fit_options(parser, memory_budget="1GiB")
    parser.add_argument(
        "--active", type=int, nargs="+", default=list(PAPER), choices=list(PAPER), metavar="D"
    )
    add_save_option(parser)
    options = parser.parse_args()
    data = load_by_options("usps", options)
    chosen = drawn_rows(len(data["y_train"]), options)
    digits = Digits(data["X_train"][chosen], data["y_train"][chosen], data["X_test"], data["y_test"])
    warm_up()
    shown = []
    for n_active in options.active:
        rows, log_positive = [], {}
        for digit in options.digits or range(10):
            outcome = one_against_rest(digits, digit, n_active, options)
            log_positive[digit] = outcome.log_positive
            errors, log_likelihoods = PAPER[n_active]
            paper = {"paper_error_percent": errors[digit], "paper_log_likelihood": log_likelihoods[digit]}
            rows.append({**outcome.row, **paper})
            record("ivm2006_table1", rows[-1:], save=not options.no_save)
        means = {name: mean_of(rows, name) for name in (*MEASURED, *paper)}
        summary = [{"digit": "mean", "active": n_active, **means}]
        ten_tasks = combined_error(log_positive, digits.y_test)
        if ten_tasks is not None:
            target = {"active": n_active, "target_error_percent": TARGET_TEN_CLASSES}
            summary.append({"digit": "ten tasks", "error_percent": ten_tasks, **target})
            summary.append({"digit": "one stream", **one_stream(digits, n_active, options), **target})
        record("ivm2006_table1", summary, save=not options.no_save)
        shown += rows + summary
    show("IVM 2006, table 1: USPS, c against rest", COLUMNS, shown)


if __name__ == "__main__":
    main()
