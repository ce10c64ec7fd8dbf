"""Kernels as values: construction, errors, parameters, priors, repr, JSON, pickle."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from scipy import stats

from streamgp import kernels
from streamgp.errors import ParameterError
from streamgp.kernels import (
    RBF,
    Constant,
    Linear,
    Matern32,
    Polynomial,
    Product,
    Sum,
    White,
    kernel_from_json,
)
from tests.kernels.test_blocks import KERNELS, rows
from tests.reference import kernels_dense as dense

SINGLE = [Sum((RBF(),)), Product((RBF(),))]


@pytest.mark.parametrize("kernel", KERNELS + SINGLE, ids=repr)
def test_round_trips(kernel):
    names = {name: getattr(kernels, name) for name in kernels.__all__}
    assert eval(repr(kernel), names) == kernel
    assert kernel_from_json(json.loads(json.dumps(kernel.to_json()))) == kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert hash(pickle.loads(pickle.dumps(kernel))) == hash(kernel)
    assert kernel.with_log_parameters(kernel.log_parameters).parameter_names == kernel.parameter_names


def test_repr_reads_like_the_code():
    assert repr(RBF(1, 2) + White(0.1)) == "RBF(variance=1.0, lengthscale=2.0) + White(variance=0.1)"
    assert repr((Linear() + White()) * Constant()) == (
        "(Linear(variance=1.0) + White(variance=1.0)) * Constant(variance=1.0)"
    )


def test_equality_and_flattening():
    a, b, c = RBF(), Linear(2.0), White()
    assert (a + b) + c == a + (b + c) == Sum((a, b, c))
    assert (a * b) * c == a * (b * c) == Product((a, b, c))
    assert a != Matern32()
    assert RBF(lengthscale=np.array([1.0, 2.0])) == RBF(lengthscale=(1, 2))
    assert RBF(lengthscale=np.float32(2.0)) == RBF(lengthscale=2)
    assert len({a, RBF(1.0), b}) == 2
    with pytest.raises(TypeError):
        a + 1.0
    with pytest.raises(TypeError):
        a * 2.0


def test_parameters_by_name():
    kernel = RBF(2.0, (1.0, 3.0)) + Linear(0.5) * Polynomial(2, 4.0, 5.0)
    assert kernel.parameter_names == (
        "0.variance", "0.lengthscale[0]", "0.lengthscale[1]", "1.0.variance", "1.1.variance", "1.1.offset",
    )  # fmt: skip
    np.testing.assert_allclose(np.exp(kernel.log_parameters), [2.0, 1.0, 3.0, 0.5, 4.0, 5.0])
    moved = kernel.with_log_parameters(np.log([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    np.testing.assert_allclose(np.exp(moved.log_parameters), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert moved.terms[1].factors[1].degree == 2
    assert kernel.log_bounds.shape == (6, 2)
    np.testing.assert_allclose(np.exp(kernel.log_bounds[0]), [1e-6, 1e6])


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "wide", None])
@pytest.mark.parametrize("name", ["variance", "lengthscale"])
def test_parameters_must_be_positive(name, value):
    with pytest.raises(ParameterError, match=f"{name} is .*above zero"):
        RBF(**{name: value})


def test_bad_parameters_name_their_place():
    with pytest.raises(ParameterError, match=r"lengthscale\[1\] is -2.0"):
        Matern32(lengthscale=(1.0, -2.0))
    with pytest.raises(ParameterError, match="empty"):
        RBF(lengthscale=())
    with pytest.raises(ParameterError, match="offset is 0"):
        Polynomial(2, offset=0)
    with pytest.raises(ParameterError, match="origin is nan"):
        Polynomial(2, origin=np.nan)
    for kind in (Linear, Constant, White):
        with pytest.raises(ParameterError, match="variance is nan"):
            kind(np.nan)


@pytest.mark.parametrize("degree", [0, -1, 1.5, True, "2", None])
def test_degree_must_be_a_positive_integer(degree):
    with pytest.raises(ParameterError, match=r"degree is .* at least 1"):
        Polynomial(degree)


def test_degree_may_be_a_numpy_integer():
    assert Polynomial(np.int64(3)) == Polynomial(3)


def test_number_of_lengthscales_must_match():
    kernel = Linear() + RBF(lengthscale=(1.0, 2.0)) * Constant()
    kernel.check_features(2)
    with pytest.raises(ParameterError, match=r"2 lengthscales.* 5 features"):
        kernel.check_features(5)
    with pytest.raises(ParameterError, match=r"2 lengthscales.* 5 features"):
        kernel.block(rows((3, 5)), rows((3, 5)))
    with pytest.raises(ParameterError, match=r"4 features.* 5"):
        RBF().block(rows((3, 4)), rows((3, 5)))


def test_vector_of_wrong_length():
    with pytest.raises(ParameterError, match="2 are needed"):
        RBF().with_log_parameters(np.zeros(3))
    with pytest.raises(ParameterError, match="variance is inf"):
        RBF().with_log_parameters(np.array([1e4, 0.0]))


@pytest.mark.parametrize(
    "record", [{"kind": "Cosine"}, {}, 3, {"kind": "RBF", "width": 2.0}, {"kind": "Polynomial"}]
)
def test_unknown_json(record):
    with pytest.raises(ParameterError, match=r"unknown kernel kind|cannot be made"):
        kernel_from_json(record)


def test_parts_must_be_kernels():
    with pytest.raises(ParameterError, match="must be kernels"):
        Sum((RBF(), 1.0))
    with pytest.raises(ParameterError, match="at least one"):
        Product(())


def test_prior_densities():
    kernel, p = RBF(2.0, 3.0), 5
    u = 3.0**2 / p
    # Gamma over u, as a density over log lengthscale: |du/dlog l| = 2u.
    expected = (
        stats.norm.logpdf(np.log(2.0), -1.0, 1.0) + stats.gamma.logpdf(u, 0.5, scale=2.0) + np.log(2.0 * u)
    )
    assert kernel.log_prior(p)[0] == pytest.approx(expected)
    many = RBF(2.0, (3.0, 0.5))
    expected = stats.norm.logpdf(np.log(2.0), -1.0, 1.0) + sum(
        stats.gamma.logpdf(s**-2, 0.5, scale=2.0) + np.log(2.0 * s**-2) for s in (3.0, 0.5)
    )
    assert many.log_prior(2)[0] == pytest.approx(expected)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_prior_gradient(kernel):
    start = kernel.log_parameters
    expected = [
        dense.derivative(lambda t, e=e: kernel.with_log_parameters(start + t * e).log_prior(3)[0], 1e-3)
        for e in np.eye(len(start))
    ]
    np.testing.assert_allclose(kernel.log_prior(3)[1], expected, atol=1e-9)
