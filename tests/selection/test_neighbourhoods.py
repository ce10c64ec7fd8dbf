"""Neighbourhoods of rows: nearest, disjoint, in turn."""

from __future__ import annotations

import numpy as np

from streamgp.selection.neighbourhoods import neighbourhoods


def test_each_centre_takes_the_nearest_rows_that_are_free(generator):
    rows = generator.standard_normal((60, 2))
    squares = ((rows[:, None] - rows[None, :4]) ** 2).sum(axis=-1)
    found = neighbourhoods(squares, 10)
    free = set(range(60))
    for place, members in enumerate(found):
        nearest = sorted(free, key=lambda row: squares[row, place])[:10]
        assert members.tolist() == sorted(nearest)
        free -= set(nearest)
    assert len(found) == 4


def test_fewer_where_rows_run_out_and_ties_in_order():
    alike = np.zeros((25, 4))
    assert [members.tolist() for members in neighbourhoods(alike, 10)] == [
        list(range(10)),
        list(range(10, 20)),
    ]
    assert [members.tolist() for members in neighbourhoods(alike, 40)] == [list(range(25))]
