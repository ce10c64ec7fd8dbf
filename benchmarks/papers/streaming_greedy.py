"""Streaming selection beside the full greedy one: MNIST 9 against rest, 28 x 28, J of 5 % of the rows.

    python -m benchmarks.papers.streaming_greedy

The first fit learns its hyperparameters and chooses from J, which passes over the rows refresh. The second
has the same hyperparameters and chooses among all rows, every one of them current at every inclusion:
algorithm 1 of [IVM2003], exactly; its stubs need 8 n d bytes. The last line has the differences: points of
error, and the log loss of the first over that of the second, minus one, in percent.
"""

from __future__ import annotations

import argparse

from benchmarks.datasets import add_data_options, drawn_rows, load_by_options
from benchmarks.papers.binary import Digits, add_fit_options, one_against_rest, show, warm_up
from benchmarks.record import add_save_option, record
from streamgp.selection import IVM

COLUMNS = ("selection", "active", "error_percent", "log_likelihood", "seconds", "peak_bytes")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_options(parser)
    add_fit_options(parser)
    parser.add_argument("--active", type=int, default=1000)
    parser.add_argument("--share", type=float, default=0.05, help="of the rows in J")
    parser.add_argument("--greedy-budget", default="4GiB", help="memory for all rows' stubs")
    add_save_option(parser)
    options = parser.parse_args()
    data = load_by_options("mnist", options)
    chosen = drawn_rows(len(data["y_train"]), options)
    digits = Digits(data["X_train"][chosen], data["y_train"][chosen], data["X_test"], data["y_test"])
    digit = (options.digits or [9])[0]
    warm_up()
    candidates = max(1, round(options.share * len(chosen)))
    streaming = one_against_rest(digits, digit, options.active, options, selection=IVM(candidates=candidates))
    options.memory_budget = options.greedy_budget
    greedy = one_against_rest(
        digits, digit, options.active, options, selection=IVM(hot=None), like=streaming.model
    )
    rows = [
        {"selection": f"J of {candidates} rows", "candidates": candidates, **streaming.row},
        {"selection": "full greedy", "candidates": len(chosen), **greedy.row},
    ]
    ours, full = streaming.row, greedy.row
    rows.append(
        {
            "selection": "difference",
            "error_percent": round(ours["error_percent"] - full["error_percent"], 3),
            "log_loss_percent": round(100 * (ours["log_likelihood"] / full["log_likelihood"] - 1), 2),
        }
    )
    record("streaming_greedy", rows, save=not options.no_save)
    show("Streaming against full greedy", (*COLUMNS, "log_loss_percent"), rows)


if __name__ == "__main__":
    main()
