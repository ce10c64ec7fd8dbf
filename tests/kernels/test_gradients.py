"""Every gradient: against differences of the dense oracle, for atoms, sums and products."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgp.kernels import RBF, Laplacian, Linear, Matern12, Matern32, Matern52, White
from tests.kernels.test_blocks import KERNELS, rows
from tests.reference import kernels_dense as dense


def agree(found, expected, tolerance):
    assert found.shape == expected.shape
    assert np.abs(found - expected).max(initial=0.0) <= tolerance * max(
        1.0, np.abs(expected).max(initial=0.0)
    )


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_parameter_gradient(kernel):
    left, right, weights = rows((30, 3)), rows((4, 3), 1), rows((30, 4), 2)
    expected = dense.parameter_gradient(kernel, left, right, weights)
    agree(kernel.parameter_gradient(left, right, weights), expected, 1e-10)
    single = kernel.parameter_gradient(left.astype(np.float32), right.astype(np.float32), weights)
    assert single.dtype == np.float64
    agree(single, expected, 1e-5)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_input_gradient(kernel):
    left, right, weights = rows((30, 3)), rows((4, 3), 1), rows((30, 4), 2)
    expected = dense.input_gradient(kernel, left, right, weights)
    agree(kernel.input_gradient(left, right, weights), expected, 1e-10)
    agree(kernel.input_gradient(left.astype(np.float32), right.astype(np.float32), weights), expected, 1e-5)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gradients_add_up_over_tiles(kernel):
    left, right, weights = rows((1100, 3)), rows((5, 3), 1), rows((1100, 5), 2)
    halves = [slice(0, 450), slice(450, 1100)]
    parts = [kernel.parameter_gradient(left[half], right, weights[half]) for half in halves]
    agree(kernel.parameter_gradient(left, right, weights), np.sum(parts, axis=0), 1e-11)
    inputs = [kernel.input_gradient(left[half], right, weights[half]) for half in halves]
    agree(kernel.input_gradient(left, right, weights), np.sum(inputs, axis=0), 1e-11)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("of", ["diagonal", "smooth_diagonal", "nugget"])
def test_diagonal_and_nugget_gradients(kernel, of):
    x, weights, start = rows((12, 3)), rows(12, 1), kernel.log_parameters
    expected = [
        dense.derivative(
            lambda t, e=e: weights @ getattr(kernel.with_log_parameters(start + t * e), of)(x), 1e-3
        )
        for e in np.eye(len(start))
    ]
    agree(getattr(kernel, f"{of}_gradient")(x, weights), np.array(expected), 1e-10)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_smooth_diagonal_input_gradient(kernel):
    x, weights = rows((5, 3)), rows(5, 1)
    expected = np.zeros(x.shape)
    for place in np.ndindex(*x.shape):
        change = np.zeros(x.shape)
        change[place] = 1.0
        expected[place] = dense.derivative(
            lambda t, e=change: weights @ kernel.smooth_diagonal(x + t * e), 1e-3
        )
    agree(kernel.smooth_diagonal_input_gradient(x, weights), expected, 1e-10)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from([RBF, Matern12, Matern32, Matern52, Laplacian]),
    shape=st.tuples(st.integers(1, 12), st.integers(1, 4), st.integers(1, 4)),
    log_scale=st.floats(-6, 6),
    per_feature=st.booleans(),
    offset=st.sampled_from([0.0, 1e3]),
    seed=st.integers(0, 2**32 - 1),
)
def test_stationary_gradients_at_any_scale(kind, shape, log_scale, per_feature, offset, seed):
    c, d, p = shape
    generator = np.random.default_rng(seed)
    unit_left, unit_right = generator.standard_normal((c, p)), generator.standard_normal((d, p))
    weights, scale = generator.standard_normal((c, d)), 10.0**log_scale
    unit = kind(1.5, tuple(1 + generator.random(p)) if per_feature else 1.3)
    scaled = unit.with_log_parameters(
        unit.log_parameters + np.log(scale) * (np.arange(1 + (p if per_feature else 1)) > 0)
    )
    left, right = scale * (unit_left + offset), scale * (unit_right + offset)
    expected = dense.parameter_gradient(unit, unit_left, unit_right, weights)
    agree(scaled.parameter_gradient(left, right, weights), expected, 1e-10)
    by_inputs = dense.input_gradient(unit, unit_left, unit_right, weights)
    agree(scaled.input_gradient(left, right, weights) * scale, by_inputs, 1e-10)


@pytest.mark.parametrize("kind", [RBF, Matern12, Matern32, Matern52, Laplacian])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-10)])
def test_near_duplicates_far_from_each_other(kind, dtype, tolerance):
    # Rounded so that float32 holds the inputs exactly.
    centers = np.round(1e4 * rows((8, 3)))
    left, right = centers.astype(dtype), (centers + np.round(8 * rows((8, 3), 1)) / 16).astype(dtype)
    weights, kernel = rows((8, 8), 2).astype(dtype), kind(1.0, (1.0, 0.7, 2.0))
    doubles = left.astype(np.float64), right.astype(np.float64), weights.astype(np.float64)
    agree(
        kernel.parameter_gradient(left, right, weights), dense.parameter_gradient(kernel, *doubles), tolerance
    )
    agree(kernel.input_gradient(left, right, weights), dense.input_gradient(kernel, *doubles), tolerance)


@pytest.mark.parametrize("kind", [RBF, Matern12, Matern32, Matern52, Laplacian])
def test_duplicates_have_finite_gradients(kind):
    x = np.ones((3, 2))
    kernel = kind(1.0, (1.0, 2.0))
    np.testing.assert_array_equal(kernel.parameter_gradient(x, x, np.ones((3, 3))), [9.0, 0.0, 0.0])
    np.testing.assert_array_equal(kernel.input_gradient(x, x, np.ones((3, 3))), np.zeros((3, 2)))


def test_weights_are_left_alone():
    left, right, weights = rows((30, 3)), rows((4, 3), 1), rows((30, 4), 2)
    before = weights.copy()
    (RBF() * Linear() + White()).parameter_gradient(left, right, weights)
    np.testing.assert_array_equal(weights, before)
