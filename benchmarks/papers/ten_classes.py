"""What the ten-class scripts of predictive selection share: one fit, scores of each digit and of all ten."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.binary import Digits
from streamgp import StreamGPClassifier
from streamgp.budget import peak_memory
from streamgp.kernels import RBF, Kernel, Linear, Polynomial, White

KERNELS: dict[str, Kernel | None] = {
    "default": None,
    "rbf": RBF(30.0, 11.0) + White(0.1),
    "rbf+linear": RBF(30.0, 11.0) + Linear(0.01) + White(0.1),
    "polynomial5": Polynomial(5, 100.0, 0.5, normalize=True),
    "polynomial7": Polynomial(7, 100.0, 0.5, normalize=True),
    "polynomial9": Polynomial(9, 100.0, 1.0, normalize=True),
}
"""Where learning starts."""
DENSITY_BINS = 20


def fit_ten(digits: Digits, n_active: int, **parameters: Any) -> tuple[StreamGPClassifier, dict[str, Any]]:
    """All ten digits in one stream, and what a table says about the fit."""
    model = StreamGPClassifier(n_active, **parameters)
    begun = time.perf_counter()
    model.fit_stream((digits.X_train, digits.y_train))
    seconds = time.perf_counter() - begun
    (inferred,) = [entry for entry in model.history_ if entry["stage"] == "infer: ep"] or [{}]
    row = {
        "rows": len(digits.y_train),
        "seconds": round(seconds, 1),
        "peak_bytes": peak_memory(),
        "active": inferred.get("n_active"),
        "log_evidence_active": _total(inferred.get("log_evidence_active")),
        "log_evidence_all": _total(inferred.get("log_evidence_all")),
        "kernel": repr(model.kernel_),
    }
    return model, row


def _total(values: list[float] | None) -> float | None:
    return None if values is None else round(float(np.sum(values)), 2)


def score_ten(model: StreamGPClassifier, digits: Digits) -> dict[str, Any]:
    """Errors of each digit against the rest and of all ten, log loss, Brier scores, densities (figure 4)."""
    mean, variance = model.predict_latent(digits.X_test)
    truth = digits.y_test[:, None] == model.classes_[None, :]
    positive = np.column_stack(
        [
            likelihood.positive_probability(mean[:, head], variance[:, head])
            for head, likelihood in enumerate(model.likelihood_)
        ]
    )
    probabilities = model.predict_proba(digits.X_test)
    place = np.searchsorted(model.classes_, digits.y_test)
    right = (positive > 0.5) == truth
    own = np.log(probabilities[np.arange(len(place)), place])
    return {
        "error_percent": round(100 * float(np.mean(np.argmax(probabilities, axis=1) != place)), 3),
        "log_loss": round(-float(np.mean(own)), 4),
        "brier": round(float(np.mean(np.sum((probabilities - truth) ** 2, axis=1))), 4),
        "binary_error_percent": [round(100 * float(value), 3) for value in 1 - right.mean(axis=0)],
        "binary_brier_percent": round(100 * float(np.mean((positive - truth) ** 2)), 3),
        "density_correct": _density(positive[right]),
        "density_incorrect": _density(positive[~right]),
    }


def _density(values: NDArray[np.float64]) -> list[float]:
    """Histogram of P(+1) as a density."""
    counts, _ = np.histogram(values, DENSITY_BINS, (0.0, 1.0))
    return [round(float(value), 4) for value in counts * DENSITY_BINS / max(1, counts.sum())]
