"""The default on data made to mislead it, on small sets and on shared ones, beside the obvious.

    python -m benchmarks.defaults --parts generated --rows 5000
    python -m benchmarks.defaults --parts generated --cases plain --rows 1000 10000 100000 1000000
    python -m benchmarks.defaults --parts small shared --seeds 0 1 2

``best_*``: what the maker of the data knows. ``constant``, ``line``, ``exact``: log loss of the shares of
classes (or mean and variance), of a tuned linear model, of an exact Gaussian process of 800 rows. ``lost``:
by how much the best of these three beats the default, if it does. ``half``: rules were chosen on one half
of the sets, and are reported on the other. ``--write`` puts tables of all that is recorded into
benchmarks/README.md.
"""

from __future__ import annotations

import time
import warnings

import numpy as np

from benchmarks.datasets import Split, load_split
from benchmarks.defaults.chosen import CHOSEN_ON
from benchmarks.defaults.generated import CASES
from benchmarks.defaults.references import references
from benchmarks.defaults.tables import generated_table, sets_table, write
from benchmarks.harness import SET, Options, Row, Rows, Script, defaults, measured, option
from benchmarks.record import recorded
from streamgp import StreamGPClassifier, StreamGPRegressor

SMALL = (
    *("crabs", "ripley_synth", "raetsch_banana", "raetsch_breast_cancer", "raetsch_heart"),
    *("raetsch_titanic", "raetsch_thyroid_nosplit", "raetsch_german", "raetsch_waveform"),
    *("raetsch_ringnorm", "raetsch_twonorm", "raetsch_flare_solar_nosplit", "pima_uci_nosplit"),
    *("raetsch_image", "raetsch_splice_nosplit"),
)
SHARED = ("usps4", "satimage", "usps", "ijcnn1", "uci_pumadyn32nm", "uci_kin40k", "uci_protein", "mnist")
TRAIN_SHARE, MOST_TRAINING = 0.6, 1000
"""Of sets without a split."""


def rows(options: Options) -> Rows:
    """One row for each case, size and seed that is asked for."""
    if options.write:
        write("generated", generated_table(recorded("defaults")))
        write("sets", sets_table(recorded("defaults")))
        return
    for seed in options.seeds:
        if "generated" in options.parts:
            for name in options.cases:
                for size in options.rows:
                    case = CASES[name](np.random.default_rng(seed), size)
                    best = {"best_error": case.best_error, "best_log_loss": case.best_log_loss}
                    yield {"case": name, "seed": seed, **best, **_told(case.split, seed, options)}
        for part, sets in (("small", SMALL), ("shared", SHARED)):
            for name in options.sets or sets if part in options.parts else ():
                half = "chosen on" if name in CHOSEN_ON else "reported on"
                split = _split(name, seed, options)
                made_up = {"synthetic": True} if options.synthetic else {}
                yield {"case": name, "half": half, "seed": seed, **made_up, **_told(split, seed, options)}


def _split(name: str, seed: int, options: Options) -> Split:
    """A split of a set: the one of the seed's number, or a random one where there is none."""
    split = load_split(name, options, seed)
    if not len(split.y_test):
        order = np.random.default_rng(seed).permutation(len(split.y_train))
        size = min(MOST_TRAINING, int(TRAIN_SHARE * len(order)))
        X, y = split.train
        split = Split(X[order[:size]], y[order[:size]], X[order[size:]], y[order[size:]])
    if split.y_train.dtype.kind != "f":
        return split
    deviation = split.y_train.std()
    return split._replace(y_train=split.y_train / deviation, y_test=split.y_test / deviation)


def _told(split: Split, seed: int, options: Options) -> Row:
    """The default's row, and those of the obvious beside it."""
    kind = StreamGPRegressor if split.y_train.dtype.kind == "f" else StreamGPClassifier
    model = kind(memory_budget=options.memory_budget, random_state=seed)
    begun = time.process_time()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        row = measured(model, split)
    row["cpu_seconds"] = round(time.process_time() - begun, 1)
    others = references(split, seed)
    best = min(loss for loss in others.values() if loss is not None)
    trial = model.history_[0]
    return {
        **{key: value for key, value in row.items() if key != "kernel"},
        **others,
        "lost": round(max(0.0, row["log_loss"] - best), 4),
        "chosen": _chosen(trial),
        "warned": len([one for one in warned if "learned nothing" in str(one.message)]),
        "recipe": model.recipe_,
    }


def _chosen(trial: Row) -> str:
    """Who won the trial; of an average its member of most weight and that weight."""
    if trial["stage"] != "trial":
        return "by rule"
    if not trial["weights"]:
        return str(trial["chosen"])
    name, weight = max(trial["weights"].items(), key=lambda one: one[1])
    return f"average, {weight:.2f} {name}"


OPTIONS = (
    *SET,
    option("--parts", ["generated"], choices=["generated", "small", "shared"]),
    option("--cases", list(CASES), choices=list(CASES)),
    option("--rows", [5000], "training rows of generated data"),
    option("--sets", [], "which of the sets (default: all of the parts)", type=str),
    option("--write", False, "only write the tables of what is recorded"),
    *defaults(seeds=[0], memory_budget="1GiB"),
)
SCRIPT = Script("defaults", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
