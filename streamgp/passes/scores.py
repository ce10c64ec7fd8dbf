"""What an evaluation found: sums over rows that add up in any order, and the figures read from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from streamgp.arrays import Array, FloatArray, IntArray

Score = TypeVar("Score", "ClassScore", "RealScore")

CONFIDENCE_BINS = 1000
"""Bins of the confidence histogram, from which calibration and rejection are read."""
CALIBRATION_BINS = 20
"""Bins of the calibration error."""
MOST_LOG_ODDS = 32.0
"""Log odds beyond which rows are not told apart by the ranking: probabilities of 1e-14."""
RANKING_BINS = 2**16
"""Bins of log odds for two classes: 0.001 wide. Rows of one bin count as ties: 1e-4 of an AUC at most."""
RANKING_BINS_PER_CLASS = 2**12
"""Bins of log odds for each of more classes, one against the rest."""
MASS_BINS = 200
"""Bins of the predictive distribution function, from which the coverage of intervals is read."""
INTERVALS = (0.5, 0.8, 0.95)
"""Masses of the central intervals that are told."""
PLANE_BINS = 40
PLANE_REACH = 4.0
"""The histogram of predictions and targets reaches so many deviations of the training targets either way."""

_KEPT = {"kept": True}


def added(earlier: Score, later: Score) -> Score:
    """The score of the rows of both: every field is a sum, but those that say what is scored."""
    summed = [each.name for each in fields(earlier) if "kept" not in each.metadata]
    return replace(earlier, **{name: getattr(earlier, name) + getattr(later, name) for name in summed})


class Baseline(NamedTuple):
    """Scores of the best prediction that knows no feature: its error, and its log loss in nats."""

    error: float
    log_loss: float


@dataclass(frozen=True, eq=False)
class ClassScore:
    """Sums over rows, and histograms over rows.

    ``confusion[i, j]``: rows of class i that were predicted as class j. ``*_by_confidence``: histograms over
    the confidence max_j p(class j). ``ranking``: histograms over the log odds of a class, of its own rows and
    of all others; of two classes, of the second one.
    Shapes: confusion (k, k), by confidence (CONFIDENCE_BINS,), ranking (curves, 2, bins).
    """

    rows: int
    log_loss_sum: float
    brier_sum: float
    rows_by_confidence: IntArray
    errors_by_confidence: IntArray
    confidence_sums: FloatArray
    confusion: IntArray
    ranking: IntArray
    classes: tuple[Any, ...] = field(default=(), metadata=_KEPT)

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

    @property
    def auc(self) -> float:
        """Area under the ROC curve; of more than two classes the mean of each against the rest.

        NaN where no class has both rows and others.
        """
        areas = self.auc_by_class()
        known = areas[np.isfinite(areas)]
        return float(known.mean()) if known.size else math.nan

    @property
    def calibration_error(self) -> float:
        """Mean distance of confidence and share of correct rows in 20 bins, weighted by rows."""
        confidence, correct, rows = self.calibration(CALIBRATION_BINS).T
        return float(np.nansum(np.abs(confidence - correct) * rows) / self.rows)

    @property
    def baseline(self) -> Baseline:
        """Scores of always predicting the shares of the classes among these rows."""
        shares = self.confusion.sum(axis=1) / self.rows
        present = shares[shares > 0]
        return Baseline(float(1 - shares.max()), float(-(present * np.log(present)).sum()))

    def auc_by_class(self) -> FloatArray:
        """Area under each ROC curve: P(own row ranks above another) + ½ P(equal).  Shape: (curves,)."""
        own, others = self.ranking[:, 0].astype(float), self.ranking[:, 1].astype(float)
        below = np.cumsum(others, axis=1) - 0.5 * others
        pairs = own.sum(axis=1) * others.sum(axis=1)
        areas: FloatArray = (own * below).sum(axis=1) / np.where(pairs > 0, pairs, np.nan)
        return areas

    def roc(self, curve: int = 0) -> FloatArray:
        """ROC curve, (points, 2): false and true positive rate as the threshold falls; of one curve."""
        own, others = self._above(curve)
        return np.column_stack([others / max(1, others[-1]), own / max(1, own[-1])])

    def precision_recall(self, curve: int = 0) -> FloatArray:
        """Precision-recall curve, (points, 2): recall and precision as the threshold falls; of one curve."""
        own, others = self._above(curve)
        own, others = own[1:], others[1:]
        return np.column_stack([own / max(1, own[-1]), own / (own + others)])

    def _above(self, curve: int) -> tuple[IntArray, IntArray]:
        """Own and other rows above each threshold, one threshold for each bin that has rows."""
        bins = self.ranking[curve][:, ::-1]
        some = np.concatenate([[True], bins.sum(axis=0) > 0])
        own, others = np.concatenate([np.zeros((2, 1), np.int64), np.cumsum(bins, axis=1)], axis=1)[:, some]
        return own, others

    def by_class(self) -> list[dict[str, Any]]:
        """For each class: rows, how many were found (recall), how many so called are so (precision), AUC."""
        true, called, right = (
            self.confusion.sum(axis=1),
            self.confusion.sum(axis=0),
            self.confusion.diagonal(),
        )
        areas = self.auc_by_class()
        areas = np.repeat(areas, 2) if len(areas) == 1 else areas
        return [
            {
                "class": label,
                "rows": int(true[place]),
                "recall": _ratio(right[place], true[place]),
                "precision": _ratio(right[place], called[place]),
                "auc": _finite(areas[place]),
            }
            for place, label in enumerate(self.labels)
        ]

    @property
    def labels(self) -> list[Any]:
        """Names of the classes; their numbers where no names are known."""
        return list(self.classes) or list(range(len(self.confusion)))

    def calibration(self, bins: int = CALIBRATION_BINS) -> FloatArray:
        """Reliability table, (bins, 3): mean confidence, share of correct rows, rows; NaN for empty bins."""
        rows, errors, confidence = (
            column.reshape(bins, -1).sum(axis=1)
            for column in (self.rows_by_confidence, self.errors_by_confidence, self.confidence_sums)
        )
        seen = np.where(rows > 0, rows, np.nan)
        return np.column_stack([confidence / seen, 1 - errors / seen, rows])

    def rejection(self) -> FloatArray:
        """Rejection curve, (points, 2): share of rows rejected as least confident, error of the others."""
        kept = self.rows - np.concatenate([[0], np.cumsum(self.rows_by_confidence)])
        wrong = self.errors_by_confidence.sum() - np.concatenate([[0], np.cumsum(self.errors_by_confidence)])
        some = (kept > 0) & np.concatenate([[True], self.rows_by_confidence > 0])
        return np.column_stack([1 - kept[some] / self.rows, wrong[some] / kept[some]])

    def to_dict(self) -> dict[str, Any]:
        """All figures as plain values, ready for JSON."""
        return {
            "task": "classification",
            "rows": self.rows,
            "error": self.error,
            "log_loss": self.log_loss,
            "auc": _finite(self.auc),
            "brier": self.brier,
            "calibration_error": self.calibration_error,
            "baseline": self.baseline._asdict(),
            "classes": [{**row, "class": _plain(row["class"])} for row in self.by_class()],
        }

    def __repr__(self) -> str:
        base = self.baseline
        return (
            f"ClassScore({self.rows} rows: error {self.error:.4f}, log loss {self.log_loss:.4f} nats, "
            f"AUC {self.auc:.4f}, calibration error {self.calibration_error:.4f}; "
            f"baseline: error {base.error:.4f}, log loss {base.log_loss:.4f})"
        )


def log_odds_bins(log_probabilities: FloatArray) -> tuple[IntArray, int]:
    """The bin of each class's log odds, (curves, rows), and how many bins there are.

    Of two classes one curve, of the second class. log p/(1 − p) is clipped to ±MOST_LOG_ODDS.
    """
    two = log_probabilities.shape[1] == 2
    if two:
        odds = (log_probabilities[:, 1] - log_probabilities[:, 0])[None]
    else:
        logs = np.minimum(log_probabilities.T, -1e-300)  # log(1 − p) of p = 1 is −infinity, not NaN
        with np.errstate(divide="ignore"):
            odds = logs - np.log(-np.expm1(logs))
    bins = RANKING_BINS if two else RANKING_BINS_PER_CLASS
    place = (odds + MOST_LOG_ODDS) * (bins / (2 * MOST_LOG_ODDS))
    return np.clip(place, 0, bins - 1).astype(np.int64), bins


@dataclass(frozen=True, eq=False)
class RealScore:
    """Sums over rows, and histograms over rows.

    ``target_sum`` and ``target_square_sum`` are of targets less the mean of the training targets (``shift``).
    ``rows_by_mass``: histogram over the predictive distribution function at the target, Φ(residual/sd).
    ``plane[i, j]``: rows whose prediction falls into bin i and whose target into bin j, from
    shift − 4 scale to shift + 4 scale; rows beyond are in the outermost bins.
    Shapes: rows_by_mass (MASS_BINS,), plane (PLANE_BINS, PLANE_BINS).
    """

    rows: int
    squared_error_sum: float
    log_loss_sum: float
    target_sum: float
    target_square_sum: float
    rows_by_mass: IntArray
    plane: IntArray
    shift: float = field(default=0.0, metadata=_KEPT)
    scale: float = field(default=1.0, metadata=_KEPT)

    @property
    def rmse(self) -> float:
        """Root of the mean squared error, in the target's units."""
        return math.sqrt(self.squared_error_sum / self.rows)

    @property
    def error(self) -> float:
        """The same as ``rmse``: the figure that both kinds of scores have."""
        return self.rmse

    @property
    def log_loss(self) -> float:
        """Mean of −log predictive density, in nats."""
        return self.log_loss_sum / self.rows

    @property
    def log_density(self) -> float:
        """Mean log predictive density, in nats."""
        return -self.log_loss

    @property
    def r2(self) -> float:
        """Share of the targets' variance that the predictions explain."""
        return 1 - self.squared_error_sum / self.rows / self._variance

    @property
    def calibration_error(self) -> float:
        """Mean distance of the coverage of central intervals and their mass, over the masses told."""
        return float(np.mean([abs(share - mass) for mass, share in self.coverage().items()]))

    @property
    def baseline(self) -> Baseline:
        """Scores of always predicting a normal with the mean and variance of the targets of these rows."""
        variance = self._variance
        return Baseline(math.sqrt(variance), 0.5 * math.log(2 * math.pi * math.e * variance))

    @property
    def _variance(self) -> float:
        variance = self.target_square_sum / self.rows - (self.target_sum / self.rows) ** 2
        return max(variance, np.finfo(float).tiny)

    def coverage(self, masses: tuple[float, ...] = INTERVALS) -> dict[float, float]:
        """Share of targets inside the central predictive interval of each mass (a multiple of 0.01)."""
        below = np.concatenate([[0], np.cumsum(self.rows_by_mass)])
        lower = [round(MASS_BINS * (1 - mass) / 2) for mass in masses]
        inside = [float(below[MASS_BINS - low] - below[low]) / self.rows for low in lower]
        return dict(zip(masses, inside, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """All figures as plain values, ready for JSON."""
        return {
            "task": "regression",
            "rows": self.rows,
            "error": self.error,
            "rmse": self.rmse,
            "log_loss": self.log_loss,
            "log_density": self.log_density,
            "r2": self.r2,
            "calibration_error": self.calibration_error,
            "coverage": {str(mass): share for mass, share in self.coverage().items()},
            "baseline": self.baseline._asdict(),
        }

    def __repr__(self) -> str:
        base = self.baseline
        covered = ", ".join(f"{share:.3f} of {mass}" for mass, share in self.coverage().items())
        return (
            f"RealScore({self.rows} rows: RMSE {self.rmse:.4g}, log density {self.log_density:.4f} nats, "
            f"coverage {covered}; baseline: RMSE {base.error:.4g}, log density {-base.log_loss:.4f})"
        )


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _ratio(part: Array | int, whole: Array | int) -> float | None:
    return float(part / whole) if whole else None
