"""Several calls at once on threads of this process, where what they work on is in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from streamgp.passes.run import available_threads

Map = Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]
"""Applies a function to each of some things; what it finds comes in their order."""


@contextmanager
def side_by_side(workers: int) -> Iterator[Map]:
    """``map`` on so many threads, or on as many as there are; the plain one where that is one.

    Calls must not go over things side by side themselves: they would wait for each other.
    """
    workers = min(workers, available_threads())
    if workers < 2:
        yield map
        return
    with ThreadPoolExecutor(workers) as pool:
        yield pool.map
