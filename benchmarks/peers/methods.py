"""The methods of the comparison: a name, what it needs installed, and a function that fits it.

A function takes the training rows and gives another one, which predicts: class probabilities, or means and
deviations. Rivals are tuned as a careful user would, on training rows that are held out; their tuning is
part of their time.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.datasets import Array
from benchmarks.peers.data import Task, scaling
from benchmarks.peers.gaussian_processes import exact_subset, variational
from benchmarks.peers.scoring import Normal
from streamgp import StreamGPClassifier, StreamGPRegressor

Predict = Callable[[Array], "Array | Normal"]
HELD_OUT = 5000
"""Rows that decide about a rival's parameters, at most; a tenth of small data."""


class Request(NamedTuple):
    """What a method is asked to do: a task, a seed, a memory budget, and seconds where it would go on."""

    name: str
    task: Task
    seed: int
    memory_budget: str
    seconds: float


class Method(NamedTuple):
    """A way to learn. ``rows`` and ``cells`` (rows times features) limit what it can be given in full."""

    fit: Callable[[Request], Predict]
    module: str = "streamgp"
    most_rows: int = 10**9
    most_cells: int = 10**12
    drawn_rows: int = 10**9
    """Rows that it learns from at most: of larger data so many, at random, which the record says."""


RECIPES: dict[str, dict[str, Any]] = {
    "satimage": {"inference": "local"},
    "usps": {"selection": "ivm", "n_active": 500, "multiclass": "per_class"},
    "usps4": {"selection": "ivm", "n_active": 500},
    "ijcnn1": {"selection": "kmeans", "inference": "fitc", "n_active": 1000},
    "mnist": {"selection": "ivm", "n_active": 1000, "multiclass": "per_class"},
    "flights3m": {"inference": "local"},
    "uci_kin40k": {"inference": "local"},
    "uci_protein": {"inference": "local"},
    "uci_pumadyn32nm": {"selection": "kmeans", "inference": "fitc", "n_active": 500},
}
"""The best of our named recipes so far, by set."""


def ours(request: Request, **parameters: Any) -> Predict:
    """Our model, told no more than these parameters."""
    kind = StreamGPRegressor if request.task.is_real else StreamGPClassifier
    model = kind(memory_budget=request.memory_budget, random_state=request.seed, **parameters)
    model.fit_stream(request.task.split.train)
    if request.task.is_real:
        return lambda features: Normal(*model.predict(features, return_std=True))
    return model.predict_proba


def ours_named(request: Request) -> Predict:
    """The recipe that is named for this set."""
    return ours(request, **RECIPES[request.name])


def _parts(request: Request) -> tuple[Array, Array]:
    """Places of training rows to learn from, and of those that decide about parameters."""
    n_rows = len(request.task.split.y_train)
    order = np.random.default_rng(request.seed).permutation(n_rows)
    held_out = min(HELD_OUT, n_rows // 10)
    return order[held_out:], order[:held_out]


def nystroem(request: Request, points: int) -> Predict:
    """Nystroem features, then logistic regression or Bayesian ridge; lengthscale and C by held-out rows."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.metrics import log_loss
    from sklearn.metrics.pairwise import euclidean_distances

    X, y = request.task.split.train
    scale = scaling(X)
    learners, judges = _parts(request)
    few = learners[:10_000]
    median = float(np.median(euclidean_distances(scale.apply(X[few[:1000]]))))
    tried = []
    for factor in (0.25, 0.5, 1.0, 2.0):
        gamma = 0.5 / (factor * median) ** 2
        features = Nystroem(gamma=gamma, n_components=min(points, len(few)), random_state=request.seed)
        train = features.fit_transform(scale.apply(X[few]))
        test = features.transform(scale.apply(X[judges]))
        for strength in (None,) if request.task.is_real else (1.0, 10.0, 100.0, 1000.0):
            model = _linear(strength).fit(train, y[few])
            if request.task.is_real:
                loss = -_density(*model.predict(test, return_std=True), y[judges])
            else:
                loss = log_loss(y[judges], model.predict_proba(test), labels=model.classes_)
            tried.append((loss, gamma, strength))
    _, gamma, strength = min(tried, key=lambda one: one[0])
    features = Nystroem(gamma=gamma, n_components=min(points, len(few)), random_state=request.seed)
    features.fit(scale.apply(X[few]))
    model = _linear(strength).fit(features.transform(scale.apply(X)), y)
    if request.task.is_real:
        return lambda rows: Normal(*model.predict(features.transform(scale.apply(rows)), return_std=True))
    return lambda rows: model.predict_proba(features.transform(scale.apply(rows)))


def _linear(strength: float | None) -> Any:
    from sklearn.linear_model import BayesianRidge, LogisticRegression

    return BayesianRidge() if strength is None else LogisticRegression(C=strength, max_iter=500, tol=1e-5)


def _density(mean: Array, deviation: Array, targets: Array) -> float:
    return float(np.mean(-0.5 * (np.log(2 * np.pi * deviation**2) + ((targets - mean) / deviation) ** 2)))


def boosted(request: Request, seconds: float = math.inf) -> Predict:
    """LightGBM with early stopping, small and large trees, each half of the CPU ``seconds`` at most.

    Real targets: the deviation of held-out rows.
    """
    import lightgbm

    X, y = request.task.split.train
    learners, judges = _parts(request)
    kind = lightgbm.LGBMRegressor if request.task.is_real else lightgbm.LGBMClassifier
    stop = lightgbm.early_stopping(50, verbose=False)
    best: Any = None
    for leaves in (31, 255):
        limit = _stop_after(seconds / 2)
        model = kind(n_estimators=3000, num_leaves=leaves, random_state=request.seed, n_jobs=0, verbose=-1)
        model.fit(X[learners], y[learners], eval_set=[(X[judges], y[judges])], callbacks=[stop, limit])
        loss = next(iter(model.best_score_["valid_0"].values()))
        if best is None or loss < best[0]:
            best = loss, model
    model = best[1]
    if not request.task.is_real:
        return lambda rows: model.predict_proba(rows)  # type: ignore[no-any-return]
    deviation = float(np.sqrt(np.mean((y[judges] - model.predict(X[judges])) ** 2)))
    return lambda rows: Normal(model.predict(rows), np.full(len(rows), deviation))


def _stop_after(seconds: float) -> Callable[[Any], None]:
    """For LightGBM: no more trees after so many seconds of the processor, their best number is kept."""
    from lightgbm.callback import EarlyStopException

    begun, best = time.process_time(), (math.inf, 0, None)

    def look(environment: Any) -> None:
        nonlocal best
        found = environment.evaluation_result_list
        best = min(best, (found[0][2], environment.iteration, found), key=lambda one: one[:2])
        if time.process_time() - begun > seconds:
            raise EarlyStopException(best[1], best[2])

    return look


def support_vectors(request: Request) -> Predict:
    """LIBSVM: lengthscale and C by held-out rows, probabilities by Platt's method or held-out deviations."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.metrics.pairwise import euclidean_distances
    from sklearn.svm import SVC, SVR

    X, y = request.task.split.train
    scale = scaling(X)
    learners, judges = _parts(request)
    few = learners[:5000]
    median = float(np.median(euclidean_distances(scale.apply(X[few[:1000]]))))

    def machine(factor: float, strength: float) -> Any:
        kind = SVR if request.task.is_real else SVC
        return kind(C=strength, gamma=0.5 / (factor * median) ** 2, cache_size=500)

    tried = [
        (machine(*pair).fit(scale.apply(X[few]), y[few]).score(scale.apply(X[judges]), y[judges]), pair)
        for pair in itertools.product((0.25, 0.5, 1.0, 2.0), (0.1, 1.0, 10.0, 100.0, 1000.0))
    ]
    model = machine(*max(tried)[1])
    if not request.task.is_real:
        model = CalibratedClassifierCV(model, cv=3, ensemble=False).fit(scale.apply(X), y)
        return lambda rows: model.predict_proba(scale.apply(rows))  # type: ignore[no-any-return]
    model.fit(scale.apply(X[learners]), y[learners])
    deviation = float(np.sqrt(np.mean((y[judges] - model.predict(scale.apply(X[judges]))) ** 2)))
    return lambda rows: Normal(model.predict(scale.apply(rows)), np.full(len(rows), deviation))


METHODS: dict[str, Method] = {
    "streamgp": Method(ours),
    "streamgp, named recipe": Method(ours_named),
    "Nystroem 500": Method(lambda request: nystroem(request, 500), drawn_rows=300_000),
    "Nystroem 1000": Method(lambda request: nystroem(request, 1000), drawn_rows=300_000),
    "LightGBM": Method(boosted, module="lightgbm"),
    "SVM": Method(support_vectors, most_rows=50_000, most_cells=2_000_000),
    "SVGP": Method(variational, module="gpytorch"),
    "exact GP, 2000 rows": Method(exact_subset),
}
"""In the order of the table."""
