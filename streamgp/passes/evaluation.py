"""How good a model is, in one pass: error, log loss, calibration, rejection."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.passes.block import Block, Visitor
from streamgp.posterior.predictive import ClassPredictive, RealPredictive

Score = TypeVar("Score", "ClassScore", "RealScore")

CONFIDENCE_BINS = 1000
"""Bins of the confidence histogram, from which calibration and rejection are read."""


def _added(earlier: Score, later: Score) -> Score:
    """A record whose every field is the sum of two records' fields."""
    return type(earlier)(
        *(getattr(earlier, field.name) + getattr(later, field.name) for field in fields(earlier))
    )


@dataclass(frozen=True, eq=False)
class ClassScore:
    """Sums over rows, and a histogram over the confidence max_j p(class j): rows, errors, confidences."""

    rows: int
    log_loss_sum: float
    brier_sum: float
    rows_by_confidence: IntArray
    errors_by_confidence: IntArray
    confidence_sums: FloatArray

    @property
    def error(self) -> float:
        """Share of rows whose most probable class is not the true one."""
        return float(self.errors_by_confidence.sum() / self.rows)

    @property
    def log_loss(self) -> float:
        """Mean of −log p(true class), in nats."""
        return self.log_loss_sum / self.rows

    @property
    def brier(self) -> float:
        """Mean of Σ_j (p(class j) − [j is true])²."""
        return self.brier_sum / self.rows

    def calibration(self, bins: int = 20) -> FloatArray:
        """Reliability table, (bins, 3): mean confidence, share of correct rows, rows; NaN for empty bins."""
        rows, errors, confidence = (
            column.reshape(bins, -1).sum(axis=1)
            for column in (self.rows_by_confidence, self.errors_by_confidence, self.confidence_sums)
        )
        seen = np.where(rows > 0, rows, np.nan)
        return np.column_stack([confidence / seen, 1 - errors / seen, rows])

    def calibration_error(self, bins: int = 20) -> float:
        """Mean distance of confidence and share of correct rows, weighted by rows."""
        confidence, correct, rows = self.calibration(bins).T
        return float(np.nansum(np.abs(confidence - correct) * rows) / self.rows)

    def rejection(self) -> FloatArray:
        """Rejection curve, (points, 2): share of rows rejected as least confident, error of the others."""
        kept = self.rows - np.concatenate([[0], np.cumsum(self.rows_by_confidence)])
        wrong = self.errors_by_confidence.sum() - np.concatenate([[0], np.cumsum(self.errors_by_confidence)])
        some = (kept > 0) & np.concatenate([[True], self.rows_by_confidence > 0])
        return np.column_stack([1 - kept[some] / self.rows, wrong[some] / kept[some]])


@dataclass(frozen=True)
class ClassEvaluation(Visitor[ClassScore]):
    """Compares predicted class probabilities with encoded labels."""

    predictive: ClassPredictive

    @property
    def needs_variance(self) -> bool:
        """Yes: probabilities depend on it."""
        return True

    def visit(self, block: Block) -> ClassScore:
        """Scores of one block."""
        assert block.marginals is not None
        assert block.targets is not None
        log_p = self.predictive.log_probabilities(block.marginals)
        p, truth, every = np.exp(log_p), block.targets.astype(np.intp), np.arange(block.rows)
        guess = np.argmax(log_p, axis=1)
        confidence = p[every, guess]
        bin_ = np.clip((confidence * CONFIDENCE_BINS).astype(np.intp), 0, CONFIDENCE_BINS - 1)

        def histogram(weights: Any = None) -> Array:
            return np.bincount(bin_, weights, CONFIDENCE_BINS)

        distance = (p**2).sum(axis=1) - 2 * p[every, truth] + 1
        return ClassScore(
            block.rows,
            -float(log_p[every, truth].sum()),
            float(distance.sum()),
            histogram(),
            histogram(guess != truth).astype(np.int64),
            histogram(confidence),
        )

    def merge(self, earlier: ClassScore, later: ClassScore) -> ClassScore:
        """Scores of both."""
        return _added(earlier, later)


@dataclass(frozen=True, eq=False)
class RealScore:
    """Sums over rows: squared error, −log density, and rows within central intervals of given mass."""

    rows: int
    squared_error_sum: float
    log_loss_sum: float
    covered: IntArray

    @property
    def rmse(self) -> float:
        """Root of the mean squared error, in the target's units."""
        return float(np.sqrt(self.squared_error_sum / self.rows))

    @property
    def log_loss(self) -> float:
        """Mean of −log predictive density, in nats."""
        return self.log_loss_sum / self.rows

    def coverage(self) -> dict[float, float]:
        """Share of targets inside the central predictive interval of each mass."""
        return dict(zip(INTERVALS, (self.covered / self.rows).tolist(), strict=True))


INTERVALS = {0.5: 0.674489750196082, 0.8: 1.2815515655446004, 0.95: 1.959963984540054}
"""Masses of central intervals and their half-widths in standard deviations."""


@dataclass(frozen=True)
class RealEvaluation(Visitor[RealScore]):
    """Compares predicted means and variances with encoded targets."""

    predictive: RealPredictive

    @property
    def needs_variance(self) -> bool:
        """Yes: densities depend on it."""
        return True

    def visit(self, block: Block) -> RealScore:
        """Scores of one block."""
        assert block.marginals is not None
        assert block.targets is not None
        prediction = self.predictive.predict(block.marginals)
        scaling = self.predictive.targets
        residual = scaling.shift + scaling.scale * block.targets - prediction.mean
        z = np.abs(residual) / np.sqrt(prediction.variance)
        return RealScore(
            block.rows,
            float(residual @ residual),
            -float(self.predictive.log_density(block.targets, block.marginals).sum()),
            np.array([np.count_nonzero(z <= width) for width in INTERVALS.values()]),
        )

    def merge(self, earlier: RealScore, later: RealScore) -> RealScore:
        """Scores of both."""
        return _added(earlier, later)
