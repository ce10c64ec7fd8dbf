"""Generalized FITC with 1000 inducing inputs on four sets, beside the best peers with as many points.

    python -m benchmarks.papers.fitc_targets --sets uci_kin40k uci_protein ijcnn1 mnist9

Split 0 of kin40k and protein, in the stored units of y; the standard splits of the others. Peers were run
on the same splits: scikit-learn's Nystroem features with logistic regression or Bayesian ridge, and FALKON.
``target`` and ``peer`` are errors in percent, or RMSE.
"""

from benchmarks.datasets import load_split
from benchmarks.harness import Options, Rows, Script, defaults, option
from benchmarks.papers.fitc import ONE_FIT, fit_and_score

OTHERS = ("target", "target_log_loss", "peer", "peer_log_loss")
SETS = {
    "ijcnn1": (1.3, 0.043, 1.43, 0.0486),
    "mnist9": (0.9, 0.028, 1.11, 0.033),
    "uci_kin40k": (0.225, -0.13, 0.252, 0.053),
    "uci_protein": (0.490, 0.69, 0.501, 0.730),
}


def rows(options: Options) -> Rows:
    for name in options.sets:
        row = fit_and_score(load_split(name, options), options.inducing, options)
        yield {"set": name, **row, **dict(zip(OTHERS, SETS[name], strict=True))}


OPTIONS = (
    *ONE_FIT,
    option("--sets", list(SETS), choices=list(SETS)),
    *defaults(inducing=1000),
)
SCRIPT = Script("fitc_targets", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
