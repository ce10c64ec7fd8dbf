"""Joint classes against their number C: time and memory of the mode, and of sweeps with variances.

    python -m benchmarks.scale.joint_classes --classes 5 10 26 100

Generated rows: classes are the nearest of C random centres, with noise. The kernel is given. ``exponent`` is
that of the seconds of inference in C, since the row before it: 1 is linear.
"""

import numpy as np

from benchmarks.datasets import Split
from benchmarks.harness import Options, Row, Rows, Script, defaults, measured, option
from streamgp import StreamGPClassifier
from streamgp.kernels import RBF
from streamgp.settings import FITC

INFERENCES = {"mode": FITC(), "sweeps": FITC(residual=0.0, most_sweeps=5, tolerance=1e-9)}


def split_of(rows: int, features: int, classes: int) -> Split:
    """Training rows, and a quarter as many to test."""
    generator = np.random.default_rng(0)
    centres = generator.standard_normal((classes, features))
    X = generator.standard_normal((rows + rows // 4, features))
    noisy = X + 0.2 * generator.standard_normal(X.shape)
    y = np.argmin(np.sum(centres**2, axis=1) - 2.0 * noisy @ centres.T, axis=1)
    return Split(X[:rows], y[:rows], X[rows:], y[rows:])


def fitted(split: Split, classes: int, inference: str, options: Options) -> Row:
    """One fit; the sweeps are of a fixed number, whether they have converged or not."""
    model = StreamGPClassifier(
        options.active,
        multiclass="joint",
        selection="random",
        inference=INFERENCES[inference],
        kernel=RBF(30.0, 2.0),
        learn_hyperparameters=False,
        memory_budget=options.memory_budget,
        random_state=0,
    )
    row = measured(model, split)
    seconds = sum(entry["seconds"] for entry in model.history_ if entry["stage"].startswith("infer"))
    return {"classes": classes, "inference": inference, **row, "infer_seconds": round(seconds, 3)}


def rows(options: Options) -> Rows:
    for inference in options.inferences:
        before: Row | None = None
        for classes in options.classes:
            row = fitted(split_of(options.rows, options.features, classes), classes, inference, options)
            if before is not None:
                ratio = np.log(row["infer_seconds"] / before["infer_seconds"])
                row["exponent"] = round(float(ratio / np.log(classes / before["classes"])), 2)
            yield row
            before = row


OPTIONS = (
    option("--classes", [5, 10, 26, 100], "numbers of classes"),
    option("--inferences", list(INFERENCES), choices=list(INFERENCES)),
    *defaults(rows=6000, features=4, active=200, memory_budget="1GiB"),
)
SCRIPT = Script("joint_classes", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
