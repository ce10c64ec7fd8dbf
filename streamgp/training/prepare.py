"""From a store to rows that a model can learn from: pass 0, validation, encodings."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgp.arrays import IntArray
from streamgp.data import ClassTargets, RealTargets, Rows, Span, Standardizer, Targets
from streamgp.data.extremes import overflowing
from streamgp.data.missing import refuse_lost_targets, warn_of_absent
from streamgp.data.standardize import Standardize, choose_standardizer
from streamgp.data.targets import NoLabel, Task, choose_task, class_targets, real_targets
from streamgp.errors import NonFiniteDataError, StoreError
from streamgp.passes import PassSettings, Reading, Summarize, Summary, run_pass
from streamgp.passes.locate import Locate

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Validated rows, with what pass 0 found and how values are to be read."""

    rows: Rows
    summary: Summary
    standardizer: Standardizer
    targets: Targets

    @property
    def class_counts(self) -> IntArray:
        """Rows of each class, in the order of classes; all rows where the target is real."""
        if isinstance(self.targets, RealTargets):
            return np.array([self.rows.n_rows])
        assert isinstance(self.targets, ClassTargets)
        return np.array([self.summary.labels[label] for label in self.targets.classes.tolist()])

    @property
    def strata(self) -> IntArray:
        """Rows of each kind that samples are drawn from: the classes and, last, rows without a label."""
        if isinstance(self.targets, RealTargets) or self.targets.no_label is None:
            return self.class_counts
        return np.append(self.class_counts, self.summary.unlabelled)

    def reading(self, dtype: Any) -> Reading:
        """How passes of the given precision read these rows."""
        return Reading(self.standardizer, self.targets, np.dtype(dtype))


def no_label_of(likelihood: Any) -> NoLabel | None:
    """What tells rows without a label, where the likelihood can learn from such."""
    return NoLabel(likelihood.missing) if getattr(likelihood, "takes_unlabelled", False) else None


def prepare(
    rows: Rows,
    task: Task,
    standardize: Standardize,
    settings: PassSettings,
    spans: Iterable[Span] | None = None,
    no_label: NoLabel | None = None,
) -> Prepared:
    """Read everything once (or the given spans), and refuse what cannot be learned from."""
    if rows.targets is None:
        raise StoreError("fitting needs targets: name their array by y=")
    if rows.n_rows < 2:
        raise StoreError("found 1 sample: fitting needs at least two rows")
    absent_features, absent = rows.check_chunks()
    assert absent is not None
    kind = rows.targets.dtype.kind
    fill = absent.fill if absent.numbers.size else None
    visitor = Summarize(kind != "f" or task == "classification", fill, no_label)
    summary = run_pass(rows, visitor, settings, spans=spans, label="summary")
    if spans is None:  # all rows were counted
        at_fill, labels = summary.targets_at_fill, set(summary.labels)
        refuse_lost_targets(absent, rows.n_rows, at_fill, labels, allowed=rows.allow_missing_chunks)
    warn_of_absent(absent_features, absent)
    summary.check_finite()
    if summary.constant_columns.size:
        logger.info("%d constant columns carry no information", summary.constant_columns.size)
    if choose_task(task, kind, len(summary.labels)) == "classification":
        targets: Targets = class_targets(summary.labels, rows.targets.dtype, no_label)
    else:
        assert summary.targets is not None
        targets = real_targets(float(summary.targets.mean[0]), float(summary.targets.variance[0]))
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused by name below
        standardizer = choose_standardizer(
            standardize,
            mean=summary.features.mean,
            variance=summary.features.variance,
            lowest=summary.lowest,
            highest=summary.highest,
        )
    _refuse_overflow(rows, summary, standardizer, settings)
    return Prepared(rows, summary, standardizer, targets)


def _refuse_overflow(
    rows: Rows, summary: Summary, standardizer: Standardizer, settings: PassSettings
) -> None:
    """Refuse features that passes in float32 cannot hold, naming the first."""
    found = overflowing(summary.lowest, summary.highest, standardizer)
    if not found:
        return
    column, value = found[0]
    [row] = run_pass(rows, Locate(np.array([column]), np.array([value])), settings, label="locate").tolist()
    raise NonFiniteDataError(
        f"{value!r} at row {row}, column {column} cannot be computed with in float32: the column goes from "
        f"{float(summary.lowest[column])!r} to {float(summary.highest[column])!r}; rescale it, or leave "
        f"the row out ({len(found)} columns are like this)"
    )
