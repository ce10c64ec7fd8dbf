from __future__ import annotations

import pickle
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import ModuleType

import dask
import dask.array as da
import numpy as np
import pytest
import threadpoolctl
from hypothesis import given
from hypothesis import strategies as st

from streamgp.data import Standardizer, open_rows
from streamgp.errors import ChunkReadError
from streamgp.inference import Sites, head_from_sites
from streamgp.kernels import RBF
from streamgp.passes import Block, CollectMarginals, PassSettings, Reading, Visitor, run, run_pass
from streamgp.passes.blas import single_threaded_blas
from streamgp.passes.candidates import PickRows
from streamgp.passes.marginals import concatenate
from streamgp.posterior import Marginals, Snapshot
from streamgp.selection import RowKeys
from tests.reference import gp_dense


@dataclass(frozen=True)
class Transcript(Visitor[tuple]):
    """Remembers blocks and the order of merges: a merge out of order would show."""

    def visit(self, block: Block) -> tuple:
        return ((block.start, block.rows, float(block.features[0, 0])),)

    def merge(self, earlier: tuple, later: tuple) -> tuple:
        assert earlier[-1][0] + earlier[-1][1] == later[0][0]
        return earlier + later


@dataclass(frozen=True)
class BlasThreads(Visitor[set]):
    """Collects the number of BLAS threads seen from inside tasks."""

    def visit(self, block: Block) -> set:
        pools = threadpoolctl.threadpool_info()
        return {pool["num_threads"] for pool in pools if pool["user_api"] == "blas"}

    def merge(self, earlier: set, later: set) -> set:
        return earlier | later


def make_snapshot(generator, active=24, features=3, heads=2, dtype=np.float32):
    kernel = RBF(2.0, 1.3)
    inputs = generator.standard_normal((active, features))
    gram = kernel.gram(inputs)
    sites = [
        Sites(generator.uniform(0.5, 2, active), generator.standard_normal(active)) for _ in range(heads)
    ]
    return (
        Snapshot(kernel, inputs, tuple(head_from_sites(gram.copy(), site) for site in sites)).astype(dtype),
        inputs,
        sites,
    )


def reading(features, dtype=np.float32):
    return Reading(Standardizer(np.zeros(features), np.ones(features)), None, np.dtype(dtype))


@given(
    n_rows=st.integers(1, 400),
    chunk_rows=st.integers(1, 150),
    span_rows=st.integers(1, 300),
    rows_per_block=st.integers(1, 200),
    workers=st.integers(1, 4),
)
def test_every_row_is_visited_once_in_order(n_rows, chunk_rows, span_rows, rows_per_block, workers):
    X = np.arange(n_rows, dtype=np.float64)[:, None]
    lazy = da.from_array(X, chunks=(chunk_rows, 1))
    for store in (X, lazy):
        rows = open_rows(store, y=None).cut(span_rows)
        transcript = run_pass(rows, Transcript(), PassSettings(rows_per_block, workers))
        assert transcript[0][0] == 0
        assert sum(entry[1] for entry in transcript) == n_rows
        assert all(start == first for start, _, first in transcript)
        assert max(entry[1] for entry in transcript) <= rows_per_block


def test_more_spans_than_a_window_keep_their_order():
    rows = open_rows(np.arange(1000.0)[:, None], y=None).cut(3)
    assert len(run_pass(rows, Transcript(), PassSettings(2, 3))) == 667


@dataclass(frozen=True)
class Sums(Visitor[float]):
    """Adds numbers of very different sizes: another order of additions would show in the bits."""

    def visit(self, block: Block) -> float:
        return float(np.sum(block.features, dtype=np.float64))

    def merge(self, earlier: float, later: float) -> float:
        return earlier + later


@given(n_rows=st.integers(1, 300), span_rows=st.integers(1, 20), most=st.integers(1, 12))
def test_however_many_spans_there_are_tasks_are_few_and_keep_the_order(n_rows, span_rows, most):
    X = np.arange(n_rows, dtype=np.float64)[:, None]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "MOST_TASKS", most)
        tasks = []
        patch.setattr(run, "visit_spans", lambda *given, do=run.visit_spans: tasks.append(1) or do(*given))
        for store in (X, da.from_array(X, chunks=(7, 1))):
            rows = open_rows(store, y=None).cut(span_rows)
            transcript = run_pass(rows, Transcript(), PassSettings(5, 2))
            assert sum(entry[1] for entry in transcript) == n_rows
            assert len(tasks) <= most
            tasks.clear()


AT_WORK = {"now": 0, "most": 0, "lock": threading.Lock()}


@dataclass(frozen=True)
class Crowd(Transcript):
    """Counts how many blocks are visited at the same time."""

    def visit(self, block: Block) -> tuple:
        with AT_WORK["lock"]:
            AT_WORK["now"] += 1
            AT_WORK["most"] = max(AT_WORK["most"], AT_WORK["now"])
        time.sleep(0.001)
        with AT_WORK["lock"]:
            AT_WORK["now"] -= 1
        return super().visit(block)


MEETING: dict[str, threading.Barrier] = {}


@dataclass(frozen=True)
class Meeting(Transcript):
    """Goes on only when four blocks are being visited at the same time."""

    def visit(self, block: Block) -> tuple:
        MEETING["barrier"].wait(timeout=60)
        return super().visit(block)


@dataclass(frozen=True)
class Fails(Transcript):
    """Cannot visit one of the blocks."""

    def visit(self, block: Block) -> tuple:
        return super().visit(block) if block.start != 15 else (1 // 0,)


@pytest.mark.parametrize("ahead", [0, 1, 6])
def test_those_who_read_ahead_do_not_compute(ahead):
    AT_WORK["most"] = 0
    rows = open_rows(np.arange(200.0)[:, None], y=None).cut(2)
    transcript = run_pass(rows, Crowd(), PassSettings(1, 2, read_ahead=ahead))
    assert [entry[0] for entry in transcript] == list(range(200))
    assert AT_WORK["most"] <= 2


@pytest.mark.parametrize("spans", [1, 2])
def test_fewer_spans_than_threads_are_visited_by_several_each(spans):
    MEETING["barrier"] = threading.Barrier(4)
    rows = open_rows(np.arange(40.0)[:, None], y=None).cut(40 // spans)
    transcript = run_pass(rows, Meeting(), PassSettings(5, 4))
    assert [entry[0] for entry in transcript] == list(range(0, 40, 5))


def test_a_span_has_the_same_bits_by_any_number_of_threads(generator):
    rows = open_rows(np.exp(10.0 * generator.standard_normal((997, 2))), y=None).cut(997)
    assert len({run_pass(rows, Sums(), PassSettings(10, threads)) for threads in (1, 2, 3, 7)}) == 1


def test_an_error_in_one_of_the_blocks_of_a_span_is_raised():
    rows = open_rows(np.arange(40.0)[:, None], y=None).cut(40)
    with pytest.raises(ZeroDivisionError):
        run_pass(rows, Fails(), PassSettings(5, 4))


def test_what_tasks_merge_has_the_same_bits_everywhere(generator, make_store, cluster_client, monkeypatch):
    monkeypatch.setattr(run, "MOST_TASKS", 8)
    X = np.exp(10.0 * generator.standard_normal((2000, 2)))
    rows = open_rows(make_store(X, np.zeros(len(X)), chunk_rows=50), y=None).cut(50)
    spans = list(rows.spans())
    groups = [spans[begin : begin + 5] for begin in range(0, 40, 5)]
    by_group = [sum(float(np.sum(X[span.start : span.stop])) for span in group) for group in groups]
    for workers, client in ((1, None), (5, None), (1, cluster_client), (3, cluster_client)):
        assert run_pass(rows, Sums(), PassSettings(50, workers, client)) == sum(by_group)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_marginals_agree_with_the_textbook_for_any_chunking(generator, make_store, dtype):
    snapshot, inputs, sites = make_snapshot(generator, dtype=dtype)
    X = generator.standard_normal((333, 3)).astype(np.float32)
    cross = gp_dense.rbf(X.astype(float), inputs, 2.0, 1.3)
    gram = gp_dense.rbf(inputs, inputs, 2.0, 1.3)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    for chunk_rows, rows_per_block in ((333, 400), (100, 64), (1, 7), (50, 50)):
        store = make_store(X, np.zeros(len(X)), chunk_rows=chunk_rows)
        rows = open_rows(store, y=None).cut(90)
        settings = PassSettings(rows_per_block, 2)
        marginals = concatenate(
            run_pass(rows, CollectMarginals(), settings, reading=reading(3, dtype), snapshot=snapshot)
        )
        for head, site in enumerate(sites):
            mean, variance = gp_dense.posterior_marginals(gram, cross, np.full(333, 2.0), *site)
            np.testing.assert_allclose(marginals.mean[:, head], mean, atol=10 * tolerance)
            np.testing.assert_allclose(marginals.variance[:, head], variance, atol=tolerance)


def test_means_alone_are_the_same_means(generator):
    snapshot, _, _ = make_snapshot(generator, dtype=np.float64)
    X = generator.standard_normal((50, 3))
    full, means = snapshot.marginals(X), snapshot.marginals(X, with_variance=False)
    assert means.variance is None
    np.testing.assert_allclose(means.mean, full.mean, atol=1e-12)


def test_threads_and_clusters_give_the_same_bits(generator, make_store, cluster_client):
    snapshot, _, _ = make_snapshot(generator, active=200)
    X = generator.standard_normal((5000, 3)).astype(np.float32)
    rows = open_rows(make_store(X, np.zeros(len(X)), chunk_rows=300), y=None).cut(300)

    def marginals(workers, client):
        settings = PassSettings(128, workers, client)
        return concatenate(
            run_pass(rows, CollectMarginals(), settings, reading=reading(3), snapshot=snapshot)
        )

    expected = marginals(1, None)
    for workers, client in ((2, None), (7, None), (1, cluster_client), (3, cluster_client)):
        for one, other in zip(expected, marginals(workers, client), strict=True):
            np.testing.assert_array_equal(one, other)


def test_dask_and_memory_arrays_run_on_both(generator, client):
    X = generator.standard_normal((500, 3))
    for store in (X, da.from_array(X, chunks=(120, 3))):
        rows = open_rows(store, y=None).cut(120)
        assert len(run_pass(rows, Transcript(), PassSettings(50, 2, client))) == 13


def test_an_unreadable_chunk_stops_the_pass_and_is_named(make_store, client):
    path = make_store(np.ones((500, 2)), np.ones(500))
    (path / "X" / "c" / "3" / "0").write_bytes(b"garbage")
    rows = open_rows(path)
    with pytest.raises(ChunkReadError, match="'X': chunk 3"):
        run_pass(rows, Transcript(), PassSettings(100, 2, client))


def test_blas_has_one_thread_in_tasks_and_its_old_limit_after(client):
    before = threadpoolctl.threadpool_info()
    rows = open_rows(np.ones((20, 1)), y=None).cut(2)
    assert run_pass(rows, BlasThreads(), PassSettings(2, 2, client)) == {1}
    assert threadpoolctl.threadpool_info() == before


def test_the_blas_limit_lasts_until_the_last_user_left():
    def threads():
        return {p["num_threads"] for p in threadpoolctl.threadpool_info() if p["user_api"] == "blas"}

    before = threads()
    first, second = single_threaded_blas(), single_threaded_blas()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert threads() == {1}
    second.__exit__(None, None, None)
    assert threads() == before


def test_configured_number_of_workers_is_honoured():
    from streamgp.passes.run import available_threads

    with dask.config.set(num_workers=7):
        assert available_threads() == 7
    assert available_threads() >= 1


def test_current_client_is_used_unless_inside_a_task(cluster_client):
    from streamgp.passes.run import find_client

    assert find_client(None) is None
    assert find_client(cluster_client) is cluster_client
    with cluster_client.as_current():
        assert find_client(None) is cluster_client
    assert cluster_client.submit(lambda: find_client(None) is None).result()


def test_snapshots_pickle(generator):
    snapshot, _, _ = make_snapshot(generator)
    X = generator.standard_normal((5, 3)).astype(np.float32)
    copy = pickle.loads(pickle.dumps(snapshot))
    np.testing.assert_array_equal(copy.marginals(X).mean, snapshot.marginals(X).mean)


def test_any_thread_can_limit_blas_whoever_did_so_before():
    def blas_threads():
        return [one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"]

    def inside():
        with single_threaded_blas():
            return blas_threads()

    before = blas_threads()
    for _ in range(2):
        assert set(inside()) == {1}  # in this thread, then in another one, which ends
        with ThreadPoolExecutor(1) as pool:
            assert set(pool.submit(inside).result()) == {1}
    assert blas_threads() == before


def test_while_another_thread_imports_distributed_there_is_no_client(monkeypatch):
    """Modules are in the table of modules before they have their names."""
    monkeypatch.setitem(sys.modules, "distributed", ModuleType("distributed"))
    assert run.find_client(None) is None


@pytest.mark.parametrize("excluded", [[], [3, 70, 199]])
def test_score_bounds_change_nothing_but_what_is_held(generator, excluded):
    X, scores = generator.standard_normal((200, 2)), generator.standard_normal((200, 2))
    y = generator.integers(0, 2, 200).astype(float)

    def picked(bounds):
        visitor = PickRows(
            RowKeys(1),
            np.array([5, 9]),
            np.array([0.2, 0.4]),
            excluded=np.array(excluded, np.int64),
            always=np.array([3, 4]),
            scores=lambda rows, targets, marginals: scores[rows],
            per_head=20,
            score_bounds=bounds,
        )
        none = Marginals(scores, scores)
        parts = [
            visitor.visit(Block(i, X[i : i + 50], X[i : i + 50], y[i : i + 50], none))
            for i in range(0, 200, 50)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = visitor.merge(total, part)
        return visitor.pooled(total)

    surely = np.sort(np.delete(scores, excluded, axis=0), axis=0)[-25]
    for one, other in zip(picked(None), picked(surely), strict=True):
        np.testing.assert_array_equal(one, other)
