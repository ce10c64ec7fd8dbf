"""How often rows count: weights of classes and of rows, and none for rows held out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.data import ClassTargets
from streamgp.errors import ParameterError, TargetError
from streamgp.inference.inducing.heads import RowWeights
from streamgp.settings import FitSettings
from streamgp.training.prepare import Prepared


def row_weights(prepared: Prepared, settings: FitSettings) -> RowWeights:
    """The weights of all rows; those of weight 0 are excluded."""
    by_row = _checked(settings.sample_weight, prepared.rows.n_rows)
    weightless = np.flatnonzero(by_row == 0.0) if by_row is not None else np.zeros(0, np.int64)
    return RowWeights(weightless, _class_weights(prepared, settings.class_weight), by_row)


def check_classes(targets: FloatArray, weights: RowWeights) -> None:
    """Refuse classes of which rows that count show only one; targets are those of a stratified sample."""
    if len(weights.excluded) and len(np.unique(targets)) < 2:
        raise TargetError(
            "classification needs at least two classes, but all rows of positive sample_weight are of one"
        )


def _class_weights(prepared: Prepared, wish: Any) -> FloatArray | None:
    """One weight for each class, in their order; ``"balanced"`` gives all classes the same sum."""
    if wish is None:
        return None
    assert isinstance(prepared.targets, ClassTargets)
    if isinstance(wish, str) and wish == "balanced":
        counts = prepared.class_counts
        return _with_unlabelled(prepared, counts.sum() / (len(counts) * counts))
    if not isinstance(wish, Mapping):
        raise ParameterError(f"class_weight must be None, 'balanced' or a dict of classes, not {wish!r}")
    labels = prepared.targets.classes.tolist()
    unknown = [label for label in wish if label not in labels]
    weights = np.array([float(wish.get(label, 1.0)) for label in labels])
    if unknown or not np.all(np.isfinite(weights) & (weights > 0.0)):
        raise ParameterError(
            f"class_weight={wish!r} must give positive weights to classes, which are {labels}"
        )
    return _with_unlabelled(prepared, weights)


def _with_unlabelled(prepared: Prepared, weights: FloatArray) -> FloatArray:
    """Weights of all codes: rows without a label count once."""
    return np.append(weights, np.ones(len(prepared.strata) - len(weights)))


def _checked(weights: FloatArray | None, n_rows: int) -> FloatArray | None:
    if weights is None:
        return None
    wanted = f"it must hold {n_rows} numbers of at least 0, one a row"
    if weights.shape != (n_rows,):
        raise ParameterError(f"sample_weight has shape {weights.shape}; {wanted}")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if bad.size:
        raise ParameterError(f"sample_weight of row {bad[0]} is {weights[bad[0]]}; {wanted}")
    if not weights.any():
        raise ParameterError("sample_weight is zero for every row: there is nothing to learn from")
    return weights
