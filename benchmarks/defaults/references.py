"""The obvious, which the default must not be worse than: a constant, a line, an exact GP of few rows."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import BayesianRidge, LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.datasets import Array, Split
from benchmarks.harness import Row
from benchmarks.peers.scoring import Normal, scored

LINE_ROWS, EXACT_ROWS = 20_000, 800
MOST_EXACT_CLASSES = 10


def references(split: Split, seed: int) -> Row:
    """Log losses of all three on the test rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # their optimisers need not converge
        return {
            "constant_log_loss": _loss(constant(split), split),
            "line_log_loss": _loss(line(split, seed), split),
            "exact_log_loss": _loss(_exact(split, seed), split),
        }


def _loss(found: Array | Normal | None, split: Split) -> float | None:
    if found is None:
        return None
    classes = np.unique(split.y_train)
    targets = split.y_test if isinstance(found, Normal) else np.searchsorted(classes, split.y_test)
    loss: float = scored(found, targets)["log_loss"]
    return loss


def _drawn(split: Split, rows: int, seed: int) -> Split:
    return split.learning_from(np.random.default_rng(seed).permutation(len(split.y_train))[:rows])


def constant(split: Split) -> Array | Normal:
    """Shares of classes, or mean and deviation."""
    rows = len(split.y_test)
    if _is_real(split):
        return Normal(np.full(rows, split.y_train.mean()), np.full(rows, split.y_train.std()))
    _, counts = np.unique(split.y_train, return_counts=True)
    return np.tile(counts / counts.sum(), (rows, 1))


def line(split: Split, seed: int) -> Array | Normal:
    """Logistic regression of tuned strength, or Bayesian ridge."""
    few = _drawn(split, LINE_ROWS, seed)
    if _is_real(split):
        model = make_pipeline(StandardScaler(), BayesianRidge()).fit(*few.train)
        return Normal(*model.predict(split.X_test, return_std=True))
    line = LogisticRegressionCV(
        Cs=[0.01, 1.0, 100.0],
        cv=3,
        max_iter=300,
        scoring="neg_log_loss",
        l1_ratios=(0,),
        use_legacy_attributes=False,
    )
    return _aligned(make_pipeline(StandardScaler(), line).fit(*few.train), split)


def _exact(split: Split, seed: int) -> Array | Normal | None:
    few = _drawn(split, EXACT_ROWS, seed)
    kernel = ConstantKernel(1.0, (1e-2, 1e4)) * RBF(0.5 * np.sqrt(split.X_train.shape[1]), (1e-2, 1e4))
    if _is_real(split):
        exact = GaussianProcessRegressor(kernel + WhiteKernel(0.1, (1e-5, 10)), normalize_y=True)
        model = make_pipeline(StandardScaler(), exact).fit(*few.train)
        return Normal(*model.predict(split.X_test, return_std=True))
    if not 2 <= len(np.unique(few.y_train)) <= MOST_EXACT_CLASSES:
        return None
    model = make_pipeline(StandardScaler(), GaussianProcessClassifier(kernel, random_state=seed))
    return _aligned(model.fit(*few.train), split)


def _aligned(model: object, split: Split) -> Array:
    """Probabilities of all classes, a little for those that a subset had no row of."""
    classes = np.unique(split.y_train)
    found = np.full((len(split.y_test), len(classes)), 1e-6)
    found[:, np.isin(classes, model.classes_)] = model.predict_proba(split.X_test)  # type: ignore[attr-defined]
    return found


def _is_real(split: Split) -> bool:
    return bool(split.y_train.dtype.kind == "f")
