"""Several calls at once on threads of this process, where what they work on is in memory."""

from __future__ import annotations

from contextlib import AbstractContextManager

from streamgp.passes.run import Map, available_threads, on_threads


def side_by_side(workers: int) -> AbstractContextManager[Map]:
    """``map`` on so many threads, or on as many as there are; the plain one where that is one.

    Calls must not go over things side by side themselves: they would wait for each other.
    """
    return on_threads(min(workers, available_threads()))
