"""Whether float32 is enough for the marginals of a pass."""

from __future__ import annotations

import logging
from typing import Any, Literal

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.errors import ParameterError
from streamgp.posterior.by_class import ClassesSnapshot
from streamgp.posterior.snapshot import Snapshot

Precision = Literal["auto", "float32", "float64"]

VARIANCE_TOLERANCE = 0.05
"""Largest relative error of a marginal variance that float32 may cause on the probe rows."""
MEAN_TOLERANCE = 0.05
"""Largest error of a marginal mean, in posterior standard deviations."""

WORTHWHILE = 10**10
"""Multiplications of a pass (about a second in float64) from which float32 is considered at all."""

logger = logging.getLogger(__name__)


def check_precision(precision: str) -> None:
    """Refuse anything but the three known words."""
    if precision not in ("auto", "float32", "float64"):
        raise ParameterError(f"precision must be 'auto', 'float32' or 'float64', not {precision!r}")


def choose_dtype(
    precision: Precision, snapshot: Snapshot | ClassesSnapshot, probe: FloatArray, n_rows: int
) -> np.dtype[Any]:
    """The type of a pass: as wished, or float32 where it saves time and a probe block loses nothing by it.

    The variance is a difference of nearly equal numbers where active points are dense (low dimension, close
    points, little noise): there float32 has no digits left. Both precisions are tried on the probe rows.
    Shapes: probe (c, p), standardised.  Cost: two blocks.
    """
    check_precision(precision)
    if precision != "auto":
        return np.dtype(precision)
    active, features = snapshot.active_inputs.shape
    if n_rows * active * (features + active) < WORTHWHILE:
        return np.dtype(np.float64)
    single = snapshot.astype(np.float32).marginals(probe.astype(np.float32))
    double = snapshot.astype(np.float64).marginals(probe)
    assert single.variance is not None
    assert double.variance is not None
    variance_error = np.abs(single.variance - double.variance) / np.maximum(double.variance, 1e-300)
    # A mode has no variance: its means are judged by the scale of a likelihood, which is 1.
    spread = np.sqrt(np.where(double.variance > 0.0, double.variance, 1.0))
    mean_error = np.abs(single.mean - double.mean) / spread
    if variance_error.max() > VARIANCE_TOLERANCE or mean_error.max() > MEAN_TOLERANCE:
        logger.info(
            "float64 passes: on %d probe rows float32 errs by %.0f%% in variance, %.2f deviations in mean",
            len(probe),
            100 * variance_error.max(),
            mean_error.max(),
        )
        return np.dtype(np.float64)
    return np.dtype(np.float32)
