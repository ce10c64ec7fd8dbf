"""Figure 1 of [FITC2007]: how many active points an error of 15 % takes on the xor problem, as rows grow.

    python -m benchmarks.papers.fitc_xor --rows 100 400 --draws 20

Four unit-variance clusters at (±1.5, ±1.5); the best possible error is 13 %. Three curves: the IVM, FITC on
the active set of the IVM, FITC with learned inducing inputs. Median over draws of the smallest size whose
error on 4000 test rows is at most 15 %; a draw where no size is enough counts as its number of rows. The
sizes of all draws are recorded too.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from benchmarks.papers.binary import show, warm_up
from benchmarks.record import add_save_option, record
from streamgp import StreamGPClassifier
from streamgp.kernels import RBF

SIZES = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200)
CURVES: dict[str, dict[str, Any]] = {
    "ivm": {"inference": "adf", "calibrate": False},
    "fitc_on_ivm": {"inference": "fitc", "learn_inducing": False},
    "fitc": {"inference": "fitc", "learn_inducing": True, "selection": "kmeans"},
}
COLUMNS = ("rows", *CURVES)


def draw(generator: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the xor problem and their classes."""
    signs = generator.choice([-1.0, 1.0], (rows, 2))
    return 1.5 * signs + generator.standard_normal((rows, 2)), signs[:, 0] == signs[:, 1]


def needed(curve: str, rows: int, seed: int, test_rows: int) -> int:
    """The smallest size that is enough; the number of rows where none is."""
    generator = np.random.default_rng([seed, rows])
    X, y = draw(generator, rows)
    X_test, y_test = draw(generator, test_rows)
    for size in SIZES:
        if size > rows // 2:
            break
        model = StreamGPClassifier(
            size,
            kernel=RBF(10.0, 1.5),
            standardize=False,
            validation=False,
            random_state=seed,
            residual=1.0,
            power=1.0,
            **CURVES[curve],
        ).fit(X, y)
        if np.mean(model.predict(X_test) != y_test) <= 0.15:
            return size
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[40, 100, 200, 300, 400])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--test-rows", type=int, default=4000)
    parser.add_argument("--curves", nargs="+", default=list(CURVES), choices=list(CURVES))
    add_save_option(parser)
    options = parser.parse_args()
    warm_up()
    shown = []
    for rows in options.rows:
        row: dict[str, Any] = {"rows": rows, "draws": options.draws, "test_rows": options.test_rows}
        for curve in options.curves:
            sizes = [needed(curve, rows, seed, options.test_rows) for seed in range(options.draws)]
            row |= {curve: float(np.median(sizes)), f"{curve}_sizes": sizes}
        record("fitc_xor", [row], save=not options.no_save)
        shown.append(row)
    show("Active points for an error of 15 % (paper: FITC 4)", COLUMNS, shown)


if __name__ == "__main__":
    main()
