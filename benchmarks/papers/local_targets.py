"""Local blocks asked for by name: error, log loss and seconds on test rows, learning included.

    python -m benchmarks.papers.local_targets --sets uci_kin40k uci_protein ijcnn1 satimage usps --seeds 0 1 2

Several classes are told apart one against the rest. ``--without`` adds the same number of inducing inputs
without blocks (several classes jointly). Real targets are in standard deviations of the training rows.
``target`` (RMSE, or error in percent), ``target_log_loss`` and ``target_seconds`` are what was asked for.
"""

import time

from benchmarks.datasets import load_split
from benchmarks.harness import DATA, Options, Rows, Script, defaults, measured, option
from streamgp import StreamGPClassifier, StreamGPRegressor

SETS = {
    "uci_kin40k": (0.095, -1.0, 60),
    "uci_protein": (0.475, 0.54, 60),
    "ijcnn1": (1.3, 0.038, 30),
    "satimage": (None, None, None),
    "usps": (None, None, None),
    "mnist": (None, None, None),
}
METHODS = {"local blocks": {"inference": "local"}, "without": {"inference": "fitc"}}


def rows(options: Options) -> Rows:
    for name in options.sets:
        split, is_real = load_split(name, options).drawn(options.rows), name.startswith("uci_")
        if is_real:
            deviation = split.y_train.std()
            split = split._replace(y_train=split.y_train / deviation, y_test=split.y_test / deviation)
        kind = StreamGPRegressor if is_real else StreamGPClassifier
        target = dict(zip(("target", "target_log_loss", "target_seconds"), SETS[name], strict=True))
        for seed in options.seeds:
            for method in METHODS if options.without else ("local blocks",):
                model = kind(
                    options.inducing,
                    memory_budget=options.memory_budget,
                    random_state=seed,
                    **METHODS[method],
                )
                begun = time.process_time()
                row = measured(model, split)
                used = {"cpu_seconds": round(time.process_time() - begun, 1)}
                yield {"set": name, "method": method, "seed": seed, **row, **used, **target}


OPTIONS = (
    *DATA,
    option("--sets", list(SETS)[:-1], choices=list(SETS), nargs="+"),
    option("--without", False, "the same without blocks too"),
    *defaults(inducing=300, seeds=[0], memory_budget="1GiB"),
)
SCRIPT = Script("local_targets", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
