"""Section 6.3 of [IVM2006]: regression on pumadyn-32nm with a lengthscale for each feature.

    python -m benchmarks.papers.ivm2006_pumadyn --active 500 --splits 0 1 2

As in the paper, and on all rows: the linear least squares fit is subtracted, residuals and inputs get unit
variance. d = 200, 300, 500; a mean square error near 1 means that the four relevant inputs were not found.
The ten splits are those of the data file (7373 rows for training, 819 for testing); the paper's, of 7192 and
1024 rows, were never published. Peak memory is that of the process so far.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import add_data_options, drawn_rows, load_by_options
from benchmarks.papers.binary import mean_of, show, warm_up
from benchmarks.record import add_save_option, record
from streamgp import StreamGPRegressor
from streamgp.budget import peak_memory
from streamgp.kernels import RBF, Kernel

FAILED = 0.5
"""Mean square error above which the relevant inputs were not found."""
TARGETS = {500: 0.047, 200: 0.055}
PAPER = {  # d: mean square error, its spread over splits, mean test log likelihood, its spread
    200: (0.0544, 0.0121, 0.0338, 0.1247),
    300: (0.0478, 0.0059, 0.0991, 0.0650),
    500: (0.0464, 0.0047, 0.1067, 0.0691),
}
MEASURED = ("mean_square_error", "log_likelihood", "seconds")
COLUMNS = (
    *("split", "active", *MEASURED, "peak_bytes"),
    *("paper_mean_square_error", "paper_log_likelihood", "target_mean_square_error"),
)


def preprocessed(
    features: NDArray[Any], targets: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Inputs of unit variance, and residuals of the linear fit, of unit variance too."""
    inputs = (features - features.mean(axis=0, dtype=np.float64)) / features.std(axis=0, dtype=np.float64)
    design = np.column_stack([inputs, np.ones(len(inputs))])
    residuals = targets - design @ np.linalg.lstsq(design, targets, rcond=None)[0]
    return inputs, residuals / residuals.std()


def kernel_of(options: argparse.Namespace, n_features: int) -> Kernel | None:
    """Where learning starts: None for the default, which has a linear part, or the paper's eq. 10."""
    if options.kernel == "default":
        return None
    return RBF(1.0, (float(np.sqrt(2 * n_features)),) * n_features)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_options(parser)
    parser.add_argument(
        "--active", type=int, nargs="+", default=list(PAPER), choices=list(PAPER), metavar="D"
    )
    parser.add_argument("--splits", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--kernel", choices=("default", "rbf"), default="default")
    parser.add_argument("--memory-budget", default="512MiB")
    parser.add_argument("--seed", type=int, default=0)
    add_save_option(parser)
    options = parser.parse_args()
    data = load_by_options("uci_pumadyn32nm", options)
    inputs, targets = preprocessed(data["X"], data["y"])
    warm_up()
    shown = []
    for n_active in options.active:
        error, error_spread, log_likelihood, log_likelihood_spread = PAPER[n_active]
        paper = {"paper_mean_square_error": error, "paper_log_likelihood": log_likelihood}
        rows = []
        for split in options.splits:
            test = data["test_mask"][:, split]
            train = np.flatnonzero(~test)
            train = train[drawn_rows(len(train), options)]
            model = StreamGPRegressor(
                n_active,
                kernel=kernel_of(options, inputs.shape[1]),
                validation=False,
                memory_budget=options.memory_budget,
                random_state=options.seed,
            )
            begun = time.perf_counter()
            model.fit_stream((inputs[train], targets[train]))
            seconds = time.perf_counter() - begun
            score = model.evaluate_stream((inputs[test], targets[test]))
            row = {
                "split": split,
                "active": n_active,
                "mean_square_error": round(score.rmse**2, 5),
                "log_likelihood": round(-score.log_loss, 4),
                "seconds": round(seconds, 2),
                "peak_bytes": peak_memory(),
                "succeeded": score.rmse**2 < FAILED,
                "kernel": repr(model.kernel_),
                "likelihood": repr(model.likelihood_),
                **paper,
            }
            record("ivm2006_pumadyn", [row], save=not options.no_save)
            rows.append(row)
        summary = {
            "split": "mean",
            "active": n_active,
            **{name: mean_of(rows, name) for name in MEASURED},
            "spread": round(float(np.std([row["mean_square_error"] for row in rows])), 5),
            "succeeded": f"{sum(row['succeeded'] for row in rows)} of {len(rows)}",
            **paper,
            "paper_spread": error_spread,
            "paper_log_likelihood_spread": log_likelihood_spread,
            "target_mean_square_error": TARGETS.get(n_active),
        }
        record("ivm2006_pumadyn", [summary], save=not options.no_save)
        shown += [*rows, summary]
    show("IVM 2006, section 6.3: pumadyn-32nm", COLUMNS, shown)


if __name__ == "__main__":
    main()
