"""Tasks on Dask's threads in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Protocol, TypeVar

import dask
from dask.base import is_dask_collection

from streamgp.passes.blas import single_threaded_blas

T = TypeVar("T")
Advance = Callable[[], object]


class Fold(Protocol):
    """Calls a function for every item, side by side, and merges the results in the order of the items.

    merge(… merge(f(shared, *item 0), f(shared, *item 1)) …, f(shared, *last item))
    of ``group`` consecutive items, and the same of what the groups gave: a tree that follows from the number
    of items alone. A bounded number of tasks is in flight. The result does not depend on which
    implementation did it.
    """

    def __call__(
        self,
        function: Callable[..., T],
        shared: Any,
        items: Iterable[tuple[Any, ...]],
        merge: Callable[[T, T], T],
    ) -> T:
        """Return the merged result; ``shared`` is the same for all calls and is shipped once."""


@dataclass(frozen=True)
class Threads:
    """Dask's threaded scheduler, one window of tasks (at least a group of them) after the other.

    Within a window each partial result is merged as soon as its turn has come, so the memory in use depends
    on ``workers`` and neither on the window nor on the number of tasks. A window ends with a barrier, which
    costs about half a task in ``window`` of them.
    """

    workers: int
    advance: Advance
    window: int = 64
    group: int = 1

    def __call__(
        self,
        function: Callable[..., T],
        shared: Any,
        items: Iterable[tuple[Any, ...]],
        merge: Callable[[T, T], T],
    ) -> T:
        """Fold in this process, with one BLAS thread per task."""
        queue, window = iter(items), self.group * max(1, self.window // self.group)
        total: list[T] = []  # empty until the first window is done
        # A pool of our own, so that after an error its exit waits for the tasks that still run.
        with single_threaded_blas(), ThreadPoolExecutor(self.workers) as pool:
            batch = list(islice(queue, window))
            while batch:
                chain = self._chain([_task(function, shared, item) for item in batch], merge, total)
                total = [chain.compute(scheduler="threads", pool=pool)]
                batch = list(islice(queue, window))
        return total[0]

    def _chain(self, parts: list[Any], merge: Callable[[T, T], T], total: list[T]) -> Any:
        """Delayed merges of a window: ((total · group 0) · group 1) · ..., where total may be empty."""
        groups = [
            self._links(parts[begin : begin + self.group], merge, [], self.advance)
            for begin in range(0, len(parts), self.group)
        ]
        return self._links(groups, merge, total, lambda: None)

    def _links(self, parts: list[Any], merge: Callable[[T, T], T], total: list[T], done: Advance) -> Any:
        """Delayed merges, one after the other: ((total · part 0) · part 1) · ..."""
        chain = dask.delayed(partial(_merge, merge, total, done), pure=False)(parts[0])
        for part in parts[1:]:
            chain = dask.delayed(partial(_merge, merge, [], done), pure=False)(part, chain)
        return chain


def _merge(merge: Callable[[T, T], T], total: list[T], done: Advance, part: T, *before: T) -> T:
    done()
    for earlier in (*total, *before):
        part = merge(earlier, part)
    return part


def _task(function: Callable[..., T], shared: Any, item: tuple[Any, ...]) -> Any:
    """A delayed call. Dask searches arguments for its collections: only those are passed as arguments."""
    lazy = [piece for piece in item if is_dask_collection(piece)]
    return dask.delayed(partial(_call, function, shared, item), pure=False)(*lazy)


def _call(function: Callable[..., T], shared: Any, item: tuple[Any, ...], *computed: Any) -> T:
    """Call with the item, its lazy pieces replaced by what Dask computed for them."""
    arrived = iter(computed)
    return function(shared, *(next(arrived) if is_dask_collection(piece) else piece for piece in item))
