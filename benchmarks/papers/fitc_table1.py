"""Table 1 of [FITC2007]: small sets, with as few inducing inputs as in the paper, all of them learned.

    python -m benchmarks.papers.fitc_table1 --sets banana heart --splits 3

Official splits of the Raetsch sets (the first ten; twonorm one) and of synth; crabs (sex) has splits of ours,
80 rows for training and 120 for testing. The isotropic RBF kernel of the paper; error as a share.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from benchmarks.datasets import Arrays
from benchmarks.papers.binary import mean_of, show, warm_up
from benchmarks.papers.fitc import add_fitc_options, arrays_of, fit_and_score, n_splits, split_of
from benchmarks.record import add_save_option, record
from streamgp.kernels import RBF

PAPER = {  # set: GPC error, nlp; SVM error; IVM error, nlp; SPGPC error, nlp, number of inducing inputs
    "synth": (0.097, 0.227, 0.098, 0.096, 0.235, 0.087, 0.234, 4),
    "crabs": (0.039, 0.096, 0.168, 0.066, 0.134, 0.043, 0.105, 10),
    "banana": (0.105, 0.237, 0.106, 0.105, 0.242, 0.107, 0.261, 20),
    "breast_cancer": (0.288, 0.558, 0.277, 0.307, 0.691, 0.281, 0.557, 2),
    "german": (0.230, 0.482, 0.247, 0.290, 0.658, 0.236, 0.491, 4),
    "heart": (0.178, 0.423, 0.166, 0.203, 0.455, 0.172, 0.414, 2),
    "image": (0.027, 0.078, 0.040, 0.028, 0.082, 0.031, 0.087, 200),
    "ringnorm": (0.016, 0.071, 0.016, 0.016, 0.101, 0.014, 0.089, 2),
    "titanic": (0.221, 0.514, 0.223, 0.242, 0.578, 0.231, 0.520, 2),
    "twonorm": (0.031, 0.085, 0.027, 0.031, 0.085, 0.026, 0.086, 2),
    "waveform": (0.100, 0.229, 0.107, 0.100, 0.232, 0.099, 0.228, 10),
}
COLUMNS = (
    *("set", "splits", "inducing", "error", "nlp", "paper_spgpc_error", "paper_spgpc_nlp"),
    *("paper_gpc_error", "paper_gpc_nlp", "paper_svm_error", "paper_ivm_error", "paper_ivm_nlp", "seconds"),
)


def arrays_for(name: str, options: argparse.Namespace) -> Arrays:
    """The set in the form that :func:`split_of` knows."""
    file = {"synth": "ripley_synth", "crabs": "crabs"}.get(name, f"raetsch_{name}")
    arrays = arrays_of(file, options)
    if name == "crabs" and not options.synthetic:
        orders = np.array([np.random.default_rng(split).permutation(200) for split in range(10)])
        return {**arrays, "train_idx": orders[:, :80], "test_idx": orders[:, 80:]}
    return arrays


def row_of(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Means over the splits of one set, beside the paper's."""
    gpc_error, gpc_nlp, svm, ivm_error, ivm_nlp, error, nlp, n_active = PAPER[name]
    arrays = arrays_for(name, options)
    found = []
    for number in range(min(options.splits, n_splits(arrays))):
        split = split_of(arrays, number)
        width = float(np.sqrt(split.X_train.shape[1]))
        kernel = RBF(10.0, width)  # of features that have unit variance
        found.append(
            fit_and_score(
                split,
                n_active,
                options,
                kernel=kernel,
                validation=False,
                standardize=True,
                learn_inducing=True,
            )
        )
    return {
        "set": name,
        "splits": len(found),
        "inducing": n_active,
        "error": round(mean_of(found, "error_percent") / 100, 4),
        "nlp": mean_of(found, "nlp"),
        "seconds": mean_of(found, "seconds"),
        "paper_spgpc_error": error,
        "paper_spgpc_nlp": nlp,
        "paper_gpc_error": gpc_error,
        "paper_gpc_nlp": gpc_nlp,
        "paper_svm_error": svm,
        "paper_ivm_error": ivm_error,
        "paper_ivm_nlp": ivm_nlp,
        "selection": options.selection,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_fitc_options(parser)
    parser.add_argument("--sets", nargs="+", default=list(PAPER), choices=list(PAPER))
    parser.add_argument("--splits", type=int, default=10)
    add_save_option(parser)
    options = parser.parse_args()
    warm_up()
    rows = []
    for name in options.sets:
        rows.append(row_of(name, options))
        record("fitc_table1", rows[-1:], save=not options.no_save)
    mean = {"set": "mean", **{name: mean_of(rows, name) for name in COLUMNS[3:-1]}}
    record("fitc_table1", [mean], save=not options.no_save)
    show("Generalized FITC, table 1", COLUMNS, [*rows, mean])


if __name__ == "__main__":
    main()
