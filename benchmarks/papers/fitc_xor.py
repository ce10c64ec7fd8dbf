"""Figure 1 of [FITC2007]: how many active points an error of 15 % takes on the xor problem, as rows grow.

    python -m benchmarks.papers.fitc_xor --rows 100 400 --draws 20

Four unit-variance clusters at (±1.5, ±1.5); the best possible error is 13 %. Three curves: the IVM, FITC on
the active set of the IVM, FITC with learned inducing inputs (4 in the paper). Median over draws of the
smallest size whose error on 4000 test rows is at most 15 %; a draw where no size is enough counts as its
number of rows. The sizes of all draws are recorded too.
"""

from typing import Any

import numpy as np

from benchmarks.datasets import Array
from benchmarks.harness import Options, Row, Rows, Script, defaults, error_percent, option
from streamgp import StreamGPClassifier
from streamgp.kernels import RBF
from streamgp.settings import ADF, FITC

SIZES = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200)
ENOUGH = 15.0
CURVES: dict[str, dict[str, Any]] = {
    "ivm": {"inference": ADF(calibrate=False), "selection": "ivm"},
    "fitc_on_ivm": {"inference": FITC(residual=1.0, power=1.0, learn_inducing=False), "selection": "ivm"},
    "fitc": {"inference": FITC(residual=1.0, power=1.0, learn_inducing=True), "selection": "kmeans"},
}


def draw(generator: np.random.Generator, rows: int) -> tuple[Array, Array]:
    """Rows of the xor problem and their classes."""
    signs = generator.choice([-1.0, 1.0], (rows, 2))
    return 1.5 * signs + generator.standard_normal((rows, 2)), signs[:, 0] == signs[:, 1]


def needed(curve: str, rows: int, seed: int, test_rows: int) -> int:
    """The smallest size that is enough; the number of rows where none is."""
    generator = np.random.default_rng([seed, rows])
    train, test = draw(generator, rows), draw(generator, test_rows)
    common = {"kernel": RBF(10.0, 1.5), "standardize": False, "validation": False, "random_state": seed}
    for size in SIZES:
        if size > rows // 2:
            break
        model = StreamGPClassifier(size, **common, **CURVES[curve]).fit(*train)
        if error_percent(model, *test) <= ENOUGH:
            return size
    return rows


def rows(options: Options) -> Rows:
    for n_rows in options.rows:
        row: Row = {"rows": n_rows, "draws": options.draws, "test_rows": options.test_rows}
        for curve in options.curves:
            sizes = [needed(curve, n_rows, seed, options.test_rows) for seed in range(options.draws)]
            row |= {curve: float(np.median(sizes)), f"{curve}_sizes": sizes}
        yield row


OPTIONS = (
    option("--curves", list(CURVES), choices=list(CURVES)),
    *defaults(rows=[40, 100, 200, 300, 400], draws=20, test_rows=4000),
)
SCRIPT = Script("fitc_xor", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
