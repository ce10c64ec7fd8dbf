"""The rules for two classes, row by row against a dense grid; the likelihoods have tests of their own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_ndtr

from streamgp.numerics.noise import LOGISTIC, NORMAL
from streamgp.numerics.sigmoid import sigmoid_sweep
from tests.reference.likelihoods_dense import tilted_dense

LOG_F = {NORMAL: log_ndtr, LOGISTIC: lambda x: -np.logaddexp(0.0, -x)}


def swept(noise, power, target, mean, variance):
    moments = np.empty((4, 1))
    with np.errstate(all="ignore"):  # without compilation, NumPy's scalars warn of underflow
        sigmoid_sweep(noise, 0.0, power, np.array([target]), np.array([mean]), np.array([variance]), moments)
    return moments[:, 0]


@pytest.mark.parametrize("noise", [LOGISTIC, NORMAL])
@pytest.mark.parametrize(
    ("power", "mean", "variance"), [(1.0, 0.4, 0.7), (0.5, -3.0, 12.0), (0.05, 9.0, 60.0), (0.3, -8.0, 240.0)]
)
def test_moments_equal_a_dense_grid(noise, power, mean, variance):
    log_z, slope, curvature, shrinkage = swept(noise, power, -1.0, mean, variance)
    expected, centre, spread, _ = tilted_dense(lambda y, f: power * LOG_F[noise](y * f), -1.0, mean, variance)
    assert log_z == pytest.approx(expected, rel=1e-11)
    assert slope == pytest.approx(centre / np.sqrt(variance), rel=1e-9)
    assert curvature * variance == pytest.approx(1 - spread, rel=1e-8)
    assert shrinkage == pytest.approx(spread, rel=1e-9)


@pytest.mark.parametrize("noise", [LOGISTIC, NORMAL])
def test_rows_that_are_not_served_are_marked(noise):
    assert swept(noise, 0.5, 1.0, 0.0, 1.1e4)[3] == -1.0
    assert (swept(noise, 0.5, 1.0, -101.0, 1.0)[3] == -1.0) == (noise == NORMAL)
    assert swept(noise, 0.5, 1.0, 0.0, -1e-18)[3] == pytest.approx(1.0, rel=1e-12)
