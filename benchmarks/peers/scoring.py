"""Every method's predictions of the test rows, scored by the same few lines."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr
from sklearn.metrics import roc_auc_score

from benchmarks.datasets import Array
from benchmarks.harness import Row, probability_scores

MASSES = np.linspace(0.05, 0.95, 19)


class Normal(NamedTuple):
    """Predicted means and standard deviations of real targets."""

    mean: Array
    deviation: Array


def scored(found: Array | Normal, targets: Array) -> Row:
    """Scores of class probabilities, or of normal distributions, on test rows."""
    if isinstance(found, Normal):
        return _real_scores(found, targets)
    probabilities = np.asarray(found, np.float64)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    return {
        "error_percent": round(100 * float(np.mean(probabilities.argmax(axis=1) != targets)), 4),
        **probability_scores(probabilities, targets),
        "auc": round(_auc(probabilities, targets), 5),
    }


def _auc(probabilities: Array, targets: Array) -> float:
    """Area under the ROC curve; of more than two classes the mean of each against the rest."""
    heads = [1] if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    return float(np.mean([roc_auc_score(targets == head, probabilities[:, head]) for head in heads]))


def _real_scores(found: Normal, targets: Array) -> Row:
    mean, deviation = (np.asarray(values, np.float64) for values in found)
    standard = (targets - mean) / deviation
    density = -0.5 * (np.log(2 * np.pi * deviation**2) + standard**2)
    central = np.abs(2 * ndtr(standard) - 1)  # mass of the central interval that just reaches the target
    gaps = [abs(np.mean(central <= mass) - mass) for mass in MASSES]
    return {
        "rmse": round(float(np.sqrt(np.mean((targets - mean) ** 2))), 5),
        "log_loss": round(-float(density.mean()), 5),
        "calibration_error": round(float(np.mean(gaps)), 5),
    }
