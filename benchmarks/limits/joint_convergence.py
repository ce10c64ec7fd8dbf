"""Whole fits of classes on every shared set, by mode and by sweeps: how many converge, what others say.

    python -m benchmarks.limits.joint_convergence --rows 6000 --active 200

Nothing is set by hand but the number of inducing inputs: the fit learns its kernel and chooses its damping.
``mode`` is ``multiclass="joint"`` alone; ``residual 1`` (FITC) and ``residual 0`` (projected process) are
sweeps of expectation propagation: of all classes jointly where there are three or more (the likelihood as
named), of one function where there are two. At most ``--rows`` training rows of the first split, at random.
``converged`` is what the history of the fit says, ``warned`` whether the fit warned that it had not. The last
line counts both. Flights are late by more than 15 minutes, or not.
"""

import time
import warnings
from typing import Any

import numpy as np

from benchmarks.defaults.shared_sets import SETS, split_to_fit
from benchmarks.harness import SET, Options, Row, Rows, Script, defaults, option, told
from streamgp import StreamGPClassifier
from streamgp.errors import NotConvergedWarning
from streamgp.likelihoods import MultivariateProbit, Softmax
from streamgp.settings import FITC

CLASSIFIED = [name for name in SETS if not name.startswith("uci_")]
JOINT: dict[str, Any] = {"multiclass": "joint"}
METHODS: dict[str, dict[str, Any]] = {
    "mode": {"inference": FITC(), **JOINT},
    "residual 1": {"inference": FITC(residual=1.0, power=1.0)},
    "residual 0": {"inference": FITC(residual=0.0, power=1.0)},
}
LIKELIHOODS = {"softmax": Softmax(), "probit": MultivariateProbit()}
STAGES = ("infer: mode", "infer: all rows", "infer: joint sweeps")


def cases(name: str, n_classes: int, options: Options) -> list[tuple[str, dict[str, Any]]]:
    """The fits of a set: sweeps of more than two classes once for each joint likelihood."""
    found = []
    for method in options.methods:
        settings = METHODS[method]
        if method == "mode" or n_classes == 2:
            found.append((method, settings))
        else:
            found += [
                (f"{method}, {kind}", {**settings, **JOINT, "likelihood": LIKELIHOODS[kind]})
                for kind in options.likelihoods
            ]
    return found


def fitted(data: Any, settings: dict[str, Any], options: Options) -> Row:
    """One fit, and what its history and its warnings say."""
    model = StreamGPClassifier(
        options.active, selection="kmeans", memory_budget="1GiB", random_state=options.seed, **settings
    )
    begun = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit_stream(data)
    last = [entry for stage in STAGES for entry in told(model, stage)][-1]
    return {
        "converged": bool(last["converged"]),
        "warned": any(issubclass(one.category, NotConvergedWarning) for one in said),
        "sweeps": last.get("sweep", last.get("evaluations")),
        "moment_residual": last.get("residual"),
        "skipped": last.get("skipped"),
        "others": sorted({one.category.__name__ for one in said} - {NotConvergedWarning.__name__}),
        "kernel": repr(model.kernel_)[:100],
        "seconds": round(time.perf_counter() - begun, 2),
    }


def rows(options: Options) -> Rows:
    found: list[Row] = []
    for name in options.sets:
        split = split_to_fit(name, options).drawn(options.rows)
        n_classes = len(np.unique(split.y_train))
        for method, settings in cases(name, n_classes, options):
            row = {"set": name, "rows": len(split.y_train), "classes": n_classes, "method": method}
            found.append(row | fitted(split.train, settings, options))
            yield found[-1]
    yield {
        "set": "all",
        "fits": len(found),
        "converged": sum(row["converged"] for row in found),
        "warned": sum(row["warned"] for row in found),
    }


OPTIONS = (
    *SET,
    option("--sets", CLASSIFIED, choices=CLASSIFIED),
    option("--methods", list(METHODS), choices=list(METHODS)),
    option("--likelihoods", list(LIKELIHOODS), "of three classes or more", choices=list(LIKELIHOODS)),
    option("--rows", 6000, "at most that many rows, at random"),
    *defaults(active=200, seed=0),
)
SCRIPT = Script("joint_convergence", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
