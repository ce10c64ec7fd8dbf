"""Tasks on the workers of a ``distributed`` cluster."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Any, TypeVar

from dask.base import is_dask_collection
from distributed import WorkerPlugin
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError

from streamgp.budget import return_large_allocations
from streamgp.errors import ClusterError, ClusterWarning
from streamgp.passes.blas import lift, limit_blas
from streamgp.passes.threads import Advance

T = TypeVar("T")

_LOST = (CommClosedError, ClosedClientError, CancelledError)
"""What a client says when its scheduler is gone, and when another one has taken its place."""

_QUIET = Lock()
"""Filters of warnings belong to the process: passes of several threads would restore each other's."""
_FIRST = 1
"""Priority of merges: they free what they merge, where new tasks would add to it."""
_SETUP_ATTEMPTS = 20
_SECONDS_BETWEEN_COUNTS = 1.0
"""Workers join and leave: so often a pass counts them."""
_SECONDS_OF_PATIENCE = 10.0
"""Results that take longer are still waited for, but whether there is any worker at all is looked at."""


class WorkerSetup(WorkerPlugin):  # type: ignore[misc]
    """One BLAS thread, and freed memory given back: once per process, as long as the worker lives.

    ``idempotent``: a scheduler that has it already does nothing. It tells workers that join by itself.
    """

    name = "streamgp-worker-setup"

    def __init__(self, idempotent: bool = True) -> None:
        self.idempotent = idempotent

    def setup(self, worker: Any) -> None:
        """Set the limits."""
        return_large_allocations()
        self._limit = limit_blas()

    def teardown(self, worker: Any) -> None:
        """Lift the limit of BLAS again."""
        lift(self._limit)


@dataclass(frozen=True, eq=False)
class Common:
    """What all tasks of a pass share, and how their results are merged: shipped as one value."""

    shared: Any
    merge: Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Cluster:
    """A ``distributed`` client: one task per item, a bounded number of them in flight.

    ``tasks_per_worker`` is what the memory budget allows in one process. Results of ``group`` consecutive
    tasks are merged on the workers, one after the other as they come, and only their sum travels here.
    """

    client: Any
    tasks_per_worker: int
    advance: Advance
    group: int = 1

    def __call__(
        self,
        function: Callable[..., T],
        shared: Any,
        items: Iterable[tuple[Any, ...]],
        merge: Callable[[T, T], T],
    ) -> T:
        """Fold on the workers; sums of groups are merged here, in order."""
        try:
            return self._folded(function, shared, items, merge)
        except _LOST as error:
            told = f"{type(error).__name__}: {error}".splitlines()[0]
            raise ClusterError(
                f"the scheduler of the cluster was lost in the middle of a pass ({told}); start it "
                f"again and give client= a new client: a fit with the same checkpoint= goes on where it was"
            ) from error

    def _folded(
        self,
        function: Callable[..., T],
        shared: Any,
        items: Iterable[tuple[Any, ...]],
        merge: Callable[[T, T], T],
    ) -> T:
        self._set_up_workers()
        # A future that tasks share; its value lies in the task graph, so a lost worker loses nothing.
        common = self._submit(_identity, Common(shared, merge))
        queue, flight, window, counted = iter(items), deque[Any](), self._window(), time.monotonic()
        merged: list[T] = []
        chain, links = None, 0

        def submit() -> None:
            for item in islice(queue, max(0, window - len(flight))):
                pieces = [self.client.compute(p) if is_dask_collection(p) else p for p in item]
                flight.append(self._submit(_call, function, common, *pieces))

        try:
            submit()
            while flight:
                if time.monotonic() - counted > _SECONDS_BETWEEN_COUNTS:
                    window, counted = self._window(), time.monotonic()
                self._wait(flight[0])
                part = flight.popleft()
                submit()  # now: an empty flight means that nothing is left, however small the window
                chain = part if chain is None else self._submit(_merge, common, chain, part, priority=_FIRST)
                links += 1
                if links == self.group or not flight:
                    found = self._awaited(chain)
                    merged = [merge(total, found) for total in merged] or [found]
                    chain, links = None, 0
                self.advance()
            return merged[0]
        except Exception:
            self._settle(flight)
            raise
        finally:
            self.client.cancel([*flight, common])

    def _awaited(self, future: Any) -> Any:
        """The result of a task, however long it takes."""
        self._wait(future)
        return future.result()

    def _wait(self, future: Any) -> None:
        """Until the task is done, its result left where it is; where no worker can do it, that is told."""
        while not future.done():
            try:
                future.exception(timeout=_SECONDS_OF_PATIENCE)
            except TimeoutError:
                if not future.done() and not self.client.nthreads():
                    warnings.warn(
                        "the cluster has no workers: the pass waits for one to join. Start workers (if they "
                        "have died, their logs say why), or interrupt the fit: with the same checkpoint= it "
                        "goes on where it was",
                        ClusterWarning,
                        stacklevel=2,
                    )
        if future.status != "finished":
            future.result()  # raises

    def _settle(self, flight: Iterable[Any]) -> None:
        """Wait for tasks until none may still be writing; those that no worker is there to do, do nothing."""
        with suppress(*_LOST):
            for future in flight:
                while not future.done():
                    try:
                        future.exception(timeout=_SECONDS_OF_PATIENCE)
                    except TimeoutError:
                        if not self.client.nthreads():
                            return

    def _set_up_workers(self) -> None:
        """Have the scheduler set up its workers, unless it did so before.

        A worker that dies while it is told breaks the connection of the call, as a dead scheduler would. A
        scheduler that still answers is asked again, and tells those who are alive by then.
        """
        for attempt in range(_SETUP_ATTEMPTS):
            try:
                self.client.register_plugin(WorkerSetup(idempotent=attempt == 0))
                return
            except OSError as error:
                reason = error
                self._ask_scheduler()
                time.sleep(0.1)
        raise ClusterError(
            f"the workers of the cluster die before they can be set up ({reason}); look at their logs"
        ) from reason

    def _ask_scheduler(self) -> None:
        """Raise CommClosedError where the scheduler does not answer."""
        try:
            self.client.sync(self.client.scheduler.identity)
        except OSError as error:
            raise CommClosedError(str(error)) from error

    def _submit(self, function: Callable[..., Any], *arguments: Any, priority: int = 0) -> Any:
        """A future. That rows in memory are large, and travel with their task, is no news to anybody."""
        with _QUIET, warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")
            return self.client.submit(function, *arguments, priority=priority, pure=False)

    def _window(self) -> int:
        """Tasks that may run at once, and one more per worker to hide the round trip."""
        threads = self.client.nthreads().values()
        window: int = sum(min(count, self.tasks_per_worker) + 1 for count in threads)
        return max(1, window)


def _identity(value: T) -> T:
    return value


def _call(function: Callable[..., T], common: Common, *item: Any) -> T:
    return function(common.shared, *item)


def _merge(common: Common, earlier: T, later: T) -> T:
    """A merge may add to ``earlier`` in place, but here it is a task's result, which may be asked for."""
    merged: T = common.merge(deepcopy(earlier), later)
    return merged
