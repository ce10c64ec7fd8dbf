"""The learning criterion: value against the formula as printed, gradient against differences of it."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from streamgp.inference import Sites, filter_sites
from streamgp.inference import criterion as module
from streamgp.inference.criterion import criterion, workspace_bytes
from streamgp.kernels import RBF, Constant, Linear, Matern32, Polynomial, White
from streamgp.likelihoods import Gaussian, Logit, Probit
from tests.reference import criterion_dense as dense
from tests.reference import kernels_dense

KERNELS = [
    RBF(1.7, 1.3),
    RBF(2.1, (0.8, 1.5, 3.0)),
    RBF(1.2, 1.1) + Linear(0.4) + Constant(0.3),
    RBF(1.5, 1.2) + White(0.2),
    RBF(1.5, 1.2) * Linear(0.7) + (Constant(0.5) + White(0.3)) * Matern32(0.8, 2.0),
    Polynomial(3, 0.9, 1.4),
]
LIKELIHOODS = [Probit(bias=0.3), Gaussian(noise=0.4), Logit(bias=-0.2)]

every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)
every_likelihood = pytest.mark.parametrize(
    "likelihood", LIKELIHOODS, ids=lambda likelihood: type(likelihood).__name__
)


def problem(kernel, likelihood, *, candidates=30, active=12, seed=0):
    """Rows with duplicates within and across both sets, and sites of which some are flat."""
    generator = np.random.default_rng(seed)
    rows = generator.standard_normal((active + candidates, 3))
    if active > 5:
        rows[4] = rows[1]
    rows[active:][:3], rows[active:][3:6] = rows[: min(3, candidates)], rows[0]
    targets = np.where(rows[:, 0] + 0.5 * generator.standard_normal(len(rows)) > 0, 1.0, -1.0)
    if isinstance(likelihood, Gaussian):
        targets = np.sin(2 * rows[:, 0]) + 0.3 * generator.standard_normal(len(rows))
    sites = filter_sites(kernel.gram(rows[:active]), targets[:active], likelihood)
    # As after a step of the optimiser: sites of other parameters than those of the kernel.
    precision, precision_mean = 0.8 * sites.precision, 1.1 * sites.precision_mean
    flat = slice(2, active, 5)
    precision[flat], precision_mean[flat] = 0.0, 0.0
    sites = Sites(precision, precision_mean)
    return rows[:active], targets[:active], sites, rows[active:], targets[active:]


def agree(found, expected, tolerance):
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@every_kernel
@every_likelihood
@pytest.mark.parametrize(("candidates", "weight"), [(30, 1.0), (30, 0.35), (0, 1.0)])
def test_value_and_gradient(kernel, likelihood, candidates, weight):
    data = problem(kernel, likelihood, candidates=candidates)
    found = criterion(kernel, likelihood, *data, candidate_weight=weight)
    np.testing.assert_allclose(found.value, dense.criterion(kernel, likelihood, *data, weight), rtol=1e-9)
    by_kernel, by_likelihood = dense.gradients(kernel, likelihood, *data, weight=weight)
    agree(found.kernel_gradient, by_kernel, 1e-8)
    agree(found.likelihood_gradient, by_likelihood, 1e-8)


@every_kernel
def test_gradient_equals_differences_of_the_fast_value(kernel):
    likelihood, step = Probit(0.1), 1e-4
    data = problem(kernel, likelihood)
    start = kernel.log_parameters
    expected = [
        (
            criterion(kernel.with_log_parameters(start + step * e), likelihood, *data).value
            - criterion(kernel.with_log_parameters(start - step * e), likelihood, *data).value
        )
        / (2 * step)
        for e in np.eye(len(start))
    ]
    agree(criterion(kernel, likelihood, *data).kernel_gradient, np.array(expected), 1e-6)


@pytest.mark.parametrize("kernel", [RBF(1.7, (1.0, 0.6, 2.0)), RBF(1.5, 0.7) + White(0.1)], ids=repr)
@pytest.mark.parametrize("noise", [0.3, 1e-3])
def test_exact_regression_is_a_special_case(kernel, noise):
    generator = np.random.default_rng(3)
    rows = generator.standard_normal((40, 3))
    targets = np.sin(rows[:, 0]) + np.sqrt(noise) * generator.standard_normal(40)
    sites = Sites(np.full(40, 1 / noise), targets / noise)
    found = criterion(kernel, Gaussian(noise), rows, targets, sites, rows[:0], targets[:0])
    start = kernel.log_parameters
    derivatives = []
    for e in np.eye(len(start)):

        def moved(t, e=e):
            return kernels_dense.gram(kernel.with_log_parameters(start + t * 1e-3 * e), rows)

        first, second, third = (moved(k) - moved(-k) for k in (1, 2, 3))
        derivatives.append((45.0 * first - 9.0 * second + third) / 60e-3)
    value, gradient = dense.regression(kernels_dense.gram(kernel, rows), noise, targets, derivatives)
    np.testing.assert_allclose(found.value, value, rtol=1e-9)
    agree(found.kernel_gradient, gradient, 1e-9)


@pytest.mark.parametrize("noise", [1e-6, 1e-9])
def test_sharp_sites_lose_no_digits(noise):
    """With 1 − π a near rounding, φ of exact regression still has its digits: q is not a difference."""
    generator = np.random.default_rng(4)
    kernel, rows = RBF(1e3, 0.15), generator.standard_normal((25, 3))
    targets = 20.0 * generator.standard_normal(25)
    sites = Sites(np.full(25, 1 / noise), targets / noise)
    found = criterion(kernel, Gaussian(noise), rows, targets, sites, rows[:0], targets[:0])
    value, gradient = dense.regression(
        kernels_dense.block(kernel, rows, rows), noise, targets, [kernels_dense.block(kernel, rows, rows)]
    )
    np.testing.assert_allclose(found.value, value, rtol=1e-10)
    np.testing.assert_allclose(found.kernel_gradient[0], gradient[0], rtol=1e-7)


@pytest.mark.parametrize("tile_rows", [1, 7, 12, 1000])
def test_tiles_do_not_matter(monkeypatch, tile_rows):
    kernel, likelihood = KERNELS[2], Probit(0.3)
    data = problem(kernel, likelihood, candidates=50)
    whole = criterion(kernel, likelihood, *data)
    monkeypatch.setattr(module, "TILE_ROWS", tile_rows)
    tiled = criterion(kernel, likelihood, *data)
    np.testing.assert_allclose(tiled.value, whole.value, rtol=1e-13)
    agree(tiled.kernel_gradient, whole.kernel_gradient, 1e-11)
    agree(tiled.likelihood_gradient, whole.likelihood_gradient, 1e-12)


def test_any_number_of_workers_gives_the_same_bits():
    kernel, likelihood = RBF(1.5, 1.2) + White(0.2), Probit(0.3)
    data = problem(kernel, likelihood, candidates=5000, active=60)
    alone = criterion(kernel, likelihood, *data)
    for workers in (2, 5):
        together = criterion(kernel, likelihood, *data, workers=workers)
        assert together.value == alone.value
        np.testing.assert_array_equal(together.kernel_gradient, alone.kernel_gradient)
        np.testing.assert_array_equal(together.likelihood_gradient, alone.likelihood_gradient)


@every_likelihood
def test_one_active_row_and_only_flat_sites(likelihood):
    kernel = RBF(1.5, 1.2) + White(0.2)
    rows, targets, sites, candidates, candidate_targets = problem(kernel, likelihood, active=1)
    for kept in (sites, Sites(np.zeros(1), np.zeros(1))):
        data = rows, targets, kept, candidates, candidate_targets
        found = criterion(kernel, likelihood, *data)
        np.testing.assert_allclose(found.value, dense.criterion(kernel, likelihood, *data), rtol=1e-9)
        agree(found.kernel_gradient, dense.gradients(kernel, likelihood, *data)[0], 1e-8)


def test_arguments_are_left_alone_and_float32_rows_are_taken():
    kernel, likelihood = KERNELS[0], Probit(0.3)
    data = problem(kernel, likelihood)
    single = [data[0].astype(np.float32), data[1], data[2], data[3].astype(np.float32), data[4]]
    copies = [np.copy(array) for array in (single[0], data[1], *data[2], single[3], data[4])]
    found = criterion(kernel, likelihood, *single)
    for before, after in zip(copies, (single[0], data[1], *data[2], single[3], data[4]), strict=True):
        np.testing.assert_array_equal(before, after)
    double = criterion(
        kernel, likelihood, single[0].astype(float), *data[1:3], single[3].astype(float), data[4]
    )
    np.testing.assert_array_equal(found.kernel_gradient, double.kernel_gradient)


@every_likelihood
def test_extreme_parameters_stay_finite(likelihood):
    data = problem(RBF(1.0, 1.0), likelihood)
    for variance in (1e-6, 1e6):
        for lengthscale in (1e-3, 1e3):
            found = criterion(RBF(variance, lengthscale) + White(1e-6), likelihood, *data)
            assert all(np.all(np.isfinite(part)) for part in found)


@pytest.mark.parametrize(
    "kernel", [RBF(1.0, 5.0), RBF(1.0, (5.0,) * 40), RBF(1.0, 5.0) + Linear(0.1) + Constant(1.0)], ids=repr
)
@pytest.mark.parametrize(("candidates", "active"), [(6000, 150), (300, 400)])
@pytest.mark.parametrize("workers", [1, 3])
def test_memory_is_as_stated(kernel, candidates, active, workers):
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((candidates + active, 40))
    targets = np.where(rows[:, 0] > 0, 1.0, -1.0)
    sites = Sites(np.full(active, 0.5), 0.4 * targets[:active])
    data = rows[:active], targets[:active], sites, rows[active:], targets[active:]
    criterion(kernel, Probit(), *data, workers=workers)
    tracemalloc.start()
    criterion(kernel, Probit(), *data, workers=workers)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    likelihood_bytes = Probit().workspace_bytes(max(active, workers * 512))
    assert peak <= workspace_bytes(kernel, candidates, active, 40, workers=workers) + likelihood_bytes
