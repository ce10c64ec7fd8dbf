from __future__ import annotations

import json

import numpy as np
import pytest

from streamgp.data.standardize import Bend, Standardizer, choose_standardizer
from streamgp.errors import ParameterError


def chosen(mode, X):
    return choose_standardizer(
        mode,
        mean=X.mean(axis=0, dtype=float),
        variance=X.var(axis=0, dtype=float),
        lowest=X.min(axis=0).astype(float),
        highest=X.max(axis=0).astype(float),
    )


def test_columns_get_mean_0_and_variance_1(generator):
    X = generator.normal([1e6, -3, 0], [1e-2, 5, 1e3], (500, 3))
    Z = chosen(True, X).apply(X, np.float32)
    assert Z.dtype == np.float32
    assert Z.flags.c_contiguous
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(Z.std(axis=0), 1, rtol=1e-5)


def test_constant_columns_get_scale_1():
    X = np.array([[1.0, 7.0], [3.0, 7.0]])
    np.testing.assert_array_equal(chosen(True, X).apply(X, float), [[-1, 0], [1, 0]])


def test_auto_treats_pixels_alike_and_other_columns_apart(generator):
    images = generator.integers(0, 256, (300, 20)).astype(np.uint8)
    images[:, :4] = 0  # border
    images[:, 4] = generator.random(300) < 0.01  # nearly always empty
    assert np.unique(chosen("auto", images).scale).size == 1
    ages_and_cents = np.column_stack([generator.integers(0, 90, 300), generator.integers(0, 10**7, 300)])
    assert np.unique(chosen("auto", ages_and_cents).scale).size == 2
    assert np.unique(chosen("auto", images / 255.0).scale).size == 1
    assert np.unique(chosen("auto", generator.standard_normal((300, 20))).scale).size == 20


def test_false_changes_nothing(generator):
    X = generator.standard_normal((5, 2))
    np.testing.assert_array_equal(chosen(False, X).apply(X, float), X)


def test_unknown_mode_is_refused():
    with pytest.raises(ParameterError, match="'auto', True, 'common' or False"):
        chosen("robust", np.ones((2, 2)))


def test_bent_columns_are_drawn_in_and_others_as_before(generator):
    X = np.column_stack([generator.standard_normal(400), np.exp(2 * generator.standard_normal(400))])
    bend = Bend.of_sample(X, [1])
    standardizer, plain = chosen(bend, X), chosen(True, X)
    Z = standardizer.apply(X, np.float64)
    np.testing.assert_array_equal(Z[:, 0], plain.apply(X, np.float64)[:, 0])
    median = np.median(X[:, 1])
    far = np.abs(X[:, 1] - median)
    drawn_in = np.arcsinh((X[:, 1] - median) / min(far.mean(), np.median(far)))
    np.testing.assert_allclose(Z[:, 1], (drawn_in - drawn_in.mean()) / drawn_in.std(), atol=1e-12)
    assert np.max(np.abs(Z[:, 1])) < np.max(np.abs(plain.apply(X, np.float64)[:, 1]))
    np.testing.assert_allclose(standardizer.undone(Z), X, rtol=1e-9, atol=1e-9)
    assert Bend.of(json.loads(json.dumps(bend.record()))) == bend


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int64", "float16", "float32", "float64", ">f4"])
@pytest.mark.parametrize("out", [np.float32, np.float64])
def test_every_type_has_the_same_bits_as_the_formula(generator, dtype, out):
    X = (generator.standard_normal((301, 7)) * 50).astype(dtype)
    found = Standardizer(generator.standard_normal(7), generator.random(7) + 0.1)
    wanted = ((X.astype(np.float64) - found.shift) / found.scale).astype(out)
    np.testing.assert_array_equal(found.apply(X, out), wanted)
    X.flags.writeable = False
    room = np.empty((400, 7), out)
    found.apply(X[::2], out, out=room[:151])
    np.testing.assert_array_equal(room[:151], wanted[::2])
    np.testing.assert_array_equal(found.apply(X[:0], out), wanted[:0])
