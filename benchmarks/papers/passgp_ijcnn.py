"""Figure 6 of [PASS2012]: ijcnn1, error against the size of the active set and against time.

    python -m benchmarks.papers.passgp_ijcnn --active 100 300 1000 --seeds 0 1 2

Fixed hyperparameters of the paper: an RBF of variance 1 and squared lengthscale 1/8 plus White(1/16) on
features as they are, for the IVM a linear kernel beside it; ``--learn paper`` starts from them and learns.
``--learn`` is the library's default instead: one lengthscale for each feature, learned; ``--learn evidence``:
by the evidence of a sample. ``fpass+fitc`` takes the active rows as inducing inputs of all rows. ``--peers``
adds SVC (C = 16, the same RBF) and Nystroem + logistic regression with so many points. ``--validate`` tests
on a fifth of the training rows, left out, instead of the test set.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from benchmarks.datasets import Arrays, add_data_options, drawn_rows, load_by_options
from benchmarks.papers.binary import show, warm_up
from benchmarks.record import add_save_option, record
from streamgp import StreamGPClassifier
from streamgp.kernels import RBF, Kernel, Linear, White
from streamgp.likelihoods import Probit
from streamgp.selection import FPASS

Array = NDArray[Any]
METHODS = ("fpass", "fpass+fitc", "pass", "ivm", "ivm+ep", "random")
LEARNING = ("default", "evidence", "paper")
GAMMA = 4.0
COLUMNS = ("method", "active", "seeds", "error_percent", "deviation", "log_loss", "seconds")


def paper_kernel(method: str) -> Kernel:
    kernel = RBF(1.0, 8**-0.5) + White(1 / 16)
    return kernel + Linear(1.0) if method.startswith("ivm") else kernel


def hyperparameters(learning: str | None, method: str) -> dict[str, Any]:
    """Settings of the model that say what is fixed and what is learned."""
    if learning == "default":
        return {}
    if learning == "evidence":
        return {"learn_hyperparameters": "evidence"}
    paper: dict[str, Any] = {"kernel": paper_kernel(method), "standardize": False}
    if learning == "paper":
        return paper
    return {**paper, "likelihood": Probit(0.0), "learn_hyperparameters": False, "calibrate": False}


def fit_gp(
    method: str, n_active: int, options: argparse.Namespace, data: Arrays, seed: int
) -> StreamGPClassifier:
    X, y = data["X_train"], data["y_train"]
    name, _, inference = method.partition("+")
    selection: Any = name
    if name == "fpass":
        shares = {"p_exc": options.p_exc, "p_del": options.p_del, "p_min": options.p_min}
        selection = FPASS(n_pass=options.passes, **shares)
    return StreamGPClassifier(
        n_active,
        selection=selection,
        inference=inference or ("ep" if name == "random" else "adf"),
        validation=None if inference == "fitc" else False,
        memory_budget=options.memory_budget,
        random_state=seed,
        **hyperparameters(options.learn, name),
    ).fit_stream((X, y))


def measure(fit: Callable[[int], Any], seed: int, data: Arrays) -> dict[str, Any]:
    begun = time.perf_counter()
    model = fit(seed)
    seconds = time.perf_counter() - begun
    truth = data["y_test"]
    row: dict[str, Any] = {
        "error_percent": 100 * float(np.mean(model.predict(data["X_test"]) != truth)),
        "seconds": seconds,
    }
    if hasattr(model, "predict_proba"):
        probabilities = model.predict_proba(data["X_test"])
        own = probabilities[np.arange(len(truth)), np.searchsorted(model.classes_, truth)]
        row["log_loss"] = -float(np.mean(np.log(np.maximum(own, 1e-300))))
    return row


def averaged(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds, and the deviation of the error."""
    means = {key: round(float(np.mean([row[key] for row in rows])), 4) for key in rows[0]}
    return {**means, "deviation": round(float(np.std([row["error_percent"] for row in rows])), 4)}


def peers(n_active: int, seeds: list[int], data: Arrays) -> list[dict[str, Any]]:
    X, y = data["X_train"], data["y_train"]

    def nystroem(seed: int) -> Any:
        features = Nystroem(gamma=GAMMA, n_components=n_active, random_state=seed)
        return make_pipeline(features, LogisticRegression(C=1000.0, max_iter=2000)).fit(X, y)

    runs = [measure(nystroem, seed, data) for seed in seeds]
    return [{"method": "nystroem+logistic", "active": n_active, "seeds": len(seeds), **averaged(runs)}]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_options(parser)
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=["fpass", "ivm", "random"])
    parser.add_argument("--active", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--p-exc", type=float, default=FPASS.p_exc)
    parser.add_argument("--p-del", type=float, default=FPASS.p_del)
    parser.add_argument("--p-min", type=float, default=FPASS.p_min)
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--learn", nargs="?", const="default", choices=LEARNING, default=None)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--memory-budget", default="1GiB")
    add_save_option(parser)
    options = parser.parse_args()
    data = load_by_options("ijcnn1", options)
    rows = drawn_rows(len(data["y_train"]), options)
    data["X_train"], data["y_train"] = data["X_train"][rows], data["y_train"][rows]
    if options.validate:
        held_out = np.random.default_rng(0).permutation(len(rows)) % 5 == 0
        X, y = data["X_train"], data["y_train"]
        data = {
            "X_train": X[~held_out],
            "y_train": y[~held_out],
            "X_test": X[held_out],
            "y_test": y[held_out],
        }
    warm_up()
    table: list[dict[str, Any]] = []

    def tell(rows: list[dict[str, Any]]) -> None:
        common = {
            "learned": options.learn or False,
            "validated": options.validate,
            "p_exc": options.p_exc,
            "p_del": options.p_del,
            "p_min": options.p_min,
            "passes": options.passes,
        }
        record("passgp_ijcnn", [{**row, **common} for row in rows], save=not options.no_save)
        table.extend(rows)

    for n_active in options.active:
        for method in options.methods:
            fit = partial(fit_gp, method, n_active, options, data)
            runs = [measure(fit, seed, data) for seed in options.seeds]
            tell([{"method": method, "active": n_active, "seeds": len(runs), **averaged(runs)}])
        if options.peers:
            tell(peers(n_active, options.seeds, data))
    if options.peers:
        run = measure(lambda _: SVC(C=16.0, gamma=GAMMA).fit(data["X_train"], data["y_train"]), 0, data)
        tell([{"method": "svc", "active": None, "seeds": 1, **averaged([run])}])
    show("PASS-GP, figure 6: ijcnn1", COLUMNS, table)


if __name__ == "__main__":
    main()
