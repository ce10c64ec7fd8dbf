from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgp.data import open_rows
from streamgp.errors import NonFiniteDataError
from streamgp.passes import PassSettings, Summarize, run_pass


def summarize(X, y, span_rows=64, rows_per_block=50, count_labels=True, client=None):
    rows = open_rows((X, y)).cut(span_rows)
    return run_pass(rows, Summarize(count_labels), PassSettings(rows_per_block, 2, client))


@given(
    n_rows=st.integers(1, 300),
    span_rows=st.integers(1, 200),
    rows_per_block=st.integers(1, 100),
    offset=st.sampled_from([0.0, -5.0, 1e8]),
    dtype=st.sampled_from([np.float64, np.int32, np.uint8, np.bool_]),
)
def test_summary_is_that_of_all_rows_at_once(n_rows, span_rows, rows_per_block, offset, dtype):
    generator = np.random.default_rng(n_rows)
    X = generator.normal(0, 3, (n_rows, 4))
    X = X + offset if dtype == np.float64 else X.astype(dtype)
    y = generator.integers(0, 5, n_rows)
    summary = summarize(X, y, span_rows, rows_per_block)
    assert summary.n_rows == n_rows
    np.testing.assert_allclose(summary.features.mean, X.mean(axis=0, dtype=float), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        summary.features.variance, X.var(axis=0, dtype=float), rtol=1e-6, atol=1e-13 * (1 + offset**2)
    )
    np.testing.assert_array_equal(summary.lowest, X.min(axis=0))
    np.testing.assert_array_equal(summary.highest, X.max(axis=0))
    labels, counts = np.unique(y, return_counts=True)
    assert summary.labels == dict(zip(labels.tolist(), counts.tolist(), strict=True))


def test_constant_columns_are_found():
    X = np.column_stack([np.arange(100), np.full(100, 7)])
    assert summarize(X, np.arange(100)).constant_columns.tolist() == [1]


def test_the_first_bad_value_is_named_with_row_and_column(client):
    X = np.zeros((200, 3))
    X[150, 2], X[70, 1] = np.nan, np.inf
    summary = summarize(X, np.arange(200.0), client=client)
    with pytest.raises(NonFiniteDataError, match="found inf at row 70, column 1"):
        summary.check_finite()


def test_a_bad_target_is_named():
    y = np.zeros(200)
    y[33] = np.nan
    with pytest.raises(NonFiniteDataError, match="found nan at row 33, the target"):
        summarize(np.zeros((200, 3)), y, count_labels=False).check_finite()


def test_counted_labels_stay_bounded():
    y = np.arange(5000)
    assert len(summarize(np.zeros((5000, 1)), y, rows_per_block=1700, span_rows=1700).labels) == 1001


def test_string_labels_are_counted(make_store):
    y = np.array(["no", "yes", "perhaps"] * 50)
    rows = open_rows(make_store(np.zeros((150, 1)), y))
    summary = run_pass(rows, Summarize(True), PassSettings(40, 2))
    assert summary.labels == {"no": 50, "yes": 50, "perhaps": 50}
