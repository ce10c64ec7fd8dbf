from __future__ import annotations

import numpy as np
import pytest

from streamgp.numerics import kernel_contractions, kernel_sweeps

FAMILIES = [kernel_sweeps.RBF, kernel_sweeps.MATERN12, kernel_sweeps.MATERN32, kernel_sweeps.MATERN52]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value_is_the_variance_where_rounding_made_the_distance_negative(family, dtype):
    products = np.full((1, 3), 1.0 + 1e-6, dtype)
    half = np.full(3, 0.5, dtype)
    kernel_sweeps.stationary_tile(products, half[:1], half, family, 2.0)
    np.testing.assert_array_equal(products, np.full((1, 3), 2.0, dtype))


@pytest.mark.parametrize("family", FAMILIES)
def test_nan_is_not_hidden(family):
    products = np.array([[np.nan, 0.0]])
    kernel_sweeps.stationary_tile(products, np.zeros(1), np.zeros(2), family, 1.0)
    assert np.isnan(products[0, 0])
    assert products[0, 1] == 1.0


@pytest.mark.parametrize("family", FAMILIES)
def test_derivative_at_zero_distance_is_finite(family):
    products = np.zeros((1, 1))
    row_sums, column_sums = np.empty(1), np.zeros(1)
    value, stretch = kernel_contractions.contract_stationary_tile(
        products, np.ones((1, 1)), np.zeros(1), np.zeros(1), family, 1.0, row_sums, column_sums
    )
    slope = dict(zip(FAMILIES, [1.0, 0.0, 3.0, 5.0 / 3.0], strict=True))[family]
    assert (value, stretch) == (1.0, 0.0)
    assert products[0, 0] == row_sums[0] == column_sums[0] == pytest.approx(slope)


def test_scaled_rows_and_half_norms():
    rows = np.random.default_rng(0).standard_normal((7, 3))
    center, inverse = np.array([1.0, -2.0, 0.5]), np.array([2.0, 0.5, 1.0])
    scaled, half = np.empty_like(rows), np.empty(7)
    kernel_sweeps.scale_rows(rows, center, inverse, scaled, half)
    np.testing.assert_allclose(scaled, (rows - center) * inverse, rtol=1e-15)
    np.testing.assert_allclose(half, 0.5 * np.sum(scaled**2, axis=1), rtol=1e-14)


def test_refinement_touches_doubtful_pairs_only():
    left, right = np.array([[0.0], [1e6]]), np.array([[0.5], [1e6 + 1.0]])
    products, half_left, half_right = left @ right.T, 0.5 * left[:, 0] ** 2, 0.5 * right[:, 0] ** 2
    refined = np.zeros((2, 2), bool)
    kernel_sweeps.refine_tile(
        products, half_left, half_right, left, right, np.ones(1), (1e-15, 1e-11, 40.0, 0.0), refined
    )
    np.testing.assert_array_equal(refined, [[False, False], [False, True]])
    assert products[0, 0] == -0.125
    assert products[1, 1] == -0.5


def test_refinement_of_a_kink_reaches_as_far_as_the_error_divided_by_the_distance_shows():
    """Error 1e-8 (norms of 1e7 times 1e-15), tolerance 1e-5: refined below a distance of a thousandth."""
    left = np.array([[0.0, 0.0]])
    right = np.array([[0.0, 1e-4], [0.0, 9e-4], [0.0, 2e-3], [0.0, 1.0]])
    half = np.full(4, 0.5e7)
    products = left @ right.T + 1e7 - 0.5 * np.sum(right**2, axis=1)
    refined = np.zeros((1, 4), bool)
    kernel_sweeps.refine_tile(
        products, half[:1], half, left, right, np.ones(2), (1e-15, 1e-5, 40.0, 1.0), refined
    )
    np.testing.assert_array_equal(refined, [[True, True, False, False]])
    assert products[0, 0] == -0.5e-8


def test_mirror():
    matrix = np.arange(9.0).reshape(3, 3)
    kernel_sweeps.mirror_lower(matrix)
    np.testing.assert_array_equal(matrix, [[0, 3, 6], [3, 4, 7], [6, 7, 8]])


@pytest.mark.parametrize("degree", [1, 2, 5])
def test_polynomial_powers(degree):
    products = np.random.default_rng(0).standard_normal((4, 6))
    expected = 3.0 * (products + 0.5) ** degree
    kernel_sweeps.polynomial_tile(products, 0.5, degree, 3.0)
    np.testing.assert_allclose(products, expected, rtol=1e-13)
