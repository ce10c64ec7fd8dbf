"""One BLAS thread while tasks run side by side.

The limit of a BLAS library is process-wide, and NumPy and SciPy bring one library each. So it is set around a
whole pass and never inside a task, where the end of one task would lift it for all others.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import threadpoolctl


def limit_blas() -> Any:
    """Set the limit for the process, from any thread; :func:`lift` takes what is returned."""
    _take_control()
    return threadpoolctl.threadpool_limits(limits=1, user_api="blas")


def lift(limit: Any) -> None:
    """Give BLAS back the threads that it had, from any thread."""
    _take_control()
    limit.restore_original_limits()
    _take_control()


def _take_control() -> None:
    """Let this thread change the limit of OpenBLAS.

    Newer threadpoolctl obeys only the thread that set a limit first, and ignores all others without a word.
    """
    controller = getattr(threadpoolctl, "OpenBLASController", None)
    clear = getattr(controller, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


class _SharedLimit:
    """Counts the passes that run now: the first one sets the limit, the last one lifts it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._limit: Any = None

    @contextmanager
    def hold(self) -> Iterator[None]:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._limit = limit_blas()
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    lift(self._limit)
                    self._limit = None


single_threaded_blas = _SharedLimit().hold
"""Context in which BLAS uses one thread; may be entered from several threads at once."""
