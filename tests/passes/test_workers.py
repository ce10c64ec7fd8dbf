"""Passes on clusters that change: workers that join, all but one lost, schedulers that stay small."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest

from streamgp.data import open_rows
from streamgp.errors import ClusterWarning
from streamgp.passes import Block, PassSettings, Visitor, run, run_pass, workers

HERE: dict = {}
"""What tasks of workers that are threads of this process see: events, and the scheduler."""
LONGEST = 60.0


@contextmanager
def cluster_of(n_workers):
    from distributed import Client, LocalCluster

    local = {"threads_per_worker": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(n_workers=n_workers, **local) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield cluster, client


@dataclass(frozen=True)
class Seen(Visitor[tuple]):
    """Rows in order, who visited them, how many tasks the scheduler knew; at one row something happens."""

    happens_at: int = -1

    def visit(self, block: Block) -> tuple:
        from distributed import get_worker

        if block.start == self.happens_at:
            HERE["asked"].set()
            assert HERE["done"].wait(LONGEST)
        known = len(HERE["scheduler"].tasks)
        return (block.start,), frozenset([get_worker().address]), known

    def merge(self, earlier: tuple, later: tuple) -> tuple:
        return earlier[0] + later[0], earlier[1] | later[1], max(earlier[2], later[2])


@contextmanager
def meanwhile(cluster, work):
    """Do something once a task asks for it, and then let the task go on."""
    HERE.update(asked=threading.Event(), done=threading.Event(), scheduler=cluster.scheduler)

    def wait_and_work():
        if HERE["asked"].wait(LONGEST):
            work()
        HERE["done"].set()

    thread = threading.Thread(target=wait_and_work)
    thread.start()
    try:
        yield
    finally:
        HERE["asked"].set()
        thread.join()
        HERE.clear()


def test_workers_that_join_in_the_middle_of_a_pass_are_used(monkeypatch):
    monkeypatch.setattr(workers, "_SECONDS_BETWEEN_COUNTS", 0.0)
    rows = open_rows(np.zeros((300, 1)), y=None).cut(1)
    with cluster_of(1) as (cluster, client):

        def join():
            cluster.scale(3)
            client.wait_for_workers(3)

        with meanwhile(cluster, join):
            starts, who, _ = run_pass(rows, Seen(happens_at=5), PassSettings(1, 1, client))
    assert starts == tuple(range(300))
    assert len(who) == 3


def test_all_workers_but_one_may_be_lost():
    rows = open_rows(np.zeros((60, 1)), y=None).cut(1)
    with cluster_of(4) as (cluster, client):

        def lose():
            at_work = next(iter(client.processing().items()))[0]
            busy = {address for address, keys in client.processing().items() if keys} or {at_work}
            kept = next(iter(busy))
            for worker in list(cluster.workers.values()):
                if worker.address != kept:
                    cluster.sync(worker.close, executor_wait=False)

        with meanwhile(cluster, lose):
            starts, who, _ = run_pass(rows, Seen(happens_at=7), PassSettings(1, 1, client))
    assert starts == tuple(range(60))
    assert who


@pytest.mark.parametrize("spans", [40, 400])
def test_the_scheduler_knows_no_more_tasks_of_a_larger_store(spans):
    rows = open_rows(np.zeros((spans, 1)), y=None).cut(1)
    with cluster_of(2) as (cluster, client), meanwhile(cluster, lambda: None):
        starts, _, known = run_pass(rows, Seen(), PassSettings(1, 1, client))
    assert starts == tuple(range(spans))
    # Two for each worker and the shared job; a few more whose results are on their way; those of one group.
    assert known <= 12 + 2 * run.MOST_TASKS // run.MOST_MERGED < 400


@dataclass(frozen=True)
class WhereMerged(Visitor[tuple]):
    """The sum of numbers of very different sizes, the rows in order, and how many merges were done here."""

    home: int

    def visit(self, block: Block) -> tuple:
        return float(np.sum(block.features)), (block.start,), 0

    def merge(self, earlier: tuple, later: tuple) -> tuple:
        here = int(threading.get_ident() == self.home)
        return earlier[0] + later[0], earlier[1] + later[1], earlier[2] + later[2] + here


@pytest.mark.parametrize(("spans", "most"), [(7, 64), (50, 5), (53, 5), (64, 1)])
def test_results_are_merged_in_a_fixed_tree_and_few_of_them_by_the_client(
    generator, monkeypatch, spans, most
):
    monkeypatch.setattr(run, "MOST_MERGED", most)
    X = np.exp(20 * generator.standard_normal((spans, 1)))
    rows, visitor = open_rows(X, y=None).cut(1), WhereMerged(threading.get_ident())
    here, starts, _ = run_pass(rows, visitor, PassSettings(1, 3))
    assert starts == tuple(range(spans))
    size = -(-spans // most)
    total = 0.0
    for begin in range(0, spans, size):
        group = 0.0
        for value in X[begin : begin + size, 0]:
            group += value
        total += group
    assert here == total
    for n_workers in (1, 3):
        with cluster_of(n_workers) as (_, client):
            there, starts, merged_here = run_pass(rows, visitor, PassSettings(1, 1, client))
        assert there == here
        assert starts == tuple(range(spans))
        assert merged_here == -(-spans // size) - 1


def test_the_tree_of_merges_is_the_same_while_a_cluster_has_lost_its_workers(generator, monkeypatch):
    monkeypatch.setattr(run, "MOST_MERGED", 4)
    rows = open_rows(np.exp(20 * generator.standard_normal((19, 1))), y=None).cut(1)
    visitor = WhereMerged(threading.get_ident())
    here = run_pass(rows, visitor, PassSettings(1, 3))
    monkeypatch.setattr(workers.Cluster, "_window", lambda cluster: 1)  # as it is without any worker
    with cluster_of(1) as (_, client):
        there = run_pass(rows, visitor, PassSettings(1, 1, client))
    assert there[:2] == here[:2]
    assert there[2] == 3


@dataclass(frozen=True)
class Fails(Visitor[int]):
    """At one row; or in the merge with it."""

    at: int
    merging: bool

    def visit(self, block: Block) -> int:
        if block.start == self.at and not self.merging:
            raise ArithmeticError("no number")
        return block.start

    def merge(self, earlier: int, later: int) -> int:
        if later == self.at and self.merging:
            raise ArithmeticError("no number")
        return later


@pytest.mark.parametrize("merging", [False, True])
def test_errors_of_tasks_and_of_merges_on_workers_reach_the_caller(monkeypatch, merging):
    monkeypatch.setattr(run, "MOST_MERGED", 2)
    rows = open_rows(np.zeros((40, 1)), y=None).cut(1)
    with cluster_of(2) as (_, client), pytest.raises(ArithmeticError, match="no number"):
        run_pass(rows, Fails(13, merging), PassSettings(1, 1, client))


@dataclass(frozen=True)
class Counted(Visitor[int]):
    """How many rows there are."""

    def visit(self, block: Block) -> int:
        return block.rows

    def merge(self, earlier: int, later: int) -> int:
        return earlier + later


def test_a_warning_that_is_an_error_ends_a_pass_without_workers(monkeypatch):
    monkeypatch.setattr(workers, "_SECONDS_OF_PATIENCE", 0.1)
    rows, told = open_rows(np.zeros((9, 1)), y=None).cut(1), []

    def run_it(client):
        try:
            run_pass(rows, Counted(), PassSettings(1, 1, client))
        except ClusterWarning as warning:
            told.append(str(warning))

    with cluster_of(0) as (_, client):
        thread = threading.Thread(target=run_it, args=[client], daemon=True)
        thread.start()
        thread.join(LONGEST)
    assert len(told) == 1
    assert "has no workers" in told[0]


def test_rows_in_memory_travel_without_a_warning():
    rows = open_rows(np.zeros((2_000, 1000)), y=None).cut(2_000)
    with cluster_of(1) as (_, client):
        assert run_pass(rows, Counted(), PassSettings(2_000, 1, client)) == 2_000


def test_a_pass_asks_for_the_workers_once_however_many_tasks_it_has(monkeypatch):
    monkeypatch.setattr(workers, "_SECONDS_BETWEEN_COUNTS", np.inf)
    rows, asked = open_rows(np.zeros((70, 1)), y=None).cut(1), []
    with cluster_of(2) as (_, client):
        nthreads = client.nthreads
        monkeypatch.setattr(client, "nthreads", lambda: asked.append(1) or nthreads())
        assert run_pass(rows, Counted(), PassSettings(1, 1, client)) == 70
    assert len(asked) == 1


def test_merges_come_before_tasks_that_add_to_what_is_to_be_merged(monkeypatch):
    monkeypatch.setattr(run, "MOST_MERGED", 1)
    rows, asked = open_rows(np.zeros((8, 1)), y=None).cut(1), []
    with cluster_of(1) as (_, client):
        submit = client.submit

        def recorded(function, *arguments, **how):
            asked.append((function.__name__, how["priority"]))
            return submit(function, *arguments, **how)

        monkeypatch.setattr(client, "submit", recorded)
        assert run_pass(rows, Counted(), PassSettings(1, 1, client)) == 8
    merges = [priority for name, priority in asked if name == "_merge"]
    assert len(merges) == 7
    assert min(merges) > max(priority for name, priority in asked if name == "_call")
