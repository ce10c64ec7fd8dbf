"""Figure 2 of [PASS2012]: USPS, one digit against the rest, error against active rows and against seconds.

    python -m benchmarks.papers.passgp_figure2 --digits 2 4 --methods pass-paper fpass-paper ivm full

``pass-paper`` runs through ``--p-inc``, all others through ``--active``. ``full``: expectation propagation on
all rows. ``rsvm``: a support vector machine with that many random rows in the place of the reduced one, which
scikit-learn does not have. ``pass`` and ``fpass`` are the library's own.
"""

from typing import Any

import numpy as np
from sklearn.svm import SVC

from benchmarks.datasets import Split, load_split
from benchmarks.harness import (
    DATA,
    Options,
    Row,
    Rows,
    Script,
    defaults,
    deviation,
    means,
    measured,
    measured_peer,
    option,
)
from streamgp import StreamGPClassifier
from streamgp.selection import FPASS, IVM, PASS, Random
from streamgp.settings import EP

METHODS = ("pass-paper", "fpass-paper", "ivm", "full", "rsvm", "pass", "fpass")
BLOCK_ROWS = 750
"""Ten subsets, as in the paper."""


def settings(method: str, options: Options) -> list[tuple[dict[str, Any], int, dict[str, Any]]]:
    """What a method is run with: names for the row, active rows (at most), parameters of the model."""
    most = options.most_active
    if method.startswith("pass"):
        kind = PASS.paper if method == "pass-paper" else PASS
        return [
            ({"p_inc": p}, most, {"selection": kind(p_inc=p, block_rows=BLOCK_ROWS)}) for p in options.p_inc
        ]
    if method == "full":
        return [({}, most, {"selection": Random(), "inference": EP(calibrate=False)})]
    kinds = {"ivm": IVM(), "fpass": FPASS(block_rows=BLOCK_ROWS)}
    selection = kinds.get(method, FPASS.paper(block_rows=BLOCK_ROWS))
    return [({}, active, {"selection": selection}) for active in options.active]


def support_vectors(split: Split, active: int, seed: int) -> Row:
    chosen = np.sort(np.random.default_rng(seed).permutation(len(split.y_train))[:active])
    model = SVC(C=10.0, gamma="scale")
    return {"active": active, **measured_peer(model, split.learning_from(chosen))}


def rows(options: Options) -> Rows:
    split = load_split("usps", options).drawn(options.rows)
    for digit in options.digits:
        task = split.against_rest(digit)
        for method in options.methods:
            runs: list[tuple[dict[str, Any], int, dict[str, Any]]] = (
                [({}, active, {}) for active in options.active]
                if method == "rsvm"
                else settings(method, options)
            )
            for named, active, parameters in runs:
                found = []
                for seed in options.seeds:
                    if method == "rsvm":
                        found.append(support_vectors(task, active, seed))
                        continue
                    model = StreamGPClassifier(
                        min(active, len(task.y_train)),
                        validation=False,
                        memory_budget=options.memory_budget,
                        random_state=seed,
                        **parameters,
                    )
                    found.append(measured(model, task))
                mean = means(found, "error_percent", "seconds", "active")
                told = {"deviation": deviation(found, "error_percent"), "seeds": len(found)}
                yield {"digit": digit, "method": method, **named, **mean, **told}


OPTIONS = (
    *DATA,
    option("--methods", ["pass-paper", "fpass-paper", "ivm", "rsvm"], choices=METHODS),
    *defaults(digits=[2, 4], active=[200, 300, 400, 500, 600], p_inc=[0.2, 0.4, 0.6, 0.8, 0.9]),
    *defaults(most_active=8000, seeds=[0], memory_budget="2GiB"),
)
SCRIPT = Script("passgp_figure2", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
