"""A fitted model as one frozen record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamgp.data import Standardizer, Targets
from streamgp.posterior.predictive import ClassPredictive, RealPredictive
from streamgp.posterior.snapshot import Snapshot


@dataclass(frozen=True, eq=False)
class Model:
    """All that prediction needs: how to read rows, the posterior, what it says about targets."""

    standardizer: Standardizer
    targets: Targets
    snapshot: Snapshot
    predictive: ClassPredictive | RealPredictive
    active_rows: NDArray[np.int64]
