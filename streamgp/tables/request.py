"""What was asked for, checked at the door."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streamgp.data.targets import Task, choose_task
from streamgp.errors import ParameterError
from streamgp.tables.choose import Categories


@dataclass(frozen=True)
class Request:
    """What was asked for: the arguments of :func:`streamgp.ingest`."""

    target: str
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    test: str | float | None = None
    shuffle: bool = False
    rows_per_chunk: int | None = None
    categorical: str | int | Mapping[str, str] = "auto"
    missing: str = "impute"
    task: Task = "auto"
    memory_budget: int | str = "512MiB"
    seed: int = 0
    progress: bool | None = None

    def checked(self) -> Request:
        """The same; refuses what cannot be meant."""
        if self.missing not in ("impute", "refuse"):
            raise ParameterError(f"missing must be 'impute' or 'refuse', not {self.missing!r}")
        choose_task(self.task, "b", 2)
        if self.rows_per_chunk is not None and self.rows_per_chunk < 1:
            raise ParameterError(f"rows_per_chunk must be at least 1, not {self.rows_per_chunk!r}")
        if not isinstance(self.seed, int | np.integer):
            raise ParameterError(f"random_state must be an integer, not {self.seed!r}")
        Categories.asked(self.categorical)
        return self


def share(test: str | float | None) -> float:
    """The share of test rows of ``test=``.

    >>> share("10%"), share(0.25), share(None)
    (0.1, 0.25, 0.0)
    """
    if test is None:
        return 0.0
    try:
        value = float(test.rstrip("%")) / 100 if isinstance(test, str) and test.endswith("%") else float(test)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise ParameterError(f"test={test!r}: give a share of the rows such as '10%' or 0.1")
    return value
