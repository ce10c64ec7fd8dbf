"""Table 3 of [IVM2006]: satimage, six classes, the multi-way IVM with so many (row, class) pairs in all.

    python -m benchmarks.papers.ivm2006_table3 --pairs 2000 5000 7500 10000

The paper takes the twelve hyperparameters of another method and the softmax; ours are learned by rows held
out, one kernel for all classes, with the multivariate probit (``--likelihood softmax`` takes ten times as
long). ``--kernels class``: an RBF for each class, as in the paper, learned from RBF(30, 2) by the criterion
of that class against the rest. ``--fold K`` tests on a fifth of the training rows, left out, in the place of
the test rows.
"""

from benchmarks.datasets import load_split
from benchmarks.harness import DATA, Options, Rows, Script, defaults, measured, option
from streamgp import StreamGPClassifier
from streamgp.kernels import RBF
from streamgp.likelihoods import MultivariateProbit, Softmax

PAPER = {2000: (8.7, 0.298), 5000: (8.2, 0.219), 7500: (8.4, 0.217), 10000: (8.65, 0.221)}
"""Pairs: test error in percent, minus the mean test log likelihood."""
GOAL = {5000: (8.0, 0.21)}
LIKELIHOODS = {"probit": MultivariateProbit, "softmax": Softmax}
FOLDS = 5


def rows(options: Options) -> Rows:
    split = load_split(options.set, options).fold(options.fold, FOLDS).drawn(options.rows)
    n_classes = len(set(split.y_train.tolist()))
    for pairs in options.pairs:
        for seed in options.seeds:
            model = StreamGPClassifier(
                round(pairs / n_classes),
                selection="ivm",
                multiclass="joint",
                likelihood=LIKELIHOODS[options.likelihood](),
                kernel=[RBF(30.0, 2.0)] * n_classes if options.kernels == "class" else None,
                memory_budget=options.memory_budget,
                random_state=seed,
            )
            named = {"pairs": pairs, "seed": seed, "fold": options.fold}
            named |= {"likelihood": options.likelihood, "kernels": options.kernels}
            error, loss = PAPER.get(pairs, (None, None))
            target, target_loss = GOAL.get(pairs, (None, None))
            yield {
                **named,
                **measured(model, split),
                "paper_error_percent": error,
                "paper_log_loss": loss,
                "target_error_percent": target,
                "target_log_loss": target_loss,
            }


OPTIONS = (
    *DATA,
    option("--set", "satimage", "another one of several classes", choices=["satimage", "usps"]),
    option("--pairs", list(PAPER), "sum of the sizes of all active sets"),
    option("--likelihood", "probit", choices=list(LIKELIHOODS)),
    option("--kernels", "one", "one for all classes, or one for each", choices=["one", "class"]),
    option("--fold", None, "of the training rows, in the place of the test rows", type=int),
    *defaults(seeds=[0], memory_budget="1GiB"),
)
SCRIPT = Script("ivm2006_table3", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
