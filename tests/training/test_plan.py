from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgp import StreamGPClassifier
from streamgp.budget import format_size, parse_size
from streamgp.data import open_rows
from streamgp.errors import BudgetError, ParameterError
from streamgp.inference.criterion import workspace_bytes
from streamgp.kernels import RBF
from streamgp.likelihoods import Logit, Probit
from streamgp.settings import fit_settings
from streamgp.training.fit import begin
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
    assert 0 <= plan.read_ahead <= plan.tasks_in_flight
    assert plan.total_bytes + plan.spare_bytes <= budget
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


def test_likelihoods_are_counted_as_they_are_and_at_their_powers():
    wish = replace(demand(n_active=50, n_rows=100_000), n_at_once=1)
    budget = parse_size("64MiB")
    plain = make_plan(wish, budget, 2)
    for costly in (replace(wish, likelihood=Logit()), replace(wish, likelihood=Probit(), powers=(1.0, 0.1))):
        own = costly.likelihood_bytes(plain.rows_per_block)
        assert own >= costly.likelihood.workspace_bytes(plain.rows_per_block, power=min(costly.powers))
        plan = make_plan(costly, budget, 2)
        block = plan.task_bytes - 2 * plan.span_rows * costly.rows.row_bytes()
        assert block > costly.likelihood_bytes(plan.rows_per_block)


def test_learning_by_the_criterion_is_counted():
    wish = replace(demand(n_active=250), criterion_rows=2500, criterion_active=250)
    own = workspace_bytes(wish.kernel, 2500, 250, 5, workers=1)
    with pytest.raises(BudgetError):
        make_plan(wish, own, 2)
    plan = make_plan(wish, parse_size("64MiB"), 8)
    assert plan.total_bytes <= plan.budget
    assert 1 <= plan.criterion_workers <= 8
    assert make_plan(wish, parse_size("1GiB"), 8).criterion_workers == 8


def test_weights_and_rows_held_out_by_number_are_counted():
    without, with_rows = (
        make_plan(replace(demand(), row_bytes=size), parse_size("64MiB"), 2) for size in (0, 8 * 2**20)
    )
    assert with_rows.candidate_share == without.candidate_share - 4 * 2**20
    assert "rows held out by number" in str(with_rows)


def test_of_rows_named_for_validation_memory_holds_a_part(make_store):
    generator = np.random.default_rng(0)
    X = generator.standard_normal((20_000, 8))
    named = np.arange(0, 20_000, 2)
    settings = fit_settings(
        StreamGPClassifier(
            20, memory_budget="8MiB", validation=named, learn_hyperparameters=False, selection="ivm"
        ).get_params(),
        seed=0,
    )
    rows = open_rows(make_store(X, (X[:, 0] > 0).astype(int), chunk_rows=1000))
    problem, _, _ = begin(rows, "classification", settings)
    assert 0 < len(problem.held_out.rows) < len(named)
    assert np.isin(problem.held_out.rows, named).all()
    assert not np.isin(problem.sample.rows, named).any()
    np.testing.assert_array_equal(problem.excluded, named)


def test_fewer_heads_take_part_in_a_sweep_where_only_that_fits():
    wish = replace(demand(n_active=400, n_rows=60_000, n_heads=10), shared=True, n_at_once=10)
    groups = []
    for budget in ("400MiB", "90MiB"):
        plan = make_plan(wish, parse_size(budget), 2)
        assert plan.total_bytes <= plan.budget
        assert [head for group in plan.head_groups() for head in group] == list(range(10))
        groups.append(len(plan.head_groups()))
    assert groups[0] == 1 < groups[1]


def test_fewer_heads_take_part_in_a_sweep_where_two_tasks_fit_side_by_side_then():
    """The shape of MNIST: with all ten heads there was room for one task only, and for fewer candidates."""
    wish = replace(demand(n_active=1000, n_rows=60_000, n_features=784, n_heads=10), shared=True)
    plan = make_plan(replace(wish, itemsize=8, n_at_once=10), parse_size("1GiB"), 2)
    assert plan.tasks_in_flight == 2
    assert len(plan.head_groups()) == 2
    alone = make_plan(replace(wish, itemsize=8, n_at_once=10), parse_size("1GiB"), 1)
    assert alone.head_groups() == plan.head_groups()


@pytest.mark.parametrize("spread", [False, True])
def test_bytes_of_joint_classes_are_linear_in_their_number(spread):
    wish = replace(demand(n_active=80), shared=True, joint_spread=spread)
    few, some, many = (
        make_plan(replace(wish, joint_classes=classes, n_at_once=classes), parse_size("8GiB"), 2)
        for classes in (100, 200, 400)
    )
    for held in ("pass_model_bytes", "task_bytes"):
        first, second, third = (getattr(plan, held) for plan in (few, some, many))
        assert third - second == pytest.approx(2 * (second - first), rel=0.01)


def test_joint_classes_take_turns_where_their_matrices_do_not_fit():
    wish = replace(demand(n_active=300, n_rows=60_000), shared=True, joint_spread=True)
    wish = replace(wish, joint_classes=26, n_at_once=26)
    groups = []
    for budget in ("80MiB", "128MiB", "1GiB"):
        plan = make_plan(wish, parse_size(budget), 2)
        assert plan.total_bytes <= parse_size(budget)
        assert [c for group in plan.head_groups() for c in group] == list(range(26))
        # Marginals wait beside the sites of a row where classes take turns.
        assert plan.site_columns == (2 if len(plan.head_groups()) == 1 else 4)
        groups.append(len(plan.head_groups()))
    assert groups[0] > groups[1] >= groups[2] == 1
    assert "heads at once" in str(make_plan(wish, parse_size("80MiB"), 2))
