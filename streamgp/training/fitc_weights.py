"""How often rows count, from what was asked for: weights of classes, of rows, and none for rows held out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.data import ClassTargets
from streamgp.errors import ParameterError
from streamgp.inference.inducing.heads import RowWeights
from streamgp.training.context import Context, class_counts


def row_weights(context: Context) -> RowWeights:
    """The weights of all rows; those held out have none."""
    return RowWeights(
        np.sort(context.validation.rows), _class_weights(context), _checked_sample_weight(context)
    )


def _class_weights(context: Context) -> FloatArray | None:
    """One weight for each class, in their order; ``"balanced"`` gives all classes the same sum."""
    wish, targets = context.settings.class_weight, context.prepared.targets
    if wish is None or not isinstance(targets, ClassTargets):
        return None
    if isinstance(wish, str) and wish == "balanced":
        counts = class_counts(context.prepared)
        balanced: FloatArray = counts.sum() / (len(counts) * counts)
        return balanced
    if not isinstance(wish, Mapping):
        raise ParameterError(f"class_weight must be None, 'balanced' or a dict of classes, not {wish!r}")
    labels = targets.classes.tolist()
    unknown = [label for label in wish if label not in labels]
    weights = np.array([float(wish.get(label, 1.0)) for label in labels])
    if unknown or not np.all(np.isfinite(weights) & (weights > 0.0)):
        raise ParameterError(
            f"class_weight={wish!r} must give positive weights to classes, which are {labels}"
        )
    return weights


def _checked_sample_weight(context: Context) -> FloatArray | None:
    weights = context.settings.sample_weight
    if weights is None:
        return None
    n_rows = context.prepared.rows.n_rows
    if weights.shape != (n_rows,) or not np.all(np.isfinite(weights) & (weights >= 0.0)):
        raise ParameterError(
            f"sample_weight has shape {weights.shape}; it must hold {n_rows} numbers of at least 0, one a row"
        )
    if not weights.any():
        raise ParameterError("sample_weight is zero for every row: there is nothing to learn from")
    return weights
