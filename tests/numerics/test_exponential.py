from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgp.numerics.compilation import compiled
from streamgp.numerics.exponential import fast_exp


@compiled
def fast_sweep(x, out):
    for i in range(x.size):
        out[i] = fast_exp(x[i])


@compiled
def plain_sweep(x, out):
    for i in range(x.size):
        out[i] = math.exp(x[i])


CASES = [(np.float32, 87.3, 1.5e-7), (np.float64, 708.0, 4e-16)]


@pytest.mark.parametrize(("dtype", "span", "tolerance"), CASES)
def test_relative_error_over_the_whole_range(dtype, span, tolerance):
    near_zero = -np.logspace(-30, np.log10(span), 3000)
    x = np.concatenate([-np.linspace(0.0, span, 3000), near_zero, np.linspace(0, 80, 500)]).astype(dtype)
    found = np.empty_like(x)
    fast_sweep(x, found)
    expected = np.exp(x.astype(np.longdouble))
    assert found.dtype == dtype
    assert np.max(np.abs(found - expected) / expected) < tolerance


@pytest.mark.parametrize(("dtype", "span", "tolerance"), CASES)
def test_equals_its_plain_twin(dtype, span, tolerance):
    x = (-span * np.random.default_rng(0).random(2000)).astype(dtype)
    found, expected = np.empty_like(x), np.empty_like(x)
    fast_sweep(x, found)
    plain_sweep(x, expected)
    np.testing.assert_allclose(found, expected, rtol=2 * tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edges(dtype):
    x = np.array([0.0, -0.0, -np.inf, np.nan, -1e30, -1000.0, -np.finfo(dtype).tiny], dtype)
    found = np.empty_like(x)
    with np.errstate(all="ignore"):  # without compilation, NumPy's scalars warn
        fast_sweep(x, found)
    np.testing.assert_array_equal(found, np.array([1, 1, 0, np.nan, 0, 0, 1], dtype))


@pytest.mark.parametrize(("dtype", "limit"), [(np.float32, -87.33), (np.float64, -708.39)])
def test_below_the_limit_is_zero_and_above_it_normal(dtype, limit):
    x = np.array([limit * (1 + 1e-3), limit * (1 - 1e-3)], dtype)
    found = np.empty_like(x)
    fast_sweep(x, found)
    assert found[0] == 0.0
    assert found[1] >= np.finfo(dtype).tiny


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-700.0, 0.0), min_size=2, max_size=40))
def test_monotone_within_rounding(values):
    x = np.sort(np.array(values))
    found = np.empty_like(x)
    fast_sweep(x, found)
    assert np.all(found[1:] >= found[:-1] * (1 - 1e-15))
