from __future__ import annotations

import numpy as np

from streamgp.numerics.compilation import compiled
from streamgp.numerics.fast_normal import fast_normal_terms
from streamgp.numerics.normal import normal_terms_array


@compiled
def sweep(z, terms):
    for i in range(z.size):
        terms[0, i], terms[1, i], terms[2, i] = fast_normal_terms(z[i])


def terms_of(z):
    terms = np.empty((3, z.size))
    with np.errstate(all="ignore"):  # without compilation, NumPy's scalars warn of underflow
        sweep(z, terms)
    return terms


def test_equals_its_careful_twin():
    z = np.concatenate([np.linspace(-40, 36, 1521), [0.0, -0.0, -2.5, 2.5], -np.logspace(2, 8, 50)])
    log_cdf, hazard, drop, _ = normal_terms_array(z)
    found = terms_of(z)
    np.testing.assert_allclose(found[0], log_cdf, rtol=4e-15, atol=2e-15)
    np.testing.assert_allclose(found[1], hazard, rtol=1e-13)
    np.testing.assert_allclose(found[2], drop, rtol=1e-13)


def test_far_tails_are_finite():
    left, right = terms_of(np.array([-1e29])), terms_of(np.array([1e29]))
    np.testing.assert_allclose(left[:, 0], [-0.5e58, 1e29, 1.0], rtol=1e-14)
    np.testing.assert_array_equal(right[:, 0], 0.0)
