"""Numbers of a report that a model does not have at hand: a linear model, relevance."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from streamgp.arrays import Array, FloatArray
from streamgp.data.targets import as_labels
from streamgp.kernels import Kernel

FOLDS = 3


def names_of(model: Any) -> list[str]:
    """Names of the features; numbers from 0 where they have none."""
    names = getattr(model, "feature_names_in_", None)
    return (
        [f"feature {place}" for place in range(model.n_features_in_)]
        if names is None
        else [str(n) for n in names]
    )


def relevance(kernel: Kernel, n_features: int) -> FloatArray | None:
    """One over each feature's lengthscale, the largest 1; None where features share their lengthscale.

    Of several parts that have them, the one of largest variance speaks.
    """
    found = [
        part for part in _parts(kernel.to_json()) if np.size(part.get("lengthscale", 0)) == n_features > 1
    ]
    if not found:
        return None
    part = max(found, key=lambda one: float(one.get("variance", 1.0)))
    inverse: FloatArray = 1 / np.asarray(part["lengthscale"], float)
    return inverse / float(inverse.max())


def _parts(document: Any) -> list[Mapping[str, Any]]:
    """All objects inside a JSON document, itself among them."""
    inner = (
        document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    )
    own = [document] if isinstance(document, dict) else []
    return own + [part for each in inner for part in _parts(each)]


def linear_scores(features: Array, targets: Array, *, are_classes: bool, seed: int = 0) -> dict[str, float]:
    """Scores of a linear model on rows, each predicted by a fit to two thirds of the others.

    Logistic regression of classes, least squares with the residuals' variance of real targets.
    """
    rows = np.asarray(features, np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an optimiser that stops early is good enough for a comparison
        return (_classes_linear if are_classes else _real_linear)(rows, targets, seed)


def _classes_linear(features: FloatArray, targets: Array, seed: int) -> dict[str, float]:
    present, code = np.unique(as_labels(targets), return_inverse=True)
    if len(present) < 2 or np.bincount(code).min() < FOLDS:
        return {}
    probabilities = np.empty((len(features), len(present)))
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(features, code):
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=100)).fit(
            features[train], code[train]
        )
        probabilities[test] = model.predict_proba(features[test])
    two = len(present) == 2
    area = roc_auc_score(code, probabilities[:, 1] if two else probabilities, multi_class="ovr")
    return {
        "error": float(np.mean(probabilities.argmax(axis=1) != code)),
        "log_loss": float(log_loss(code, probabilities)),
        "auc": float(area),
        "brier": float(np.mean(np.sum((probabilities - np.eye(len(present))[code]) ** 2, axis=1))),
    }


def _real_linear(features: FloatArray, targets: Array, seed: int) -> dict[str, float]:
    squared, loss, y = 0.0, 0.0, np.asarray(targets, np.float64)
    for train, test in KFold(FOLDS, shuffle=True, random_state=seed).split(features):
        model = make_pipeline(StandardScaler(), LinearRegression()).fit(features[train], y[train])
        variance = max(float(np.var(y[train] - model.predict(features[train]))), np.finfo(float).tiny)
        residual = y[test] - model.predict(features[test])
        squared += float(residual @ residual)
        loss += 0.5 * float(np.sum(np.log(2 * np.pi * variance) + residual**2 / variance))
    return {"rmse": float(np.sqrt(squared / len(y))), "log_density": -loss / len(y)}
