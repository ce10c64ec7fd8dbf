"""USPS in [PASS2012], figures 1 and 4 and section 6.1: errors and active sets of each digit, ten classes.

    python -m benchmarks.papers.passgp_usps --methods pass fpass --seeds 0

All ten digits are learned in one stream with one kernel, whose parameters the evidence of the active sets
decides (the paper learns one for each digit). ``--fold k`` replaces the test set by every third training row:
there, and only there, settings were chosen.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from benchmarks.datasets import add_data_options, drawn_rows, load_by_options
from benchmarks.papers.binary import Digits, mean_of, show, warm_up
from benchmarks.papers.ten_classes import KERNELS, fit_ten, score_ten
from benchmarks.record import add_save_option, record
from streamgp.selection import FPASS, PASS

PAPER = {  # error of ten classes and its deviation in percent, Brier score
    "pass": (4.51, 0.17, 0.53),
    "fpass": (4.61, 0.11, 0.27),
    "ivm": (4.38, 0.11, 0.71),
    "ivm+ep": (None, None, None),
    "random": (9.75, 0.40, None),
}
COLUMNS = (
    "method",
    "seed",
    "error_percent",
    "log_loss",
    "brier",
    "mean_active",
    "seconds",
    "paper_error_percent",
)


def split(options: argparse.Namespace) -> Digits:
    data = load_by_options("usps", options)
    rows = drawn_rows(len(data["y_train"]), options)
    X, y = data["X_train"][rows], data["y_train"][rows]
    if options.fold is None:
        return Digits(X, y, data["X_test"], data["y_test"])
    held_out = np.random.default_rng(0).permutation(len(y)) % 3 == options.fold
    return Digits(X[~held_out], y[~held_out], X[held_out], y[held_out])


def parameters(method: str, options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Active rows and settings of a method."""
    if method == "pass":
        selection = PASS(p_inc=options.p_inc, p_del=options.p_del, n_init=min(300, options.most_active))
        return options.most_active, {"selection": selection}
    if method == "fpass":
        return options.active, {"selection": FPASS()}
    name, _, inference = method.partition("+")
    return options.active, {"selection": name, "inference": inference or "adf"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_options(parser)
    parser.add_argument("--methods", nargs="+", choices=list(PAPER), default=["pass", "fpass"])
    parser.add_argument("--kernel", choices=list(KERNELS), default="polynomial5")
    parser.add_argument("--active", type=int, default=300, help="size of fpass, ivm and random")
    parser.add_argument("--most-active", type=int, default=600, help="the most that pass may take")
    parser.add_argument("--p-inc", type=float, default=PASS.p_inc)
    parser.add_argument("--p-del", type=float, default=PASS.p_del)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--fold", type=int, choices=range(3), default=None)
    parser.add_argument("--memory-budget", default="2GiB")
    add_save_option(parser)
    options = parser.parse_args()
    digits = split(options)
    warm_up()
    rows: list[dict[str, Any]] = []
    for method in options.methods:
        n_active, settings = parameters(method, options)
        paper_error, paper_deviation, paper_brier = PAPER[method]
        for seed in options.seeds:
            model, row = fit_ten(
                digits,
                n_active,
                kernel=KERNELS[options.kernel],
                memory_budget=options.memory_budget,
                random_state=seed,
                **settings,
            )
            row = {
                "method": method,
                "seed": seed,
                "start": options.kernel,
                "fold": options.fold,
                "p_inc": options.p_inc if method == "pass" else None,
                **row,
                "mean_active": mean_of(
                    [{"active": count} for count in row["active"] or [n_active]], "active"
                ),
                **score_ten(model, digits),
                "paper_error_percent": paper_error,
                "paper_deviation": paper_deviation,
                "paper_brier": paper_brier,
            }
            record("passgp_usps", [row], save=not options.no_save)
            rows.append(row)
    show("PASS-GP, section 6.1: USPS, ten classes", COLUMNS, rows)


if __name__ == "__main__":
    main()
