"""How much the first active set matters in [PASS2012]: USPS, one digit against the rest, ten seeds.

    python -m benchmarks.papers.passgp_initial --methods pass fpass --digit 3

Hyperparameters are learned once, with the first seed; then the seeds differ in the rows drawn at random to
begin with and in the order of all others. ``--relearn`` learns them for every seed, from a sample of its own.
The last line of each method has the range of the errors, in points.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from benchmarks.datasets import add_data_options, drawn_rows, load_by_options
from benchmarks.papers.binary import Digits, show, warm_up
from benchmarks.papers.ten_classes import KERNELS
from benchmarks.record import add_save_option, record
from streamgp import StreamGPClassifier
from streamgp.selection import FPASS, PASS

SELECTIONS = {"pass": PASS(), "fpass": FPASS()}
COLUMNS = ("method", "seed", "error_percent", "range_points", "active", "seconds")


def fit(digits: Digits, digit: int, method: str, n_active: int, **settings: Any) -> StreamGPClassifier:
    model = StreamGPClassifier(n_active, selection=SELECTIONS[method], validation=False, **settings)
    return model.fit(digits.X_train, digits.y_train == digit)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_options(parser)
    parser.add_argument("--methods", nargs="+", choices=list(SELECTIONS), default=["pass", "fpass"])
    parser.add_argument("--digit", type=int, default=3)
    parser.add_argument("--active", type=int, default=300, help="size of fpass; pass may take twice as many")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--relearn", action="store_true")
    add_save_option(parser)
    options = parser.parse_args()
    data = load_by_options("usps", options)
    rows = drawn_rows(len(data["y_train"]), options)
    digits = Digits(data["X_train"][rows], data["y_train"][rows], data["X_test"], data["y_test"])
    warm_up()
    table: list[dict[str, Any]] = []
    for method in options.methods:
        n_active = 2 * options.active if method == "pass" else options.active
        learned: dict[str, Any] = {"kernel": KERNELS["polynomial5"]}
        if not options.relearn:
            first = fit(digits, options.digit, method, n_active, random_state=options.seeds[0], **learned)
            learned = {
                "kernel": first.kernel_,
                "likelihood": first.likelihood_[0],
                "learn_hyperparameters": False,
            }
        errors = []
        for seed in options.seeds:
            begun = time.perf_counter()
            model = fit(digits, options.digit, method, n_active, random_state=seed, **learned)
            seconds = time.perf_counter() - begun
            wrong = model.predict(digits.X_test) != (digits.y_test == options.digit)
            errors.append(100 * float(np.mean(wrong)))
            table.append(
                {
                    "method": method,
                    "digit": options.digit,
                    "relearned": options.relearn,
                    "seed": seed,
                    "error_percent": round(errors[-1], 4),
                    "active": len(model.active_rows_),
                    "seconds": round(seconds, 2),
                }
            )
            record("passgp_initial", table[-1:], save=not options.no_save)
        spread = {"method": method, "digit": options.digit, "relearned": options.relearn}
        table.append({**spread, "range_points": round(max(errors) - min(errors), 4)})
        record("passgp_initial", table[-1:], save=not options.no_save)
    show(f"PASS-GP: USPS, {options.digit} against rest, from one seed to the other", COLUMNS, table)


if __name__ == "__main__":
    main()
