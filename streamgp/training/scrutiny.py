"""What a user should be told about the data that a fit was given, and about what came of it."""

from __future__ import annotations

import warnings

import numpy as np

from streamgp.data.extremes import BEYOND, Extreme, outlying
from streamgp.errors import DataWarning
from streamgp.passes.locate import Locate
from streamgp.passes.run import run_pass
from streamgp.training.problem import Problem

_SHOWN = 5


def warn_of_outliers(problem: Problem) -> None:
    """Name the extremes of pass 0 that lie far beyond what most rows of the sample show.

    Standardised by such a value a column is zero for every other row: the fit goes on, and learns nothing
    from it. Where there is one, a pass finds its row.
    """
    summary = problem.prepared.summary
    found = outlying(summary.lowest, summary.highest, problem.sample.features)[:_SHOWN]
    if not found:
        return
    columns = np.array([extreme.column for extreme in found])
    values = np.array([extreme.value for extreme in found])
    rows = run_pass(
        problem.prepared.rows, Locate(columns, values), problem.pass_settings, label="locate"
    ).tolist()
    told = "; ".join(_told(extreme, row) for extreme, row in zip(found, rows, strict=True))
    warnings.warn(
        f"values more than {BEYOND:.0e} times beyond the 1-99 % range of their column: {told}. The column's "
        f"scale is theirs now, and hides all other rows: mend or leave out these rows, or transform the "
        f"column",
        DataWarning,
        stacklevel=2,
    )


def _told(extreme: Extreme, row: int) -> str:
    return f"column {extreme.column}, row {row}: {extreme.value!r}"
