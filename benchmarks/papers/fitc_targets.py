"""Generalized FITC with 1000 inducing inputs on four sets, beside the best peers with as many points.

    python -m benchmarks.papers.fitc_targets --sets uci_kin40k uci_protein ijcnn1 mnist9

Split 0 of kin40k and protein, in the stored units of y; the standard splits of the others. Peers were run
on the same splits: scikit-learn's Nystroem features with logistic regression or Bayesian ridge, and FALKON.
"""

from __future__ import annotations

import argparse

from benchmarks.papers.binary import show, warm_up
from benchmarks.papers.fitc import add_fitc_options, arrays_of, fit_and_score, split_of
from benchmarks.record import add_save_option, record

SETS = {  # name: file, positive class, (target error or RMSE, target nlp), (peer's error or RMSE, nlp)
    "ijcnn1": ("ijcnn1", None, (1.3, 0.043), (1.43, 0.0486)),
    "mnist9": ("mnist", 9, (0.9, 0.028), (1.11, 0.033)),
    "uci_kin40k": ("uci_kin40k", None, (0.225, -0.13), (0.252, 0.053)),
    "uci_protein": ("uci_protein", None, (0.490, 0.69), (0.501, 0.730)),
}
COLUMNS = (
    *("set", "selection", "inducing", "error_percent", "rmse", "nlp", "seconds", "residual", "power"),
    *("target", "target_nlp", "peer", "peer_nlp"),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_fitc_options(parser)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--inducing", type=int, default=1000)
    add_save_option(parser)
    options = parser.parse_args()
    warm_up()
    rows = []
    for name in options.sets:
        file, positive, target, peer = SETS[name]
        split = split_of(arrays_of(file, options, real=file.startswith("uci")))
        if positive is not None:
            split = split._replace(y_train=split.y_train == positive, y_test=split.y_test == positive)
            if options.synthetic:
                split = split._replace(y_train=split.X_train[:, 0] > 0, y_test=split.X_test[:, 0] > 0)
        row = {
            "set": name,
            **fit_and_score(split, options.inducing, options),
            "target": target[0],
            "target_nlp": target[1],
            "peer": peer[0],
            "peer_nlp": peer[1],
        }
        record("fitc_targets", [row], save=not options.no_save)
        rows.append(row)
    show("Generalized FITC, error in percent or RMSE", COLUMNS, rows)


if __name__ == "__main__":
    main()
