"""Figure 1 of [IVM2003]: error of the rows that remain when the least certain are rejected, beside an SVM.

    python -m benchmarks.papers.reject_curve
    python -m benchmarks.papers.reject_curve --full-size

MNIST 9 against rest, at 13 x 13 (59000 training rows) or 28 x 28, d = 2740. Ours rejects by |P(+1) − ½|,
scikit-learn's SVC by |decision_function|. Both are trained in this run: ours first, with all cores and
learned hyperparameters inside the memory budget; then SVC, which has one core by its design, with C = 10,
gamma = "scale" (1/(p · variance of all pixels)) and a cache of 1 GB.
"""

import numpy as np
from sklearn.svm import SVC

from benchmarks.datasets import Array, Split, load_split, reduce_13x13
from benchmarks.harness import DATA, Options, Row, Rows, Script, defaults, measured, measured_peer, option
from benchmarks.papers.digits import classifier, fit_options, set_aside

REJECTED = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2)
PAPER = {"paper_time_ratio": 1.42, "paper_error_difference_points": -0.03}


def error_by_rejected(output: Array, truth: Array) -> dict[float, float]:
    """Percent of wrong rows among those that remain, for every rejected share; the sign decides."""
    wrong = ((output > 0) != truth)[np.argsort(np.abs(output), kind="stable")]
    return {share: round(100 * float(wrong[round(share * len(wrong)) :].mean()), 4) for share in REJECTED}


def our_row(split: Split, options: Options) -> tuple[Row, dict[float, float]]:
    """Train and score the IVM."""
    model = classifier(options.active, options)
    row = {"method": "streamgp", **measured(model, split)}
    return row, error_by_rejected(model.predict_proba(split.X_test)[:, 1] - 0.5, split.y_test)


def svm_row(split: Split, options: Options) -> tuple[Row, dict[float, float]]:
    """Train and score scikit-learn's SVC."""
    pixels = split.mapped(lambda images: (images / 255.0).astype(np.float32))
    svm = SVC(C=options.svm_c, gamma="scale", cache_size=1000)
    row = {"method": "SVC", **measured_peer(svm, pixels), "active": int(svm.n_support_.sum())}
    settings = f"C={options.svm_c:g}, gamma={svm._gamma:.4g} on pixels in [0, 1]"
    return {**row, "settings": settings}, error_by_rejected(
        svm.decision_function(pixels.X_test), split.y_test
    )


def rows(options: Options) -> Rows:
    whole = load_split("mnist", options)
    digits, _ = set_aside(whole if options.full_size else whole.mapped(reduce_13x13), options)
    for digit in options.digits or [9]:
        split = digits.against_rest(digit)
        ours, our_curve = our_row(split, options)
        yield {"digit": digit, **ours}
        svm, svm_curve = svm_row(split, options)
        yield {"digit": digit, **svm}
        common = {"digit": digit, "rows": ours["rows"], "features": ours["features"]}
        yield {
            **common,
            "method": "SVC / streamgp",
            "time_ratio": round(svm["seconds"] / ours["seconds"], 2),
            "error_difference_points": round(ours["error_percent"] - svm["error_percent"], 3),
            **PAPER,
        }
        for share, error in our_curve.items():
            yield {**common, "rejected": share, "error_percent": error, "svm_error_percent": svm_curve[share]}


OPTIONS = (
    *DATA,
    *fit_options(),
    option("--full-size", False, "28 x 28 instead of 13 x 13"),
    *defaults(active=2740, svm_c=10.0),
)
SCRIPT = Script("reject_curve", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
