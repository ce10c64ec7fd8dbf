import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgp.numerics.moments import (
    GAUSSIAN,
    PROBIT,
    bounded_curvature,
    gaussian_moments,
    gaussian_site,
    moments_sweep,
    probit_moments,
    probit_site,
    site_from_moments,
    sites_sweep,
)
from tests.reference.likelihoods_dense import gaussian_textbook, probit_textbook, site_textbook

# y, h, a, bias, log Z, slope, curvature, site precision, site precision × mean.  Made with mpmath 1.4 at 100
# digits from the formulas of [IVM2006] B.1, printed by nstr(·, 18).
PROBIT_REFERENCE = [
    (
        1.0,
        -1000000.0,
        1.0,
        0.0,
        -250000000014.387876,
        500000.000001,
        0.499999999999,
        0.999999999996,
        3.99999999996e-6,
    ),
    (
        1.0,
        -1000000.0,
        10000.0,
        0.25,
        -49994985.6316815474,
        99.98997700239999,
        0.00009998999999989957,
        0.999899989957000588,
        -0.229974993490189467,
    ),
    (
        -1.0,
        30.0,
        1e-06,
        0.0,
        -454.320793457898435,
        -30.033229667390416,
        0.998895228496382467,
        0.998896226289056671,
        -0.0663728787984938787,
    ),
    (
        -1.0,
        30.0,
        100000000.0,
        0.5,
        -0.695583690566435491,
        -0.0000799827260592814475,
        6.37284173666992602e-9,
        1.75697923112377655e-8,
        -0.000219983620824764278,
    ),
    (
        1.0,
        -1000.0,
        100000000.0,
        0.0,
        -0.776154592298964588,
        0.0000862617466888925241,
        6.57847148355590969e-9,
        1.92267036558057154e-8,
        0.000232887947075038455,
    ),
    (
        1.0,
        -3.0,
        10000.0,
        -0.5,
        -0.721463185095310796,
        0.00820256826784826579,
        0.0000644115143561476627,
        0.000180989758880831454,
        0.0225054075212199408,
    ),
    (
        -1.0,
        2.0,
        0.0,
        0.0,
        -3.78318433368203195,
        -2.37321553282284087,
        0.885720899585918743,
        0.885720899585918743,
        -0.601773733651003381,
    ),
    (
        1.0,
        5.0,
        1000000000000.0,
        0.0,
        -0.69314319114509904,
        7.97881377706329751e-7,
        6.36618682297439367e-13,
        1.7519301386279092e-12,
        2.19572257001070035e-6,
    ),
    (
        1.0,
        25.0,
        0.01,
        0.0,
        -6.77858535626486382e-137,
        1.68057040320313171e-135,
        4.15982773070082107e-134,
        4.15982773070082107e-134,
        1.0416375030784084e-132,
    ),
    (
        -1.0,
        -12.0,
        0.5,
        1.0,
        -1.33595722879378102e-19,
        -9.91563045860617699e-19,
        7.27146233631119646e-18,
        7.27146233631119649e-18,
        -8.82491110815949756e-17,
    ),
]
EXTREME_MEANS = [-1e300, -1e6, -30.0, -1e-300, 0.0, 1e-3, 30.0, 1e6, 1e300]
EXTREME_VARIANCES = [-1e-18, 0.0, 1e-320, 1e-300, 1e-12, 1.0, 1e4, 1e12, 1e300]
signs = st.sampled_from([-1.0, 1.0])


@pytest.mark.parametrize("row", PROBIT_REFERENCE)
def test_probit_equals_high_precision_values(row):
    arguments, expected = row[:4], row[4:]
    np.testing.assert_allclose(probit_moments(*arguments), expected[:3], rtol=4e-13)
    np.testing.assert_allclose(probit_site(*arguments), (expected[0], *expected[3:]), rtol=4e-13)


@given(signs, st.floats(-5.0, 5.0), st.floats(0.0, 1e3), st.floats(-2.0, 2.0))
def test_probit_equals_the_textbook(target, mean, variance, bias):
    found = probit_moments(target, mean, variance, bias)
    expected = probit_textbook(target, mean, variance, bias)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    site = site_textbook(expected[1], expected[2], mean, variance)
    np.testing.assert_allclose(probit_site(target, mean, variance, bias)[1:], site, rtol=1e-7, atol=1e-9)


@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.floats(0.0, 1e6), st.floats(1e-6, 1e3))
def test_gaussian_equals_the_textbook(target, mean, variance, noise):
    found = gaussian_moments(target, mean, variance, noise)
    np.testing.assert_allclose(
        found, gaussian_textbook(target, mean, variance, noise), rtol=1e-11, atol=1e-12
    )
    log_z, precision, precision_mean = gaussian_site(target, mean, variance, noise)
    assert (log_z, precision, precision_mean) == (found[0], 1.0 / noise, target / noise)


@given(signs, st.floats(-1e6, 1e6), st.floats(0.0, 1e12), st.floats(-10.0, 10.0))
def test_probit_is_within_the_log_concave_bounds(target, mean, variance, bias):
    log_z, slope, curvature = probit_moments(target, mean, variance, bias)
    _, precision, precision_mean = probit_site(target, mean, variance, bias)
    assert np.all(np.isfinite([log_z, slope, precision_mean]))
    assert curvature >= 0.0
    assert curvature * variance < 1.0
    assert slope * target >= 0.0
    # The probit is never sharper than a Gaussian of unit variance.
    assert 0.0 <= precision <= 1.0


@pytest.mark.parametrize("family", [PROBIT, GAUSSIAN])
@pytest.mark.parametrize("parameter", [1e-9, 1.0])
def test_extremes_are_finite(family, parameter):
    grid = np.meshgrid([-1.0, 1.0], EXTREME_MEANS, EXTREME_VARIANCES)
    target, mean, variance = (np.ascontiguousarray(part.ravel()) for part in grid)
    moments, sites = np.empty((2, 3, target.size))
    # Without the JIT these are NumPy scalars, which warn where compiled code overflows and is clipped.
    with np.errstate(over="ignore"):
        moments_sweep(family, np.array([parameter]), target, mean, variance, moments)
        sites_sweep(family, np.array([parameter]), target, mean, variance, sites)
    assert np.all(np.isfinite(moments))
    assert np.all(np.isfinite(sites))
    assert np.all(moments[2] >= 0.0)
    assert np.all(moments[2] * np.maximum(variance, 0.0) < 1.0)
    np.testing.assert_array_equal(moments[0], sites[0])


def test_confident_rows_underflow_to_nothing():
    assert probit_moments(1.0, 60.0, 1.0, 0.0)[1:] == (pytest.approx(0.0, abs=1e-300), 0.0)
    assert probit_site(1.0, 60.0, 0.0, 0.0) == (0.0, 0.0, 0.0)


def test_slope_and_curvature_are_the_derivatives():
    step = 1e-4
    for moments, parameter in ((probit_moments, 0.3), (gaussian_moments, 0.3)):
        low, here, high = (moments(-1.0, 0.7 + shift, 0.8, parameter) for shift in (-step, 0.0, step))
        assert (high[0] - low[0]) / (2 * step) == pytest.approx(here[1], rel=1e-7)
        assert -(high[1] - low[1]) / (2 * step) == pytest.approx(here[2], rel=1e-7)


@given(st.floats(-100.0, 100.0), st.floats(1e-6, 1e6), st.floats(0.0, 1.0), st.floats(-10.0, 10.0))
def test_site_from_moments_is_finite_and_not_negative(mean, variance, share, slope):
    curvature = bounded_curvature(share / variance, variance)
    precision, precision_mean = site_from_moments(slope, curvature, mean, variance)
    assert precision >= 0.0
    assert np.isfinite(precision_mean)
    if share < 0.9:
        expected = site_textbook(slope, curvature, mean, variance)
        np.testing.assert_allclose((precision, precision_mean), expected, rtol=1e-12, atol=1e-300)


def test_curvature_is_clipped():
    assert bounded_curvature(-1e-3, 1.0) == 0.0
    assert bounded_curvature(3.0, 2.0) < 0.5
    assert bounded_curvature(3.0, 0.0) == 3.0
