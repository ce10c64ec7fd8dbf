"""Names of array types, once for all rooms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""An array of any type."""
FloatArray = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]
"""An array in the type of a pass: float32 or float64."""
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
