"""LAPACK and BLAS through pointers: results as NumPy's, in place, on views too, and without the GIL."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from numpy.linalg import LinAlgError

from streamgp.numerics import factors


@pytest.fixture(params=[np.float32, np.float64])
def dtype(request):
    return request.param


def positive(generator, size, dtype):
    X = generator.standard_normal((size, size))
    return (X @ X.T / size + np.eye(size)).astype(dtype)


def near(found, expected, dtype):
    tolerance = 1e-12 if dtype is np.float64 else 1e-4
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("size", [0, 1, 2, 7, 65, 96, 97, 130, 411])
def test_factor_and_inverse(generator, dtype, size):
    matrix = positive(generator, size, dtype)
    room = np.full((size, size + 3), 7.0, dtype)
    lower = room[:, :size]
    lower[...] = matrix
    factors.cholesky(lower)
    expected = np.linalg.cholesky(matrix.astype(np.float64))
    near(np.tril(lower), expected, dtype)
    np.testing.assert_array_equal(np.triu(lower, 1), np.triu(matrix, 1))
    assert np.all(room[:, size:] == 7.0)
    factors.invert_lower(lower)
    near(np.tril(lower), np.linalg.inv(expected), dtype)
    factors.gram_of_inverse(lower)
    near(lower, np.linalg.inv(matrix.astype(np.float64)), dtype)


@pytest.mark.parametrize("size", [0, 1, 40])
def test_upper_factor_and_inverse(generator, dtype, size):
    matrix = positive(generator, size, dtype)
    upper = matrix.copy()
    factors.cholesky(upper, upper=True)
    np.testing.assert_array_equal(np.tril(upper, -1), np.tril(matrix, -1))
    factors.clear_below(upper)
    near(upper, np.linalg.cholesky(matrix.astype(np.float64)).T, dtype)
    inverse = upper.copy()
    factors.invert_upper(inverse)
    near(inverse @ upper, np.eye(size), dtype)


@pytest.mark.parametrize("width", [0, 1, 5, 130])
@pytest.mark.parametrize("transposed", [False, True])
def test_products_and_solutions(generator, dtype, width, transposed):
    size = 40
    lower = np.linalg.cholesky(positive(generator, size, np.float64)).astype(dtype)
    triangle = lower.T if transposed else lower
    rows = generator.standard_normal((size, width + 2)).astype(dtype)[:, 1 : width + 1]
    found = rows.copy()
    factors.multiply_lower(lower, found, transposed=transposed)
    near(found, triangle @ rows, dtype)
    factors.solve_lower(lower, found, transposed=transposed)
    near(found, rows, dtype)
    other = np.ascontiguousarray(rows.T)
    upper = np.ascontiguousarray(lower.T)
    factors.multiply_by_upper(other, upper, transposed=transposed)
    near(other, rows.T @ (lower if transposed else upper), dtype)
    matrix = positive(generator, size, dtype)
    expected = matrix - rows @ rows.T
    factors.subtract_gram(matrix, rows)
    near(matrix, expected, dtype)


def test_scaled_matrices(generator, dtype):
    matrix, root = positive(generator, 9, np.float64), generator.random(9)
    out = np.full((9, 9), np.nan, dtype)
    factors.scaled_identity_plus(matrix, root, out)
    near(out, np.tril(np.eye(9) + root[:, None] * matrix * root), dtype)
    factors.scale_rows(matrix, root, out)
    near(out, root[:, None] * matrix, dtype)


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1.0, 1e3])
def test_the_diagonal_of_an_inverse_keeps_the_digits_of_what_it_differs_from_1_by(generator, dtype, scale):
    """Rows of all sizes side by side: 1 − g of the smallest has the digits of its own entry."""
    root = np.sqrt(scale * 10.0 ** -np.arange(9.0))
    matrix = root[:, None] * positive(generator, 9, np.float64) * root
    lower = (np.eye(9) + matrix).astype(dtype)
    factors.cholesky(lower)
    inverse = lower.copy()
    factors.invert_lower(inverse)
    found, rest = np.empty((2, 9))
    factors.inverse_diagonal(lower, inverse, matrix.diagonal().copy(), found, rest)
    exact = np.linalg.inv(np.eye(9) + matrix)
    near(found, exact.diagonal(), dtype)
    tolerance = 1e-4 if dtype == np.float32 else 1e-10
    expected = (exact * matrix).sum(axis=1)
    assert np.all(np.abs(rest - expected) <= tolerance * np.minimum(1.0, matrix.diagonal()))


def test_what_is_not_positive_definite_is_refused(dtype):
    with pytest.raises(LinAlgError, match="order 2"):
        factors.cholesky(np.diag([1.0, -1.0, 1.0]).astype(dtype))
    for size in (2, 300):
        with pytest.raises(LinAlgError, match="zero"):
            factors.invert_lower(np.zeros((size, size), dtype))


def test_what_would_be_read_wrongly_is_refused():
    square, rows = np.eye(4), np.ones((4, 3))
    with pytest.raises(TypeError, match="float32"):
        factors.solve_lower(square, rows.astype(np.float32))
    with pytest.raises(ValueError, match="C-ordered"):
        factors.solve_lower(square, np.asfortranarray(rows))


def test_other_threads_run_meanwhile():
    """Python code of this thread goes on while another one factors: SciPy's own wrapper would stop it."""
    matrix = np.eye(1500) + 0.5
    done = threading.Event()

    def work():
        factors.cholesky(matrix)
        done.set()

    thread = threading.Thread(target=work)
    turns = 0
    thread.start()
    while not done.is_set():
        turns += 1
        time.sleep(0.0)
    thread.join()
    assert turns > 20
