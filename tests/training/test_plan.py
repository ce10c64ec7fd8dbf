from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgp.budget import format_size, parse_size
from streamgp.data import open_rows
from streamgp.errors import BudgetError, ParameterError
from streamgp.kernels import RBF
from streamgp.training.plan import Demand, make_plan


def demand(n_active=100, n_rows=10_000, n_features=5, n_heads=1):
    rows = open_rows(np.zeros((n_rows, n_features), np.float32), y=None)
    return Demand(rows, RBF(), n_active, n_heads, 4)


@given(
    n_active=st.integers(1, 3000),
    n_features=st.integers(1, 800),
    budget=st.integers(2**18, 2**34),
    threads=st.integers(1, 64),
)
def test_the_plan_stays_inside_the_budget_and_only_tasks_depend_on_threads(
    n_active, n_features, budget, threads
):
    wish = demand(n_active, 20_000, n_features)
    try:
        plan = make_plan(wish, budget, threads)
    except BudgetError:
        return
    assert plan.total_bytes <= budget
    assert 1 <= plan.tasks_in_flight <= threads
    alone = make_plan(wish, budget, 1)
    assert (alone.rows_per_block, alone.span_rows, alone.n_candidates) == (
        plan.rows_per_block,
        plan.span_rows,
        plan.n_candidates,
    )


def test_the_error_names_what_would_fit():
    with pytest.raises(BudgetError, match=r"largest active set that fits is n_active=(\d+)") as caught:
        make_plan(demand(n_active=5000), parse_size("50MB"), 2)
    largest = int(str(caught.value).split("n_active=")[1].split(";")[0])
    needed = str(caught.value).split("memory_budget='")[1].split("'")[0]
    make_plan(demand(n_active=largest), parse_size("50MB"), 2)
    make_plan(demand(n_active=5000), parse_size(needed), 2)
    with pytest.raises(BudgetError):
        make_plan(demand(n_active=largest + 1), parse_size("50MB"), 2)


@given(
    n_active=st.integers(1, 2000),
    n_heads=st.integers(1, 12),
    budget=st.integers(2**20, 2**32),
    shared=st.booleans(),
)
def test_what_could_be_fitted_can_be_used(n_active, n_heads, budget, shared):
    wish = replace(demand(n_active, n_heads=n_heads), shared=shared)
    try:
        make_plan(wish, budget, 2)
    except BudgetError:
        return
    plan = make_plan(replace(wish, fitted=True), budget, 2)
    assert plan.n_candidates == 0
    assert plan.total_bytes <= budget


def test_a_model_that_does_not_fit_names_the_budget():
    wish = replace(demand(n_active=5000), fitted=True)
    with pytest.raises(BudgetError, match="the model does not fit beside one task") as caught:
        make_plan(wish, parse_size("50MB"), 2)
    make_plan(wish, parse_size(str(caught.value).split("memory_budget='")[1].split("'")[0]), 2)


def test_a_chunk_that_does_not_fit_is_named(make_store):
    rows = open_rows(make_store(np.zeros((50_000, 20)), np.zeros(50_000), chunk_rows=50_000))
    with pytest.raises(BudgetError, match=r"storage chunk of 7\.6 MiB"):
        make_plan(Demand(rows, RBF(), 10, 1, 4), parse_size("10MB"), 1)


def test_spans_are_whole_chunks(make_store):
    rows = open_rows(make_store(np.zeros((5000, 4)), np.zeros(5000), chunk_rows=333))
    assert make_plan(Demand(rows, RBF(), 10, 1, 4), 2**26, 1).span_rows % 333 == 0


def test_the_plan_reads_as_a_table():
    text = str(make_plan(demand(), parse_size("64MiB"), 2))
    assert "100 rows" in text
    assert "2 in flight" in text
    assert "64.0 MiB" in text


@pytest.mark.parametrize(
    ("text", "size"), [("1GiB", 2**30), ("512MB", 512_000_000), ("10 kB", 10_000), (12345, 12345), ("7", 7)]
)
def test_sizes_are_read(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("nonsense", ["much", "1 GiBit", "-1GB", None, True, [1]])
def test_what_is_not_a_size_is_refused(nonsense):
    with pytest.raises(ParameterError, match="size"):
        parse_size(nonsense)


@pytest.mark.parametrize("nothing", [0, -5, "0MB", float("nan"), float("inf")])
def test_a_budget_must_be_positive(nothing):
    with pytest.raises(BudgetError, match="positive"):
        parse_size(nothing)


def test_sizes_are_written():
    assert [format_size(size) for size in (1, 2048, 5 * 2**30, 3 * 2**40)] == [
        "1 B",
        "2.0 KiB",
        "5.0 GiB",
        "3.0 TiB",
    ]
