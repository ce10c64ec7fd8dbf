"""The baseline of every selection: rows drawn at random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def random_rows(n_rows: int, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Numbers of ``count`` different rows, sorted; every row is equally likely, wherever it lies."""
    return np.sort(generator.choice(n_rows, size=min(count, n_rows), replace=False, shuffle=False))
