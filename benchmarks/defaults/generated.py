"""Made-up data whose best possible error and log loss are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from benchmarks.datasets import Array, Split

TEST_ROWS = 5000


class Case(NamedTuple):
    """A split, and the error (share of rows, or rmse) and log loss of who knows how it was made."""

    split: Split
    best_error: float
    best_log_loss: float


def _signal(X: Array) -> Array:
    """Two waves and a product: no line tells anything of it."""
    signal: Array = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    return signal


def _classes(X: Array, chance: Array, draw: np.random.Generator, rows: int, flip: float = 0.0) -> Case:
    """Two classes, of which the second has these chances; a share of the labels is flipped."""
    chance = flip + (1 - 2 * flip) * chance
    y = (draw.random(len(X)) < chance).astype(np.int8)
    own = np.where(y == 1, chance, 1 - chance)[rows:]
    error = float(np.minimum(chance, 1 - chance)[rows:].mean())
    return Case(Split(X[:rows], y[:rows], X[rows:], y[rows:]), error, -float(np.log(own).mean()))


def two_classes(
    draw: np.random.Generator, rows: int, irrelevant: int = 1, bias: float = 0.0, flip: float = 0.0
) -> Case:
    """The signal, some features that say nothing, a bias, labels flipped."""
    X = draw.standard_normal((rows + TEST_ROWS, 3 + irrelevant))
    return _classes(X, expit(3 * _signal(X) + bias), draw, rows, flip)


def raw_scales(draw: np.random.Generator, rows: int) -> Case:
    """Columns in units from 1e-6 to 1e6, far from zero."""
    case = two_classes(draw, rows)
    shift, scale = np.array([1e3, -5.0, 1e-3, 1e6]), np.array([1e3, 1e-6, 1e-3, 1e6])
    return case._replace(split=case.split.mapped(lambda X: shift + scale * X))


def duplicates(draw: np.random.Generator, rows: int) -> Case:
    """Every row fifty times."""
    case = two_classes(draw, max(20, rows // 50))
    return case._replace(split=case.split.learning_from(np.repeat(np.arange(len(case.split.y_train)), 50)))


def sorted_rows(draw: np.random.Generator, rows: int) -> Case:
    """By class, then by the first feature."""
    case = two_classes(draw, rows)
    order = np.lexsort((case.split.X_train[:, 0], case.split.y_train))
    return case._replace(split=case.split.learning_from(order))


def drift(draw: np.random.Generator, rows: int) -> Case:
    """Features wander as time goes on; test rows are the last ones."""
    time = np.linspace(0, 1, rows + TEST_ROWS)[:, None]
    X = draw.standard_normal((rows + TEST_ROWS, 4)) + 1.5 * time
    return _classes(X, expit(3 * _signal(X)), draw, rows)


def many_classes(draw: np.random.Generator, rows: int, classes: int) -> Case:
    """Two normal clouds for each class in 16 dimensions."""
    centres = 1.2 * draw.standard_normal((2 * classes, 16))
    cloud = draw.integers(2 * classes, size=rows + TEST_ROWS)
    X = centres[cloud] + draw.standard_normal((rows + TEST_ROWS, 16))
    y, test = cloud % classes, X[rows:]
    log = test @ centres.T - 0.5 * (centres**2).sum(axis=1)
    chance = np.exp(log - log.max(axis=1, keepdims=True))
    chance = (chance / chance.sum(axis=1, keepdims=True)).reshape(len(test), 2, classes).sum(axis=1)
    own = chance[np.arange(len(test)), y[rows:]]
    error = float(np.mean(1 - chance.max(axis=1)))
    return Case(Split(X[:rows], y[:rows], test, y[rows:]), error, -float(np.log(own).mean()))


def one_hot(draw: np.random.Generator, rows: int) -> Case:
    """Twelve columns of ten words each, as 0 and 1: a sum of what words say, and two that interact."""
    words = draw.integers(10, size=(rows + TEST_ROWS, 12))
    X = (words[:, :, None] == np.arange(10)).reshape(len(words), -1).astype(np.float32)
    signal = X @ draw.standard_normal(X.shape[1]) + 1.5 * np.where(words[:, 0] == words[:, 1], 1.0, -0.1)
    return _classes(X, expit(signal - signal.mean()), draw, rows)


def real_targets(
    draw: np.random.Generator, rows: int, noise: float = 0.3, outliers: float = 0.0, irrelevant: int = 1
) -> Case:
    """The signal and normal noise, to which some rows add twenty times as much."""
    X = draw.standard_normal((rows + TEST_ROWS, 3 + irrelevant))
    is_outlier = draw.random(len(X)) < outliers
    wide = 20 * noise
    y = _signal(X) + np.where(is_outlier, wide, noise) * draw.standard_normal(len(X))
    error = (y - _signal(X))[rows:]
    density = (1 - outliers) * _normal(error, noise) + outliers * _normal(error, wide)
    split = Split(X[:rows], y[:rows], X[rows:], y[rows:])
    return Case(split, float(np.sqrt(np.mean(error**2))), -float(np.log(density).mean()))


def _normal(error: Array, deviation: float) -> Array:
    density: Array = np.exp(-0.5 * (error / deviation) ** 2) / (deviation * np.sqrt(2 * np.pi))
    return density


def sorted_targets(draw: np.random.Generator, rows: int) -> Case:
    """Rows in the order of their targets."""
    case = real_targets(draw, rows)
    return case._replace(split=case.split.learning_from(np.argsort(case.split.y_train)))


Make = Callable[[np.random.Generator, int], Case]
CASES: dict[str, Make] = {
    "plain": two_classes,
    "raw scales": raw_scales,
    "100 irrelevant features": lambda draw, rows: two_classes(draw, rows, irrelevant=100),
    "more features than rows": lambda draw, rows: two_classes(draw, min(rows, 250), irrelevant=297),
    "1 % positives": lambda draw, rows: two_classes(draw, rows, bias=-9.0),
    "1:1000": lambda draw, rows: two_classes(draw, rows, bias=-13.5),
    "30 % label noise": lambda draw, rows: two_classes(draw, rows, flip=0.3),
    "nothing to learn": lambda draw, rows: two_classes(draw, rows, flip=0.5),
    "50 duplicates of each row": duplicates,
    "sorted rows": sorted_rows,
    "drift": drift,
    "0/1 features": one_hot,
    "5 classes": lambda draw, rows: many_classes(draw, rows, 5),
    "26 classes": lambda draw, rows: many_classes(draw, rows, 26),
    "100 classes": lambda draw, rows: many_classes(draw, rows, 100),
    "30 rows": lambda draw, rows: two_classes(draw, 30),
    "100 rows": lambda draw, rows: two_classes(draw, 100),
    "300 rows": lambda draw, rows: two_classes(draw, 300),
    "real targets": real_targets,
    "real targets, heavy noise": lambda draw, rows: real_targets(draw, rows, noise=10.0),
    "real targets, 2 % outliers": lambda draw, rows: real_targets(draw, rows, outliers=0.02),
    "real targets, sorted": sorted_targets,
    "real targets, 100 irrelevant": lambda draw, rows: real_targets(draw, rows, irrelevant=100),
    "real targets, 100 rows": lambda draw, rows: real_targets(draw, 100),
}
