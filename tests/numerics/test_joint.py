"""Where the mass of a row is found, and one row of each noise; the likelihoods have tests of their own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_ndtr

from streamgp.numerics.joint import joint_sweep
from streamgp.numerics.joint_factors import make_table, row_factors, table_bytes
from streamgp.numerics.joint_probabilities import joint_probabilities_sweep
from streamgp.numerics.mass import FAR, NEAR, evaluate, find_mass, find_rise
from streamgp.numerics.noise import GUMBEL, NORMAL
from tests.reference.joint_dense import tilted_by_value

NAMES = {NORMAL: "normal", GUMBEL: "gumbel"}
ROWS = [
    ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0]),
    ([-5.0, 2.0, 0.0], [100.0, 1e-3, 1.0]),
    ([30.0, -40.0, 0.0], [1e-3, 1e4, 1e-3]),
]


@pytest.mark.parametrize("noise", [NORMAL, GUMBEL])
@pytest.mark.parametrize(("mean", "variance"), ROWS)
@pytest.mark.parametrize("winner", [0, 1])
def test_mass_ends_where_the_integrand_has_fallen(noise, mean, variance, winner):
    mean, variance = np.array(mean), np.array(variance)
    factors = row_factors(noise, winner, mean, variance, mean[winner], make_table(3, 4))
    found = find_mass(factors)
    assert found.low < found.corner < found.high
    top = max(evaluate(factors, t)[0] for t in np.linspace(found.low, found.high, 400))
    for t, nats in ((found.low, FAR), (found.high, FAR), (found.corner, NEAR)):
        assert nats - 0.1 < top - evaluate(factors, t)[0] < nats + 5.0


@pytest.mark.parametrize("noise", [NORMAL, GUMBEL])
def test_rise_of_the_winners_value(noise):
    mean, variance = np.array([0.0, 3.0]), np.array([1.0, 50.0])
    factors = row_factors(noise, -1, mean, variance, 3.0, make_table(2, 4))
    found = find_rise(factors, 70.0, 60.0)
    assert found.high == 70.0
    assert NEAR <= -evaluate(factors, found.corner)[0] <= NEAR + 4.0
    assert 60.0 <= -evaluate(factors, found.low)[0] <= 64.0


def test_integrand_and_its_derivatives():
    mean, variance = np.array([0.5, -1.0, 2.0]), np.array([2.0, 0.5, 9.0])
    factors = row_factors(NORMAL, 0, mean, variance, 0.5, make_table(3, 4))

    def g(t):
        v = 0.5 + np.sqrt(3.0) * t
        return -0.5 * t * t + log_ndtr((v + 1) / np.sqrt(1.5)) + log_ndtr((v - 2) / np.sqrt(10.0))

    value, slope, curvature = evaluate(factors, 0.3)
    assert value == pytest.approx(g(0.3), rel=1e-13)
    assert slope == pytest.approx((g(0.301) - g(0.299)) / 0.002, rel=1e-6)
    assert curvature == pytest.approx(-(g(0.31) - 2 * g(0.3) + g(0.29)) / 1e-4, rel=1e-4)


@pytest.mark.parametrize("noise", [NORMAL, GUMBEL])
def test_one_row(noise):
    mean, variance = np.array([[0.3, -1.0, 0.8]]), np.array([[0.5, 1.0, 4.0]])
    biases, log_z, moments = np.array([0.1, 0.0, -0.2]), np.empty(1), np.empty((3, 1, 3))
    log_probabilities = np.empty((1, 3))
    with np.errstate(all="ignore"):  # without compilation, NumPy's scalars warn of underflow
        joint_sweep(noise, np.array([1]), biases, mean, variance, log_z, moments)
        joint_probabilities_sweep(noise, biases, mean, variance, log_probabilities)
    expected = tilted_by_value(NAMES[noise], 1, mean[0] + biases, variance[0])
    assert log_z[0] == pytest.approx(expected[0], abs=1e-9)
    np.testing.assert_allclose(moments[0, 0], expected[1], atol=1e-9)
    np.testing.assert_allclose(moments[1, 0], expected[2], atol=1e-9)
    np.testing.assert_allclose(moments[2, 0], 1 - variance[0] * expected[2], atol=1e-9)
    assert log_probabilities[0, 1] == pytest.approx(expected[0], abs=1e-8)


def test_bytes_of_a_table():
    for n_classes in (2, 5, 100):
        table = make_table(n_classes, 32)
        assert sum(part.nbytes for part in table) <= table_bytes(n_classes, 32)
