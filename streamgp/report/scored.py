"""Sections about scores: beside a baseline and a linear model, calibration, ranking, residuals."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.arrays import Array
from streamgp.passes.scores import PLANE_REACH, ClassScore, RealScore
from streamgp.report import figures
from streamgp.report.content import Figure, Section, Table, fixed, number
from streamgp.report.facts import linear_scores

MOST_CLASSES = 20
"""Classes that have a line in the table."""
MOST_CONFUSED = 30
"""Classes whose confusion is drawn."""


def scores(model: Any, score: Any, rows: tuple[Array, Array] | None) -> Section:
    """The model beside a linear model and a baseline; each class."""
    if score is None or rows is None:
        return Section("Scores", ["No rows were given to score: name them by data= (or --data)."])
    linear = linear_scores(*rows, are_classes=isinstance(score, ClassScore))
    base = score.baseline
    if isinstance(score, ClassScore):
        table = [
            ("error (%)", 100 * score.error, 100 * linear["error"] if linear else None, 100 * base.error),
            ("log loss (nats)", score.log_loss, linear.get("log_loss"), base.log_loss),
            ("area under the ROC curve", score.auc, linear.get("auc"), 0.5),
            ("Brier score", score.brier, linear.get("brier"), _baseline_brier(score)),
            ("calibration error", score.calibration_error, None, None),
        ]
        kinds = "logistic regression", "always predicts the shares of the classes among the rows scored"
    else:
        table = [
            ("root mean squared error", score.rmse, linear.get("rmse"), base.error),
            ("log density (nats)", score.log_density, linear.get("log_density"), -base.log_loss),
            ("variance explained", score.r2, _explained(linear.get("rmse"), base.error), 0.0),
            *(
                (f"inside the {mass:.0%} interval (%)", 100 * share, None, None)
                for mass, share in score.coverage().items()
            ),
        ]
        kinds = "least squares", "always predicts the mean and variance of the rows scored"
    caption = (
        f"Scores on {score.rows:,} rows. Linear model: {kinds[0]}, learned from two thirds of "
        f"{len(rows[0]):,} of these rows and scored on the rest, in turn. Baseline: {kinds[1]}."
    )
    shown = [(name, *(_shown(name, value) for value in values)) for name, *values in table]
    tables = [Table([("", "model", "linear model", "baseline"), *shown], caption)]
    if isinstance(score, ClassScore):
        tables.append(_class_table(score))
    return Section("Scores", tables=tables)


def _shown(name: str, value: float | None) -> str:
    """Per cent with two decimals, scores with four, what has the target's unit with four digits."""
    if name == "root mean squared error":
        return number(value)
    return fixed(value, 2 if name.endswith("(%)") else 4)


def _baseline_brier(score: ClassScore) -> float:
    """That of the shares of the classes: one minus the sum of their squares."""
    shares = score.confusion.sum(axis=1) / score.rows
    return float(1 - shares @ shares)


def _explained(error: float | None, spread: float) -> float | None:
    return None if error is None or not spread else 1 - (error / spread) ** 2


def _class_table(score: ClassScore) -> Table:
    shown = sorted(score.by_class(), key=lambda row: -int(row["rows"]))[:MOST_CLASSES]
    rows = [
        (
            row["class"],
            f"{row['rows']:,}",
            fixed(row["recall"]),
            fixed(row["precision"]),
            fixed(row["auc"]),
        )
        for row in shown
    ]
    caption = (
        "Each class: rows of it, share of them that was found (recall), share of rows so called that are of "
        "it (precision), area under the ROC curve against all others."
    )
    return Table([("class", "rows", "recall", "precision", "AUC"), *rows], caption)


def judged(score: ClassScore | RealScore) -> list[Section]:
    """Calibration and ranking of classes, or residuals and intervals of real targets."""
    if isinstance(score, RealScore):
        return [_real_judged(score)]
    calibration = Section(
        "Calibration",
        figures=[
            Figure(
                figures.reliability(score.calibration()),
                "Reliability. Rows are grouped by the confidence of their predicted class; a calibrated "
                "model lies on the dashed line. Bars are 95 % intervals; below, rows in each group. Those of "
                f"fewer than {figures.FEWEST_GROUPED} rows are left out.",
            ),
            Figure(
                figures.rejection(score.rejection(), score.rows),
                "Rejection. Error of the rows that remain when the least confident are set aside, as long as "
                f"{figures.FEWEST_KEPT} remain.",
            ),
        ],
    )
    return [calibration, _ranking(score)]


def _ranking(score: ClassScore) -> Section:
    labels, areas = [str(label) for label in score.labels], score.auc_by_class()
    two = len(areas) == 1
    largest = np.argsort(-score.confusion.sum(axis=1), kind="stable")[: figures.MOST_CURVES]
    shown = [0] if two else sorted(int(place) for place in largest)
    named = {place: labels[1] if two else labels[place] for place in shown}
    roc = [(f"{named[place]}: AUC {areas[place]:.4f}", score.roc(place)) for place in shown]
    recall = [(named[place], score.precision_recall(place)) for place in shown]
    share = float(score.ranking[shown[0], 0].sum() / score.rows) if two else 0.0
    which = "" if two or len(shown) == len(labels) else f" The {len(shown)} largest classes are shown."
    return Section(
        "Ranking and confusion",
        figures=[
            Figure(
                figures.curves("ROC curve", roc, ("false positive rate", "true positive rate")),
                f"Receiver operating characteristic, each class against all others.{which} Dashed: guessing.",
            ),
            Figure(
                figures.curves("Precision-recall curve", recall, ("recall", "precision"), share),
                f"Precision and recall as the threshold falls.{which}"
                + (" Dashed: guessing, which has the share of the class." if two else ""),
            ),
            *_confusion(score, labels),
        ],
    )


def _confusion(score: ClassScore, labels: list[str]) -> list[Figure]:
    """The confusion matrix, where there are few enough classes to see it."""
    if len(labels) > MOST_CONFUSED:
        return []
    told = "counts and shares" if len(labels) <= 6 else "per cent where they round to 1 or more"
    caption = f"Confusion. Rows are true classes; shades are shares of a true class, numbers are {told}."
    return [Figure(figures.confusion(score.confusion, labels), caption)]


def _real_judged(score: RealScore) -> Section:
    masses = tuple(np.round(np.arange(0.02, 1.0, 0.02), 2).tolist())
    shares = list(score.coverage(masses).values())
    low, high = score.shift - PLANE_REACH * score.scale, score.shift + PLANE_REACH * score.scale
    return Section(
        "Residuals and intervals",
        figures=[
            Figure(
                figures.plane(score.plane, low, high),
                "Targets against predictions, in the target's units; darker where there are more rows "
                "(logarithmic). Dashed: equality. Rows beyond four standard deviations are at the border.",
            ),
            Figure(
                figures.coverage(masses, shares),
                "Share of targets inside the central predictive interval of each mass. Dashed: calibrated.",
            ),
            Figure(
                figures.masses(score.rows_by_mass),
                "Predictive distribution function at the targets. Flat (dashed) where predictions are "
                "calibrated; a hump says that intervals are too wide, a bowl too narrow.",
            ),
        ],
    )
