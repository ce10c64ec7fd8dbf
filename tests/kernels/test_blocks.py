"""Values: against the dense oracle and scikit-learn, over shapes, scales, offsets and duplicates."""

from __future__ import annotations

import os
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import kernels as sk

from streamgp.kernels import RBF, Constant, Laplacian, Linear, Matern12, Matern32, Matern52, Polynomial, White
from streamgp.kernels.tiles import row_tiles
from tests.reference import kernels_dense as dense

TOLERANCE = {np.float32: 1e-5, np.float64: 1e-10}

KERNELS = [
    RBF(2.0, 1.3),
    RBF(0.5, (0.5, 1.0, 2.0)),
    Matern12(2.0, 0.7),
    Matern12(1.0, (0.5, 1.0, 2.0)),
    Matern32(2.0, 0.7),
    Matern32(1.0, (0.5, 1.0, 2.0)),
    Matern52(2.0, 0.7),
    Matern52(1.0, (0.5, 1.0, 2.0)),
    Laplacian(2.0, 0.7),
    Laplacian(1.0, (0.5, 1.0, 2.0)),
    Linear(0.5),
    Polynomial(3, 0.7, 0.5),
    Polynomial(9, 2.0, 1.0, normalize=True),
    Polynomial(3, 0.7, 0.5, origin=-0.6),
    Polynomial(4, 2.0, 0.3, normalize=True, origin=0.4),
    Constant(3.0),
    White(2.0),
    RBF(1.0, 2.0) + Linear(0.3) + White(0.1),
    White(0.3) + Matern32(),
    Linear(0.2) + Matern12() * RBF(1.0, 2.0),
    RBF() * Matern52(2.0, (1.0, 2.0, 3.0)) * Constant(2.0),
    (RBF() + Constant(0.5)) * (Linear(0.3) + Matern32()) + Polynomial(2),
    Linear() + RBF() * Constant(2.0),
    RBF() * White() + Constant(0.1),
    White() + White(2.0),
]


slow_without_jit = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="large blocks, too slow without compilation"
)


def rows(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_block_equals_oracle(kernel, dtype):
    left, right = rows((300, 3)).astype(dtype), rows((5, 3), 1).astype(dtype)
    found, expected = kernel.block(left, right), dense.block(kernel, left, right)
    assert found.dtype == dtype
    assert found.shape == (300, 5)
    assert np.abs(found - expected).max() <= TOLERANCE[dtype] * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_out_is_filled_and_tiling_is_invisible(kernel):
    left, right = rows((1100, 3)), rows((5, 3), 1)
    assert len(list(row_tiles(1100, 5, 3, 8))) == 2
    out = np.full((1100, 5), np.nan)
    assert kernel.block(left, right, out=out) is out
    np.testing.assert_allclose(out, dense.block(kernel, left, right), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(
    ("kernel", "peer"),
    [
        (RBF(2.0, 1.3), sk.ConstantKernel(2.0) * sk.RBF(1.3)),
        (RBF(1.0, (0.5, 1.0, 2.0)), sk.RBF([0.5, 1.0, 2.0])),
        (Matern12(1.0, (0.5, 1.0, 2.0)), sk.Matern([0.5, 1.0, 2.0], nu=0.5)),
        (Matern32(1.0, (0.5, 1.0, 2.0)), sk.Matern([0.5, 1.0, 2.0], nu=1.5)),
        (Matern52(1.0, 0.8), sk.Matern(0.8, nu=2.5)),
        (Linear(1.0), sk.DotProduct(1e-30)),
        (RBF() * Matern32() + Constant(2.0), sk.RBF() * sk.Matern(nu=1.5) + sk.ConstantKernel(2.0)),
    ],
)
def test_equals_scikit_learn(kernel, peer):
    left, right = rows((50, 3)), rows((20, 3), 1)
    np.testing.assert_allclose(kernel.block(left, right), peer(left, right), atol=1e-10)
    np.testing.assert_allclose(kernel.gram(left), peer(left), atol=1e-10)
    np.testing.assert_allclose(kernel.diagonal(left), peer.diag(left), atol=1e-10)


stationary_kinds = st.sampled_from([RBF, Matern12, Matern32, Matern52, Laplacian])


@settings(max_examples=150, deadline=None)
@given(
    kind=stationary_kinds,
    shape=st.tuples(st.integers(1, 40), st.integers(1, 20), st.integers(1, 60)),
    log_scale=st.floats(-6, 6),
    log_lengthscale=st.floats(-3, 3),
    offset=st.sampled_from([0.0, 1.0, 1e3, -1e5]),
    per_feature=st.booleans(),
    duplicates=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 2**32 - 1),
)
def test_stationary_block_at_any_scale(
    kind, shape, log_scale, log_lengthscale, offset, per_feature, duplicates, dtype, seed
):
    c, d, p = shape
    generator = np.random.default_rng(seed)
    scale = 10.0**log_scale
    left = (scale * (generator.standard_normal((c, p)) + offset)).astype(dtype)
    right = (scale * (generator.standard_normal((d, p)) + offset)).astype(dtype)
    if duplicates:
        right[: min(c, d)] = left[: min(c, d)]
    lengthscale = scale * 10.0**log_lengthscale * (1 + generator.random(p) if per_feature else 1.0)
    kernel = kind(1.7, lengthscale)
    error = np.abs(kernel.block(left, right) - dense.block(kernel, left, right)).max()
    assert error <= 1.7 * TOLERANCE[dtype]


@pytest.mark.parametrize("kind", [RBF, Matern12, Matern32, Matern52, Laplacian])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_near_duplicates_far_from_each_other(kind, dtype):
    centers = 1e4 * rows((30, 4))
    left = centers.astype(dtype)
    right = (centers + 0.5 * rows((30, 4), 1)).astype(dtype)
    kernel = kind(1.0, 1.0)
    found, expected = kernel.block(left, right), dense.block(kernel, left, right)
    assert 0.2 < np.diag(expected).max() < 0.99
    assert np.abs(found - expected).max() <= TOLERANCE[dtype]


@settings(max_examples=60, deadline=None)
@given(
    kernel=st.sampled_from([kernel for kernel in KERNELS if kernel.parameter_names != ("variance",)]),
    n=st.integers(1, 40),
    log_scale=st.floats(-3, 1),
    repeats=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_gram_is_symmetric_and_positive_semi_definite(kernel, n, log_scale, repeats, seed):
    x = np.tile(10.0**log_scale * np.random.default_rng(seed).standard_normal((n, 3)), (repeats, 1))
    gram = kernel.gram(x)
    np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_array_equal(np.diag(gram), kernel.diagonal(x))
    assert np.linalg.eigvalsh(gram).min() >= -1e-9 * max(1.0, np.diag(gram).max()) * len(x)


def test_white_is_in_every_row_s_own_variance_and_in_no_block():
    x = rows((6, 3))
    kernel = RBF() + White(0.25)
    np.testing.assert_array_equal(kernel.block(x, x), RBF().block(x, x))
    np.testing.assert_array_equal(kernel.smooth_gram(x), RBF().gram(x))
    np.testing.assert_array_equal(kernel.smooth_diagonal(x), np.ones(6))
    np.testing.assert_array_equal(kernel.nugget(x), np.full(6, 0.25))
    np.testing.assert_array_equal(kernel.diagonal(x), np.full(6, 1.25))
    np.testing.assert_array_equal(np.diag(kernel.gram(x)), np.full(6, 1.25))


def test_product_with_white_is_wholly_nugget():
    x = rows((6, 3))
    kernel = White(0.5) * Linear(2.0)
    assert not kernel.block(x, x).any()
    assert not kernel.smooth_diagonal(x).any()
    np.testing.assert_allclose(kernel.nugget(x), 0.5 * Linear(2.0).diagonal(x))
    mixed = (RBF(3.0) + White(1e-12)) * Linear(2.0)
    np.testing.assert_allclose(mixed.smooth_diagonal(x), 3.0 * Linear(2.0).diagonal(x))
    np.testing.assert_allclose(mixed.nugget(x), 1e-12 * Linear(2.0).diagonal(x))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_diagonal_equals_oracle(kernel):
    x = rows((20, 3))
    np.testing.assert_allclose(kernel.diagonal(x), np.diag(dense.gram(kernel, x)), rtol=1e-12)
    np.testing.assert_allclose(kernel.smooth_diagonal(x), np.diag(dense.block(kernel, x, x)), rtol=1e-12)
    assert kernel.diagonal(x.astype(np.float32)).dtype == np.float64


def test_normalized_polynomial_of_a_zero_row():
    x = np.array([[0.0, 0.0], [3.0, 4.0]])
    kernel = Polynomial(2, offset=1.0, normalize=True)
    np.testing.assert_allclose(kernel.gram(x), [[0.25, 0.25], [0.25, 1.0]])


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_empty_and_read_only_inputs(kernel):
    empty, right = np.empty((0, 3)), rows((4, 3))
    right.flags.writeable = False
    assert kernel.block(empty, right).shape == (0, 4)
    assert kernel.block(right, empty).shape == (4, 0)
    np.testing.assert_allclose(kernel.block(right, right), dense.block(kernel, right, right), atol=1e-10)


@slow_without_jit
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("scale", [1.0, 1e5])
def test_workspace_is_bounded(kernel, scale):
    left, right = (scale * rows((3000, 3))).astype(np.float32), (scale * rows((200, 3), 1)).astype(np.float32)
    out = np.empty((3000, 200), np.float32)
    kernel.block(left, right, out)
    tracemalloc.start()
    kernel.block(left, right, out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= kernel.workspace_bytes(3000, 200, 3, 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "kernel",
    [RBF(1.0, 8.0), Linear(), Polynomial(3, normalize=True), Linear() * Matern52() + RBF()],
    ids=repr,
)
@slow_without_jit
def test_workspace_is_bounded_with_many_features(kernel, dtype):
    left, right = rows((500, 400)).astype(dtype), rows((2000, 400), 1).astype(dtype)
    out = np.empty((500, 2000), dtype)
    kernel.block(left, right, out)
    tracemalloc.start()
    kernel.block(left, right, out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= kernel.workspace_bytes(500, 2000, 400, out.itemsize) < 4 * peak


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_one_prepared_kernel_serves_several_threads(kernel):
    left, right = rows((4000, 3)), rows((40, 3), 1)
    prepared = kernel.prepared(right)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(prepared.block, np.split(left, 8)))
    np.testing.assert_array_equal(np.concatenate(found), kernel.block(left, right))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 3.0, 1e4])
def test_linear_values_from_the_products_of_an_rbf(offset, dtype):
    left, right = (rows((300, 3), seed) + offset for seed in range(2))
    left, right = left.astype(dtype), right.astype(dtype)
    found = (RBF(2.0, 0.7) + Linear(0.3)).block(left, right)
    expected = RBF(2.0, 0.7).block(left, right) + Linear(0.3).block(left, right)
    np.testing.assert_allclose(found, expected, rtol=100 * np.finfo(dtype).eps, atol=TOLERANCE[dtype])


def test_tiles_cover_all_rows():
    for n_rows, n_active in [(0, 5), (1, 1), (1000, 512), (5000, 100_000)]:
        pieces = list(row_tiles(n_rows, n_active, 50, 8))
        assert sum(piece.stop - piece.start for piece in pieces) == n_rows
