"""Figure 1 of [IVM2003]: error of the rows that remain when the least certain are rejected, beside an SVM.

    python -m benchmarks.papers.reject_curve
    python -m benchmarks.papers.reject_curve --full-size

MNIST 9 against rest, at 13 x 13 (59000 training rows) or 28 x 28, d = 2740. Ours rejects by |P(+1) − ½|,
scikit-learn's SVC by |decision_function|. Both are trained in this run: ours first, with all cores and
learned hyperparameters inside the memory budget; then SVC, which has one core by its design, with C = 10,
gamma = "scale" (1/(p · variance of all pixels)) and a cache of 1 GB. Peak memory is that of the process after
each of the two; ``baseline_bytes`` is before the first, with libraries, compiled code and data in place.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC

from benchmarks.datasets import add_data_options, load_by_options, reduce_13x13
from benchmarks.papers.binary import Digits, add_fit_options, one_against_rest, show, warm_up
from benchmarks.record import add_save_option, record
from streamgp.budget import parse_size, peak_memory

ACTIVE = 2740
HELD_OUT = 1000
REJECTED = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2)


def error_by_rejected(certainty: NDArray[np.floating], wrong: NDArray[np.bool_]) -> dict[float, float]:
    """Percent of wrong rows among those that remain, for every rejected share."""
    wrong = wrong[np.argsort(certainty, kind="stable")]
    return {share: round(100 * float(wrong[round(share * len(wrong)) :].mean()), 4) for share in REJECTED}


def prepared(options: argparse.Namespace) -> Digits:
    data = load_by_options("mnist", options)
    shape = (lambda images: images) if options.full_size else reduce_13x13
    order = np.random.default_rng(options.seed).permutation(len(data["y_train"]))
    train = np.sort(order[min(HELD_OUT, len(order) // 4) :][: options.rows])
    return Digits(
        shape(data["X_train"])[train], data["y_train"][train], shape(data["X_test"]), data["y_test"]
    )


def svm_rows(
    digits: Digits, digit: int, options: argparse.Namespace
) -> tuple[dict[str, object], dict[float, float]]:
    """Train and score scikit-learn's SVC."""
    train, test = ((images / 255.0).astype(np.float32) for images in (digits.X_train, digits.X_test))
    svm = SVC(C=options.svm_c, gamma="scale", cache_size=1000)
    begun = time.perf_counter()
    svm.fit(train, digits.y_train == digit)
    seconds = time.perf_counter() - begun
    output = svm.decision_function(test)
    curve = error_by_rejected(np.abs(output), (output > 0) != (digits.y_test == digit))
    row = {
        "method": "SVC",
        "active": int(svm.n_support_.sum()),
        "error_percent": curve[0.0],
        "seconds": round(seconds, 2),
        "peak_bytes": peak_memory(),
        "settings": f"C={options.svm_c:g}, gamma={svm._gamma:.4g} on pixels in [0, 1]",
    }
    return row, curve


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_options(parser)
    add_fit_options(parser)
    parser.add_argument("--active", type=int, default=ACTIVE)
    parser.add_argument("--full-size", action="store_true", help="28 x 28 instead of 13 x 13")
    parser.add_argument("--svm-c", type=float, default=10.0)
    add_save_option(parser)
    options = parser.parse_args()
    digits = prepared(options)
    common = {"features": digits.X_train.shape[1], "rows": len(digits.y_train)}
    warm_up()
    for digit in options.digits or [9]:
        baseline = peak_memory()
        outcome = one_against_rest(digits, digit, options.active, options)
        probability = np.exp(outcome.log_positive)
        wrong = (probability > 0.5) != (digits.y_test == digit)
        our_curve = error_by_rejected(np.abs(probability - 0.5), wrong)
        grown = outcome.row["peak_bytes"] - baseline
        ours = {
            "method": "streamgp",
            **outcome.row,
            "baseline_bytes": baseline,
            "within_budget": grown <= parse_size(options.memory_budget),
        }
        record("reject_curve", [{"digit": digit, **common, **ours}], save=not options.no_save)
        svm, svm_curve = svm_rows(digits, digit, options)
        ratio = {
            "method": "SVC / streamgp",
            "time_ratio": round(float(svm["seconds"]) / ours["seconds"], 2),
            "error_difference_points": round(ours["error_percent"] - float(svm["error_percent"]), 3),
            "paper_time_ratio": 1.42,
            "paper_error_difference_points": -0.03,
        }
        curve = [
            {"rejected": share, "error_percent": our_curve[share], "svm_error_percent": svm_curve[share]}
            for share in REJECTED
        ]
        rows = [{"digit": digit, **common, **row} for row in (ours, svm, ratio)]
        points = [{"digit": digit, **common, **point} for point in curve]
        record("reject_curve", rows[1:] + points, save=not options.no_save)
        columns = ("method", "active", "error_percent", "seconds", "peak_bytes", "time_ratio")
        show(
            f"{digit} against rest, {common['features']} pixels", (*columns, "error_difference_points"), rows
        )
        show("error in percent by rejected share", ("rejected", "error_percent", "svm_error_percent"), points)


if __name__ == "__main__":
    main()
