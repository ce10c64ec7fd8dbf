"""Local blocks on three million flights: which are late by more than 15 minutes; AUC, log loss, time, memory.

    python -m benchmarks.scale.local_flights --rows 300000 --fold
    python -m benchmarks.scale.local_flights --memory-budget 2GiB

Seven features: month, day, day of the week, minute, distance, and origin and destination, each a number. A
random tenth of the flights are the test rows. ``--fold``: 30,000 training rows in their place, to choose by.
"""

import tempfile
import time

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.datasets import Split, load
from benchmarks.harness import (
    DATA,
    Options,
    Rows,
    Script,
    defaults,
    option,
    probability_scores,
    timed,
    warm_up,
)
from benchmarks.make_flights import LATE_MINUTES, made_up
from streamgp import StreamGPClassifier
from streamgp.budget import parse_size
from streamgp.settings import Local

TARGET = {"target_auc": 0.72, "target_log_loss": 0.45}
JUDGES = 30_000


def flights(options: Options) -> Split:
    """Training and test rows; with ``--fold`` rows of the training set in the place of the test rows."""
    generator = np.random.default_rng(0)
    arrays = made_up(3000, generator) if options.synthetic else load("flights3m", options.data)
    X, y = arrays["X"].astype(np.float32), (arrays["y"] > LATE_MINUTES).astype(np.int8)
    order = np.random.default_rng(0).permutation(len(y))
    test, train = np.split(order, [len(y) // 10])
    if options.fold:
        judges = min(JUDGES, len(train) // 10)
        train, test = train[:-judges], train[-judges:]
    train, test = np.sort(train[: options.rows]), np.sort(test)
    return Split(X[train], y[train], X[test], y[test])


def rows(options: Options) -> Rows:
    split = flights(options)
    warm_up()
    for seed in options.seeds:
        with tempfile.TemporaryDirectory(prefix="streamgp-bench-", dir=options.folder) as scratch:
            model = StreamGPClassifier(
                options.inducing,
                inference=Local(options.block_rows or "auto", options.neighbours),
                memory_budget=options.memory_budget,
                random_state=seed,
                scratch=scratch,
            )
            begun = time.process_time()
            cost = timed(lambda model=model: model.fit(*split.train))
            fitted = time.process_time()
            probability = model.predict_proba(split.X_test)
        yield {
            "seed": seed,
            "rows": len(split.y_train),
            "features": split.X_train.shape[1],
            "active": len(model.model_.snapshot.active_inputs),
            "test_rows": len(split.y_test),
            "auc": round(float(roc_auc_score(split.y_test, probability[:, 1])), 4),
            "error_percent": round(100 * float(np.mean(probability.argmax(axis=1) != split.y_test)), 3),
            **probability_scores(probability, split.y_test),
            **TARGET,
            **cost,
            "within_budget": cost["fit_bytes"] <= parse_size(options.memory_budget),
            "cpu_seconds": round(fitted - begun, 1),
            "predict_cpu_seconds": round(time.process_time() - fitted, 1),
            "kernel": repr(model.kernel_),
        }


OPTIONS = (
    *DATA,
    option("--fold", False, "30,000 training rows in the place of the test rows"),
    option("--folder", None, "where the scratch folder is written"),
    option("--block-rows", None, "rows of a block", type=int),
    *defaults(inducing=300, neighbours=2, seeds=[0], memory_budget="2GiB"),
)
SCRIPT = Script("local_flights", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
