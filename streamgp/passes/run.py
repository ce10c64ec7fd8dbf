"""The pass: one task per span of chunks, many at once, merged in order; few have several threads each."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from threading import Semaphore
from typing import Any, TypeVar

import dask

from streamgp.budget import return_large_allocations
from streamgp.data import Rows, Span
from streamgp.data.columns import load
from streamgp.errors import ParameterError
from streamgp.passes.block import Buffers, Job, Posterior, Reading, Visitor
from streamgp.passes.finite import OnBadRows
from streamgp.passes.progress import Progress
from streamgp.passes.threads import Fold, Threads

T = TypeVar("T")
Map = Callable[..., Iterable[Any]]
"""Applies a function to each of some things; what it finds comes in their order."""

_MOST_THREADS: ContextVar[int | None] = ContextVar("most_threads", default=None)

MOST_TASKS = 1024
"""Tasks of a pass: more spans than these are visited by several to a task, which merges what they give.

So neither the scheduler nor whoever merges the results of tasks has more to do for a larger store.
"""
MOST_MERGED = 64
"""Results that meet in one place: more than these are merged in groups of consecutive ones before."""


@dataclass(frozen=True)
class PassSettings:
    """How passes run. ``rows_per_block`` shapes the result's rounding, the rest only the speed.

    ``read_ahead``: threads beside those in flight that may read, but not compute, so that slow stores are
    waited for while rows that are there are computed with.
    """

    rows_per_block: int
    tasks_in_flight: int
    client: Any = None
    progress: bool | Progress | None = None
    read_ahead: int = 0


def visit_span(job: Job, span: Span, features_piece: Any, targets_piece: Any) -> Any:
    """The task: read a span of whole chunks, visit it in blocks of rows, merge in order."""
    features = load(features_piece)
    targets = None if targets_piece is None else load(targets_piece)

    def visit(begin: int, buffers: Buffers) -> Any:
        end = min(begin + job.rows_per_block, span.rows)
        here = None if targets is None else targets[begin:end]
        return job.visitor.visit(job.block(span.start + begin, features[begin:end], here, buffers))

    begins = range(0, span.rows, job.rows_per_block)
    threads = min(job.threads, len(begins))
    with job.turns or nullcontext(), on_threads(threads) as map_side_by_side:
        total = None
        buffers = [job.buffers(min(span.rows, job.rows_per_block)) for _ in range(threads)]
        for first in range(0, len(begins), threads):
            for part in map_side_by_side(visit, begins[first : first + threads], buffers):
                total = part if total is None else job.visitor.merge(total, part)
        return job.visitor.finish(span, total)


@contextmanager
def on_threads(threads: int) -> Iterator[Map]:
    """``map`` on so many threads; the plain one where that is one."""
    if threads < 2:
        yield map
        return
    with ThreadPoolExecutor(threads) as pool:
        yield pool.map


def visit_spans(job: Job, *pieces: Any) -> Any:
    """Several spans as one task: (span, features, targets) of each, one after the other, merged in order."""
    total = None
    for place in range(0, len(pieces), 3):
        part = visit_span(job, *pieces[place : place + 3])
        total = part if place == 0 else job.visitor.merge(total, part)
    return total


def run_pass(
    rows: Rows,
    visitor: Visitor[T],
    settings: PassSettings,
    *,
    reading: Reading | None = None,
    snapshot: Posterior | None = None,
    spans: Iterable[Span] | None = None,
    on_bad_rows: OnBadRows | None = None,
    label: str = "pass",
) -> T:
    """Visit every row once (or those of the given spans) and return the merged result.

    ``on_bad_rows`` says what becomes of rows that cannot be computed with; None: there are none.

    The same store and the same ``rows_per_block`` give the same bits, on threads and on any cluster of the
    same kind of processor; another chunking gives the same result up to rounding.
    """
    chosen = list(rows.spans() if spans is None else spans)
    job = Job(visitor, reading, snapshot, settings.rows_per_block, on_bad_rows)
    if find_client(settings.client) is None:
        if snapshot is not None:
            _ = snapshot.prepared  # before there are threads that would each make it
        job = replace(job, threads=max(1, settings.tasks_in_flight // max(1, len(chosen))))
        if settings.read_ahead:
            job = replace(job, turns=Semaphore(settings.tasks_in_flight))
            settings = replace(settings, tasks_in_flight=settings.tasks_in_flight + settings.read_ahead)
    size = -(-len(chosen) // MOST_TASKS)  # follows from the spans alone, and so do the bits of the result
    groups = [chosen[begin : begin + size] for begin in range(0, len(chosen), size)] if chosen else []
    items = (tuple(piece for span in group for piece in (span, *rows.pieces(span))) for group in groups)
    lengths = [sum(span.rows for span in group) for group in groups]
    result: T = run_tasks(visit_spans, job, items, visitor.merge, settings, lengths=lengths, label=label)
    return result


def run_tasks(
    function: Callable[..., T],
    shared: Any,
    items: Iterable[tuple[Any, ...]],
    merge: Callable[[T, T], T],
    settings: PassSettings,
    *,
    lengths: list[int],
    label: str,
) -> T:
    """Call a function for every item, side by side, and merge the results in order; see :class:`Fold`.

    ``lengths``: how many rows each item stands for, as progress bars count them.
    """
    return_large_allocations()
    with Progress.of(settings.progress).passing(sum(lengths), label) as advance:
        steps = iter(lengths)
        fold = _folder(settings, -(-len(lengths) // MOST_MERGED), lambda: advance(next(steps)))
        return fold(function, shared, items, merge)


def _folder(settings: PassSettings, group: int, advance: Callable[[], object]) -> Fold:
    client = find_client(settings.client)
    if client is None:
        return Threads(settings.tasks_in_flight, advance, group=group)
    from streamgp.passes.workers import Cluster  # only here: importing distributed takes half a second

    return Cluster(client, settings.tasks_in_flight, advance, group)


def find_client(client: Any) -> Any:
    """The client to use: the one given, else the current one, unless we are inside a task; else None."""
    distributed = sys.modules.get("distributed")
    if client is not None:
        return check_client(client)
    needed = ("get_worker", "get_client")
    if distributed is None or not all(hasattr(distributed, name) for name in needed):
        return None  # not imported, or another thread is at it
    try:
        distributed.get_worker()
    except ValueError:
        pass  # not inside a task
    else:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


def check_client(client: Any) -> Any:
    """The client, or an error where it is none or has been closed."""
    if not all(hasattr(client, name) for name in ("submit", "cancel", "nthreads", "status")):
        raise ParameterError(
            f"client={client!r} is not a distributed.Client; give client=distributed.Client(address), or "
            f"None for threads of this process"
        )
    if client.status in ("closed", "closing"):
        raise ParameterError(
            f"client= is {client.status}: give one that is connected, or None for threads of this process"
        )
    return client


def available_threads() -> int:
    """Threads for local work: as limited, else Dask's ``num_workers``, else the cores we may use."""
    most = _MOST_THREADS.get()
    if most is not None:
        return most
    configured = dask.config.get("num_workers", None)
    if configured is not None:
        return int(configured)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def limited_threads(most: int) -> Iterator[None]:
    """Context in which :func:`available_threads` is ``most``; other threads of the process keep theirs."""
    token = _MOST_THREADS.set(most)
    try:
        yield
    finally:
        _MOST_THREADS.reset(token)
