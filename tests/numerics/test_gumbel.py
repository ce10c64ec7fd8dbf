from __future__ import annotations

import numpy as np
import pytest

from streamgp.numerics.compilation import compiled
from streamgp.numerics.gumbel import LOG_ZERO, gumbel_profile, gumbel_terms
from tests.reference.joint_dense import class_given_value


def terms_of(x, variance):
    plan, sums, terms = np.empty((10, x.size)), np.empty((5, x.size)), np.empty((4, x.size))
    gumbel_terms(x, variance, plan, sums, terms)
    return terms


@compiled
def profile_of(x, log_variance):
    return gumbel_profile(x, log_variance)


@pytest.mark.parametrize("variance", [1e-8, 0.3, 3.0, 25.0, 1000.0])
def test_terms_equal_a_dense_grid(variance):
    x = np.sqrt(1 + variance) * np.array([-2.0, 0.0, 1.0, 6.0])
    log_f, slope, bend, spare = terms_of(x, variance)
    expected, mean, square = class_given_value("gumbel", False, x, 0.0, variance, 0.25)
    np.testing.assert_allclose(log_f, expected, atol=1e-8)
    np.testing.assert_allclose(slope, -mean / np.sqrt(variance), atol=1e-8 * (1 + variance**-0.5))
    np.testing.assert_allclose(spare, square - mean**2, atol=1e-6)
    np.testing.assert_allclose(1 - variance * bend, spare, atol=1e-10)


def test_without_variance_it_is_the_gumbel_distribution():
    x = np.array([-3.0, 0.0, 50.0])
    s = np.exp(-x)
    np.testing.assert_allclose(terms_of(x, 0.0), [-s, s, s, np.ones(3)], rtol=1e-14)
    np.testing.assert_allclose(terms_of(x, 1e-15), [-s, s, s, np.ones(3)], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("variance", [0.0, 1e-3, 2.0, 1e6])
def test_profile_and_its_derivatives(variance):
    """The peak s solves s = exp(−x − a s), and slope and curvature belong to the value."""
    log_variance = np.log(variance) if variance else LOG_ZERO
    for x in (-3.0, 0.5, 20.0, 500.0):
        value, s, curvature = profile_of(x, log_variance)
        assert s == pytest.approx(np.exp(-x - variance * s), rel=1e-4, abs=1e-300)
        assert value == pytest.approx(-s - 0.5 * variance * s * s, rel=1e-4)
        assert curvature == pytest.approx(s / (1 + variance * s), rel=1e-4)


def test_extremes_are_finite():
    for variance in (0.0, 1e-12, 1.0, 1e10):
        assert np.all(np.isfinite(terms_of(np.array([-30.0, 0.0, 1e7]), variance)))
        assert np.all(np.isfinite(profile_of(-1e7, np.log(variance) if variance else LOG_ZERO)))
