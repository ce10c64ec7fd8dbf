"""How much the choice of inducing inputs matters to generalized FITC: five selections on four sets.

    python -m benchmarks.papers.fitc_inducing --sets usps4 uci_kin40k --selections ivm kmeans --seeds 0 1 2

The inputs stay where they were chosen (``learn_inducing=False``): learning would move them, as it does by
default where they are few, and hide how good a choice was. All else is as the estimators do it: every fit
learns its own kernel and chooses its own residual and power. ``gain`` begins with 16 rows at random, so up
to 16 inducing inputs it is ``random``. First split of banana and of kin40k, the standard splits of the
others. The last lines of the table have the means over the seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from benchmarks.papers.binary import mean_of, show, warm_up
from benchmarks.papers.fitc import Split, add_set_options, arrays_of, fit_and_score, split_of
from benchmarks.record import add_save_option, record

SETS = {  # name: file, positive class, number of inducing inputs
    "raetsch_banana": ("raetsch_banana", None, 50),
    "usps4": ("usps", 4, 200),
    "ijcnn1": ("ijcnn1", None, 300),
    "uci_kin40k": ("uci_kin40k", None, 300),
}
SELECTIONS = ("ivm", "pass", "kmeans", "random", "gain")
COLUMNS = (
    *("set", "selection", "inducing", "error_percent", "rmse", "nlp", "seconds"),
    *("residual", "power", "seed"),
)
AVERAGED = ("inducing", "error_percent", "rmse", "nlp", "seconds")


def split_for(name: str, options: argparse.Namespace) -> Split:
    """Training and test rows of a set, classes of a digit against the rest as truth values."""
    file, positive, _ = SETS[name]
    split = split_of(arrays_of(file, options, real=file.startswith("uci")))
    if positive is None or options.synthetic:
        return split
    return split._replace(y_train=split.y_train == positive, y_test=split.y_test == positive)


def mean_over_seeds(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One row for the seeds of one set and selection."""
    means = {column: mean_of(rows, column) for column in AVERAGED if column in rows[0]}
    return {"set": rows[0]["set"], "selection": rows[0]["selection"], **means, "seed": "mean"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_set_options(parser)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--selections", nargs="+", default=list(SELECTIONS), choices=SELECTIONS)
    parser.add_argument("--inducing", type=int, default=None, help="instead of the number of each set")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    add_save_option(parser)
    options = parser.parse_args()
    warm_up()
    rows: list[dict[str, Any]] = []
    means: list[dict[str, Any]] = []
    for name in options.sets:
        split, n_active = split_for(name, options), options.inducing or SETS[name][2]
        for selection in options.selections:
            found = []
            for seed in options.seeds:
                one = argparse.Namespace(**vars(options), selection=selection, seed=seed)
                row = {"set": name, **fit_and_score(split, n_active, one, learn_inducing=False), "seed": seed}
                record("fitc_inducing", [row], save=not options.no_save)
                found.append(row)
            rows += found
            means.append(mean_over_seeds(found))
    show("Generalized FITC by its choice of inducing inputs", COLUMNS, [*rows, *means])


if __name__ == "__main__":
    main()
