"""What surrounds a fit and does not change it: the threads it may use, and whether it tells its steps."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from streamgp.errors import ParameterError
from streamgp.passes.run import available_threads, limited_threads


@contextmanager
def running(n_jobs: Any, verbose: Any) -> Iterator[None]:
    """The context of a fit: threads as ``n_jobs`` says, log lines on the error stream if ``verbose``."""
    with limited_threads(n_threads(n_jobs)), _telling(_level(verbose)):
        yield


def n_threads(n_jobs: Any) -> int:
    """Threads that ``n_jobs`` stands for.

    None: all that may be used. -1: the same; -2: all but one, and so on.

    >>> n_threads(3)
    3
    """
    if n_jobs is None:
        return available_threads()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise ParameterError(f"n_jobs must be None, a number of threads, or -1 for all, not {n_jobs!r}")
    return int(n_jobs) if n_jobs > 0 else max(1, available_threads() + 1 + int(n_jobs))


def _level(verbose: Any) -> int | None:
    """What is told: nothing, the steps, or the details too."""
    if not isinstance(verbose, bool | int | np.integer) or verbose < 0:
        raise ParameterError(f"verbose must be False, True or a number of at least 0, not {verbose!r}")
    if not verbose:
        return None
    return logging.INFO if verbose == 1 else logging.DEBUG


@contextmanager
def _telling(level: int | None) -> Iterator[None]:
    """Log lines of the library go to the error stream meanwhile."""
    if level is None:
        yield
        return
    logger, handler = logging.getLogger("streamgp"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("streamgp: %(message)s"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
