"""The default on real data: nothing is given but the rows, beside what was asked of it.

    python -m benchmarks.peers.default --sets ijcnn1 satimage usps uci_kin40k uci_protein mnist --seeds 0 1 2

``--fold K`` holds out a fifth of the training rows in the place of the test rows. Targets are in units of
their standard deviation: ``rmse`` and ``log_loss`` are as well. ``goal`` is error in percent, or rmse.
"""

import time

from benchmarks.datasets import Split, load_split
from benchmarks.harness import DATA, Options, Rows, Script, defaults, measured, option
from streamgp import StreamGPClassifier, StreamGPRegressor

GOALS = {
    "mnist": (1.8, 0.056, 90),
    "ijcnn1": (1.4, 0.040, 40),
    "usps": (4.3, 0.16, 30),
    "satimage": (8.2, 0.22, 25),
    "uci_kin40k": (0.10, -0.95, 60),
    "uci_protein": (0.48, 0.55, 60),
}
"""Error in percent or rmse, log loss, seconds."""
FOLDS = 5


def scaled(split: Split) -> Split:
    """Real targets in units of their standard deviation; classes as they are."""
    if split.y_train.dtype.kind != "f":
        return split
    deviation = split.y_train.std()
    return split._replace(y_train=split.y_train / deviation, y_test=split.y_test / deviation)


def rows(options: Options) -> Rows:
    for name in options.sets:
        for seed in options.seeds:
            split = scaled(load_split(name, options).fold(options.fold, FOLDS).drawn(options.rows))
            kind = StreamGPRegressor if name.startswith("uci_") else StreamGPClassifier
            model = kind(memory_budget=options.memory_budget, random_state=seed)
            begun = time.process_time()
            row = measured(model, split)
            row["cpu_seconds"] = round(time.process_time() - begun, 1)
            goal, goal_log_loss, goal_seconds = GOALS[name]
            yield {
                "set": name,
                "seed": seed,
                "fold": options.fold,
                **row,
                "goal": goal,
                "goal_log_loss": goal_log_loss,
                "goal_seconds": goal_seconds,
                "recipe": model.recipe_,
            }


OPTIONS = (
    *DATA,
    option("--sets", list(GOALS), choices=list(GOALS)),
    option("--fold", None, "of the training rows, in the place of the test rows", type=int),
    *defaults(seeds=[0], memory_budget="1GiB"),
)
SCRIPT = Script("default", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
