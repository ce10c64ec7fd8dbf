"""Neighbourhoods: some rows and those nearest to each, as samples of what blocks will be made of."""

from __future__ import annotations

import numpy as np

from streamgp.arrays import FloatArray, IntArray


def neighbourhoods(squares: FloatArray, size: int) -> list[IntArray]:
    """Disjoint sets of rows, one for each centre in turn: of the rows still free, those nearest to it.

    squares: squared distances of n rows to k centres.  Shapes: (n, k) → at most k sets of ``size`` places
    each, sorted; fewer where rows run out, one of all rows where there are not so many.
    Cost: O(k n log n).  Of equally near rows the first ones are taken.
    """
    free = np.arange(len(squares))
    found: list[IntArray] = []
    for column in squares.T:
        if found and len(free) < size:
            break
        order = np.argsort(column[free], kind="stable")
        found.append(np.sort(free[order[:size]]))
        free = np.sort(free[order[size:]])
    return found
