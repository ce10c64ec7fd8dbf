"""Several classes: one joint likelihood, or one class against the rest and combined, by their held-out rows.

    python -m benchmarks.papers.joint_targets --sets usps satimage mnist --active 1000 --seeds 0 1 2
    python -m benchmarks.papers.joint_targets --sets mnist --method per_class --active 500

``--fold K`` holds out a fifth of the training rows in the place of the test rows. ``cpu_seconds`` are those
of all threads together. ``target`` and ``target_log_loss`` are what was asked for.
"""

import time

from benchmarks.datasets import load_split
from benchmarks.harness import DATA, Options, Rows, Script, defaults, measured, option
from streamgp import StreamGPClassifier

SETS = {"mnist": (2.1, 0.066), "usps": (4.3, 0.16), "satimage": (8.2, 0.22), "ijcnn1": (1.4, 0.042)}
METHODS = {
    "joint": {"multiclass": "joint", "inference": "fitc", "selection": "kmeans"},
    "joint_random": {"multiclass": "joint", "inference": "fitc", "selection": "random"},
    "per_class": {"multiclass": "per_class", "inference": "adf", "selection": "ivm"},
}
FOLDS = 5


def rows(options: Options) -> Rows:
    for name in options.sets:
        for seed in options.seeds:
            split = load_split(name, options).fold(options.fold, FOLDS).drawn(options.rows)
            model = StreamGPClassifier(
                options.active,
                memory_budget=options.memory_budget,
                random_state=seed,
                **METHODS[options.method],
            )
            begun = time.process_time()
            row = measured(model, split)
            row["cpu_seconds"] = round(time.process_time() - begun, 1)
            target, target_log_loss = SETS[name]
            yield {
                "set": name,
                "method": options.method,
                "seed": seed,
                "fold": options.fold,
                **row,
                "target": target,
                "target_log_loss": target_log_loss,
            }


OPTIONS = (
    *DATA,
    option("--sets", list(SETS), choices=list(SETS)),
    option("--method", "joint", choices=list(METHODS)),
    option("--fold", None, "of the training rows, in the place of the test rows", type=int),
    *defaults(active=1000, seeds=[0], memory_budget="1GiB"),
)
SCRIPT = Script("joint_targets", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
