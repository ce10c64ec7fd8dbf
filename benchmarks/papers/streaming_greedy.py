"""Streaming selection beside the full greedy one: MNIST 9 against rest, 28 x 28, J of 5 % of the rows.

    python -m benchmarks.papers.streaming_greedy

The first fit learns its hyperparameters, which all others take over. Fits with J choose from 5 % of the rows,
which passes refresh; those beside them choose among all rows, every one of them current at every inclusion:
algorithm 1 of [IVM2003], exactly; its stubs need 8 n d bytes. Seeds differ in the sample, and in the first
row where all tie. The last line has the differences of the means: points of error, and the log loss of the
former over that of the latter, minus one, in percent.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from benchmarks.datasets import add_data_options, drawn_rows, load_by_options
from benchmarks.papers.binary import Digits, add_fit_options, one_against_rest, show, warm_up
from benchmarks.record import add_save_option, record
from streamgp.selection import IVM

STREAMING, GREEDY = "streaming", "full greedy"
COLUMNS = ("selection", "seed", "active", "error_percent", "log_likelihood", "seconds", "peak_bytes")


def means(rows: list[dict[str, Any]], selection: str) -> tuple[float, float]:
    """Mean error and log likelihood of one kind of fits."""
    own = [row for row in rows if row["selection"] == selection]
    error, log_likelihood = (
        float(np.mean([row[key] for row in own])) for key in ("error_percent", "log_likelihood")
    )
    return error, log_likelihood


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_options(parser)
    add_fit_options(parser)
    parser.add_argument("--active", type=int, default=1000)
    parser.add_argument("--share", type=float, default=0.05, help="of the rows in J")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--greedy-budget", default="4GiB", help="memory for all rows' stubs")
    add_save_option(parser)
    options = parser.parse_args()
    data = load_by_options("mnist", options)
    chosen = drawn_rows(len(data["y_train"]), options)
    digits = Digits(data["X_train"][chosen], data["y_train"][chosen], data["X_test"], data["y_test"])
    digit = (options.digits or [9])[0]
    warm_up()
    candidates = max(1, round(options.share * len(chosen)))
    budget, learned = options.memory_budget, None
    rows: list[dict[str, Any]] = []
    for seed in options.seeds:
        options.seed = seed
        options.memory_budget = budget
        streaming = one_against_rest(
            digits, digit, options.active, options, selection=IVM(candidates=candidates), like=learned
        )
        learned = learned or streaming.model
        options.memory_budget = options.greedy_budget
        greedy = one_against_rest(
            digits, digit, options.active, options, selection=IVM(hot=None), like=learned
        )
        common = {"seed": seed}
        rows.append({"selection": STREAMING, **common, "candidates": candidates, **streaming.row})
        rows.append({"selection": GREEDY, **common, "candidates": len(chosen), **greedy.row})
    (error, loss), (full_error, full_loss) = (means(rows, name) for name in (STREAMING, GREEDY))
    rows.append(
        {
            "selection": "difference of means",
            "error_percent": round(error - full_error, 3),
            "log_loss_percent": round(100 * (loss / full_loss - 1), 2),
        }
    )
    record("streaming_greedy", rows, save=not options.no_save)
    show("Streaming against full greedy", (*COLUMNS, "log_loss_percent"), rows)


if __name__ == "__main__":
    main()
