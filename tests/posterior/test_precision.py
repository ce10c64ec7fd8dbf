from __future__ import annotations

import numpy as np
import pytest

from streamgp.errors import ParameterError
from streamgp.inference import Sites, head_from_sites
from streamgp.kernels import RBF
from streamgp.posterior import Snapshot, choose_dtype


def snapshot_of(inputs, kernel, precision):
    gram = kernel.gram(inputs)
    sites = Sites(np.full(len(inputs), precision), np.full(len(inputs), precision))
    return Snapshot(kernel, inputs, (head_from_sites(gram, sites),))


def test_float32_is_enough_where_points_are_far_apart(generator):
    inputs = generator.standard_normal((100, 20))
    snapshot = snapshot_of(inputs, RBF(1.0, 4.0), 1.0)
    assert choose_dtype("auto", snapshot, generator.standard_normal((50, 20)), 10**9) == np.float32
    assert choose_dtype("auto", snapshot, generator.standard_normal((50, 20)), 1000) == np.float64


def test_close_points_with_little_noise_need_float64(generator):
    inputs = np.linspace(0, 1, 200)[:, None]
    snapshot = snapshot_of(inputs, RBF(1.0, 0.5), 1e6)
    probe = generator.random((50, 1))
    assert choose_dtype("auto", snapshot, probe, 10**9) == np.float64
    assert choose_dtype("float32", snapshot, probe, 10**9) == np.float32


def test_unknown_words_are_refused(generator):
    with pytest.raises(ParameterError, match="'half'"):
        choose_dtype("half", snapshot_of(np.zeros((1, 1)), RBF(), 1.0), np.zeros((1, 1)), 10)
