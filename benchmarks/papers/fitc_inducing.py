"""How much the choice of inducing inputs matters to generalized FITC: five selections on four sets.

    python -m benchmarks.papers.fitc_inducing --sets usps4 uci_kin40k --selections ivm kmeans --seeds 0 1 2

The inputs stay where they were chosen (``learn_inducing=False``): learning would move them, as it does by
default where they are few, and hide how good a choice was. All else is as the estimators do it: every fit
learns its own kernel and chooses its own residual and power. ``gain`` begins with 16 rows at random, so up
to 16 inducing inputs it is ``random``. First split of banana and of kin40k, the standard splits of the
others. After the seeds of each set and selection come their means.
"""

import argparse

from benchmarks.datasets import load_split
from benchmarks.harness import Options, Rows, Script, defaults, means, option
from benchmarks.papers.fitc import SETS, fit_and_score
from streamgp.settings import FITC

INDUCING = {"raetsch_banana": 50, "usps4": 200, "ijcnn1": 300, "uci_kin40k": 300}
SELECTIONS = ["ivm", "pass", "kmeans", "random", "gain"]
AVERAGED = ("active", "error_percent", "rmse", "log_loss", "calibration_error", "seconds")


def rows(options: Options) -> Rows:
    for name in options.sets:
        split, n_active = load_split(name, options), options.inducing or INDUCING[name]
        for selection in options.selections:
            found = []
            for seed in options.seeds:
                one = argparse.Namespace(**vars(options), selection=selection, seed=seed)
                row = fit_and_score(split, n_active, one, inference=FITC(learn_inducing=False))
                found.append({"set": name, **row, "seed": seed})
                yield found[-1]
            if len(found) > 1:
                yield {"set": name, "selection": selection, **means(found, *AVERAGED), "seed": "mean"}


OPTIONS = (
    *SETS,
    option("--sets", list(INDUCING), choices=list(INDUCING)),
    option("--selections", SELECTIONS, choices=SELECTIONS),
    option("--inducing", None, "instead of the number of each set", type=int),
    *defaults(seeds=[0]),
)
SCRIPT = Script("fitc_inducing", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
