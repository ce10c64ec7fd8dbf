from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamgp.numerics.compilation import compiled
from streamgp.numerics.logarithm import fast_log


@compiled
def sweep(x, out):
    for i in range(x.size):
        out[i] = fast_log(x[i])


def test_relative_error_over_the_whole_range():
    x = np.concatenate([np.logspace(-307, 308, 3000), 1 + np.linspace(-0.4, 0.6, 2001), [np.sqrt(2.0), 1.0]])
    found = np.empty_like(x)
    sweep(x, found)
    expected = np.log(x.astype(np.longdouble))
    np.testing.assert_array_less(np.abs(found - expected), 4e-16 * np.abs(expected) + 1e-18)


@given(st.floats(1e-300, 1e300))
def test_logarithm_of_a_double_is_one_more(x):
    found = np.empty(2)
    sweep(np.array([x, 2 * x]), found)
    assert abs(found[1] - found[0] - np.log(2.0)) <= 2e-16 * (1 + abs(found[0]))
