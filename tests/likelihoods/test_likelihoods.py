import dataclasses
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_ndtr

from streamgp.errors import ParameterError
from streamgp.likelihoods import (
    Custom,
    Gaussian,
    Likelihood,
    Logit,
    Probit,
    TiltedMoments,
    likelihood_from_json,
    register_likelihood,
)
from tests.reference.likelihoods_dense import site_textbook, tilted_dense


def log_student(targets, latent, *, scale, shift):
    """Normal noise around f + shift: a density with one positive and one free parameter."""
    return -0.5 * ((targets - latent - shift) / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)


def derivative_student(targets, latent, *, scale, shift):
    residual = targets - latent - shift
    return {"scale": residual**2 / scale**3 - 1 / scale, "shift": residual / scale**2}


def log_sloped_probit(targets, latent, slope=1.0):
    return log_ndtr(targets * slope * latent)


SHIFTED = Custom(log_student, "shifted", {"scale": 0.7, "shift": 0.2}, positive=("scale",))
SLOPED = Custom(log_sloped_probit, "sloped", {"slope": 1.5}, positive=("slope",), is_classification=True)
ALL = [Probit(0.3), Gaussian(0.5), Logit(-0.4), SHIFTED, SLOPED]
TARGETS = np.array([-1.0, 1.0, 1.0, -1.0])
MEAN = np.array([-2.0, 0.1, -1.3, 4.0])
VARIANCE = np.array([0.01, 1.0, 3.0, 20.0])

every_likelihood = pytest.mark.parametrize(
    "likelihood", ALL, ids=lambda likelihood: type(likelihood).__name__
)


@every_likelihood
def test_moments_are_arrays_of_the_chunk(likelihood):
    moments = likelihood.tilted_moments(TARGETS, MEAN, VARIANCE)
    assert isinstance(likelihood, Likelihood)
    assert isinstance(moments, TiltedMoments)
    assert all(part.shape == (4,) and part.dtype == np.float64 for part in moments)
    single = likelihood.tilted_moments(np.float32(1.0), MEAN.astype(np.float32), 1)
    assert all(part.shape == (4,) and part.dtype == np.float64 for part in single)
    empty = np.empty(0)
    assert all(part.shape == (0,) for part in likelihood.tilted_moments(empty, empty, empty))
    assert likelihood.parameter_gradient(empty, empty, empty).shape == (len(likelihood.parameters), 0)


@every_likelihood
def test_slope_and_curvature_are_the_derivatives(likelihood):
    step = 1e-4
    low, here, high = (
        likelihood.tilted_moments(TARGETS, MEAN + shift, VARIANCE) for shift in (-step, 0.0, step)
    )
    np.testing.assert_allclose((high.log_z - low.log_z) / (2 * step), here.log_z_slope, rtol=1e-6, atol=1e-8)
    bend = -(high.log_z_slope - low.log_z_slope) / (2 * step)
    np.testing.assert_allclose(bend, here.log_z_curvature, rtol=1e-6, atol=1e-8)


@every_likelihood
def test_sites_match_the_moments(likelihood):
    moments = likelihood.tilted_moments(TARGETS, MEAN, VARIANCE)
    sites = likelihood.tilted_sites(TARGETS, MEAN, VARIANCE)
    expected = site_textbook(moments.log_z_slope, moments.log_z_curvature, MEAN, VARIANCE)
    np.testing.assert_array_equal(sites.log_z, moments.log_z)
    np.testing.assert_allclose(sites.site_precision, expected[0], rtol=1e-9)
    np.testing.assert_allclose(sites.site_precision_mean, expected[1], rtol=1e-9, atol=1e-10)


@every_likelihood
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_parameter_gradient_equals_finite_differences(likelihood, power):
    found = likelihood.parameter_gradient(TARGETS, MEAN, VARIANCE, power=power)
    vector, step = likelihood.parameters, 1e-4
    assert found.shape == (len(vector), 4)
    for i, row in enumerate(found):
        change = step * (np.arange(len(vector)) == i)
        low, high = (
            likelihood.with_parameters(vector + sign * change).tilted_moments(
                TARGETS, MEAN, VARIANCE, power=power
            )
            for sign in (-1, 1)
        )
        np.testing.assert_allclose(row, (high.log_z - low.log_z) / (2 * step), rtol=1e-6, atol=1e-7)


def test_given_parameter_derivative_equals_the_differences():
    exact = dataclasses.asdict(SHIFTED)["log_density"]
    given = Custom(
        exact,
        "given",
        {"scale": 0.7, "shift": 0.2},
        positive=("scale",),
        parameter_derivative=derivative_student,
    )
    expected = SHIFTED.parameter_gradient(TARGETS, MEAN, VARIANCE)
    np.testing.assert_allclose(
        given.parameter_gradient(TARGETS, MEAN, VARIANCE), expected, rtol=1e-8, atol=1e-8
    )


@every_likelihood
def test_parameter_vector_round_trip_and_bounds(likelihood):
    vector = likelihood.parameters
    again = likelihood.with_parameters(vector)
    np.testing.assert_allclose(again.parameters, vector, rtol=1e-15)
    assert len(likelihood.parameter_names) == len(vector)
    assert likelihood.bounds.shape == (len(vector), 2)
    assert np.all(likelihood.bounds[:, 0] <= vector)
    assert np.all(vector <= likelihood.bounds[:, 1])
    value, gradient = likelihood.log_prior()
    assert np.isfinite(value)
    assert gradient.shape == vector.shape
    for wrong in (np.zeros(len(vector) + 1), np.full(len(vector), np.nan)):
        with pytest.raises(ParameterError, match="finite parameters"):
            likelihood.with_parameters(wrong)


def test_bias_has_the_prior_of_the_paper():
    value, gradient = Probit(bias=2.0).log_prior()
    assert value == pytest.approx(-0.5 * 4 / 25 - 0.5 * np.log(2 * np.pi * 25))
    assert gradient == pytest.approx([-2 / 25])
    assert Gaussian(0.2).log_prior() == (0.0, np.zeros(1))
    assert Gaussian(0.2).parameter_names == ("log_noise",)


@pytest.mark.parametrize("likelihood", [Probit(0.3), Logit(-0.4), SLOPED])
def test_two_classes(likelihood):
    assert likelihood.is_classification
    positive = likelihood.positive_probability(MEAN, VARIANCE)
    negative = np.exp(likelihood.log_predictive_density(-1.0, MEAN, VARIANCE))
    np.testing.assert_allclose(positive + negative, 1.0, rtol=1e-11)
    np.testing.assert_allclose(likelihood.predictive_mean(MEAN, VARIANCE), positive - negative, atol=1e-12)
    np.testing.assert_allclose(
        likelihood.predictive_variance(MEAN, VARIANCE), 4 * positive * negative, rtol=1e-11
    )


def test_gaussian_predictions():
    likelihood = Gaussian(0.5)
    assert not likelihood.is_classification
    np.testing.assert_array_equal(likelihood.predictive_mean(MEAN, VARIANCE), MEAN)
    np.testing.assert_array_equal(likelihood.predictive_variance(MEAN, VARIANCE), VARIANCE + 0.5)
    with pytest.raises(ParameterError, match="two classes"):
        likelihood.positive_probability(MEAN, VARIANCE)


def test_custom_predictions():
    """Poisson counts: E[y] = e^{h + a/2}, Var[y] = E[y] + e^{2h + a} (e^a − 1)."""
    poisson = Custom(lambda y, f: y * f - np.exp(f), "poisson", target_mean=np.exp, target_variance=np.exp)
    mean, variance = np.array([0.0, 1.0, -2.0]), np.array([1.0, 0.5, 1e-8])
    expected = np.exp(mean + variance / 2)
    np.testing.assert_allclose(poisson.predictive_mean(mean, variance), expected, rtol=1e-11)
    total = expected + np.exp(2 * mean + variance) * np.expm1(variance)
    np.testing.assert_allclose(poisson.predictive_variance(mean, variance), total, rtol=1e-11)
    with pytest.raises(ParameterError, match=r"no target_mean; give Custom\(\.\.\., target_mean"):
        SHIFTED.predictive_mean(mean, variance)


@given(st.floats(-4.0, 4.0), st.floats(0.01, 50.0))
def test_probit_log_density_equals_a_dense_grid(mean, variance):
    found = Probit(0.5).log_predictive_density(-1.0, mean, variance)[0]
    expected = tilted_dense(lambda y, f: log_ndtr(y * (f + 0.5)), -1.0, mean, variance)[0]
    assert found == pytest.approx(expected, rel=1e-11)


# Values ------------------------------------------------------------------------------------------


@every_likelihood
def test_pickle_equality_hash(likelihood):
    again = pickle.loads(pickle.dumps(likelihood))
    assert again == likelihood
    assert hash(again) == hash(likelihood)
    assert likelihood != likelihood.with_parameters(likelihood.parameters + 0.1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        likelihood.bias = 1.0


@pytest.mark.parametrize("likelihood", ALL[:3])
def test_json_and_repr_round_trip(likelihood):
    text = json.dumps(likelihood.to_json())
    assert likelihood_from_json(json.loads(text)) == likelihood
    assert likelihood_from_json(text) == likelihood
    assert eval(repr(likelihood)) == likelihood


def test_custom_is_saved_by_its_registered_name(monkeypatch):
    monkeypatch.setattr("streamgp.likelihoods.registry._REGISTERED", {})
    with pytest.raises(ParameterError, match=r"'shifted' is not registered.*register_likelihood\('shifted'"):
        SHIFTED.to_json()
    learned = SHIFTED.with_parameters([0.1, 0.4, 0.7])
    register_likelihood("shifted", SHIFTED)
    assert likelihood_from_json(json.dumps(learned.to_json())) == learned
    register_likelihood("shifted", log_student)
    assert likelihood_from_json(learned.to_json()) == learned
    register_likelihood("shifted", lambda **parameters: SHIFTED.with_values(parameters))
    assert likelihood_from_json(learned.to_json()) == learned
    register_likelihood("shifted", lambda **parameters: "nothing")
    with pytest.raises(ParameterError, match="must return a likelihood"):
        likelihood_from_json(learned.to_json())


def test_readable_repr():
    assert repr(Probit(0.25)) == "Probit(bias=0.25)"
    assert repr(Gaussian(1)) == "Gaussian(noise=1.0)"
    assert repr(SHIFTED) == "Custom('shifted', scale=0.7, shift=0.2)"


@pytest.mark.parametrize("rows", [1, 1000, 10**6])
@every_likelihood
def test_workspace_is_stated(likelihood, rows):
    assert 0 < likelihood.workspace_bytes(rows) <= 200 * rows + likelihood.workspace_bytes(256)


# Bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, -1.0, np.nan, np.inf, "much", None])
def test_noise_must_be_positive(noise):
    with pytest.raises(
        ParameterError, match=r"noise of Gaussian is .*; it must be a finite number above zero"
    ):
        Gaussian(noise)


@pytest.mark.parametrize("bias", [np.nan, -np.inf, "some"])
@pytest.mark.parametrize("family", [Probit, Logit])
def test_bias_must_be_finite(family, bias):
    with pytest.raises(ParameterError, match=rf"bias of {family.__name__} is .*; it must be a finite number"):
        family(bias)


def test_custom_arguments_are_checked():
    with pytest.raises(ParameterError, match="must be a function"):
        Custom("not a function")
    with pytest.raises(ParameterError, match="both or none"):
        Custom(log_student, score=log_student)
    with pytest.raises(ParameterError, match=r"\['size'\]; its parameters are \['scale'\]"):
        Custom(log_student, parameters={"scale": 1.0}, positive=("size",))
    with pytest.raises(ParameterError, match="scale of likelihood 'custom' is -1"):
        Custom(log_student, parameters={"scale": -1.0}, positive=("scale",))


@pytest.mark.parametrize(
    "record", [{}, {"kind": "Cauchy"}, {"kind": "Probit", "noise": 1.0}, {"kind": "Custom"}, '{"kind": 3}']
)
def test_unknown_json_is_refused(record):
    with pytest.raises(ParameterError, match="does not describe a likelihood"):
        likelihood_from_json(record)


def test_registration_is_checked():
    with pytest.raises(ParameterError, match="not empty"):
        register_likelihood("", log_student)
    with pytest.raises(ParameterError, match="give a Custom or a function"):
        register_likelihood("number", 3)


def test_shapes_that_differ_are_named():
    with pytest.raises(ParameterError, match=r"\(2,\), \(3,\), \(3,\)"):
        Probit().tilted_moments([1.0, -1.0], np.zeros(3), np.ones(3))
    with pytest.raises(ParameterError, match=r"\(1, 2\)"):
        Logit().tilted_moments(1.0, np.zeros((1, 2)), 1.0)


@pytest.mark.parametrize("power", [0.9, 0.5, 0.05])
def test_probit_raised_to_a_power_agrees_with_a_dense_grid(power):
    likelihood, generator = Probit(bias=0.3), np.random.default_rng(1)
    mean = np.concatenate([generator.uniform(-12, 12, 12), [0.0, -8.0]])
    variance = np.concatenate([10 ** generator.uniform(-3, 2.3, 12), [1e-6, 250.0]])
    targets = np.where(generator.random(14) < 0.5, 1.0, -1.0)
    found = likelihood.tilted_moments(targets, mean, variance, power=power)
    sites = likelihood.tilted_sites(targets, mean, variance, power=power)
    for i, (y, h, a) in enumerate(zip(targets, mean, variance, strict=True)):
        log_z, centre, spread, _ = tilted_dense(
            lambda target, latent: power * log_ndtr(target * (latent + 0.3)), y, h, a
        )
        np.testing.assert_allclose(found.log_z[i], log_z, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(found.log_z_slope[i], centre / np.sqrt(a), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.log_z_curvature[i] * a, 1 - spread, rtol=1e-8, atol=1e-11)
        np.testing.assert_allclose(sites.site_precision[i] * a, 1 / spread - 1, rtol=1e-8, atol=1e-11)


def test_probit_raised_to_a_power_is_continuous_where_its_rule_changes():
    likelihood = Probit()
    for mean, variance in (([-99.999, -100.001], 2.0), ([0.5, 0.5], [9999.9, 10000.1])):
        moments = likelihood.tilted_moments(1.0, mean, variance, power=0.5)
        for column in moments:
            np.testing.assert_allclose(column[0], column[1], rtol=1e-4)


@pytest.mark.parametrize("bias", [0.0, -0.7])
def test_logit_at_a_point_is_the_moment_without_variance(bias):
    latent = np.concatenate([np.linspace(-30.0, 30.0, 201), [-800.0, 800.0, 0.0]])[:, None]
    for target in (-1.0, 1.0):
        terms = Logit(bias).mode_terms(np.full(len(latent), target), latent)
        moments = Logit(bias).tilted_moments(target, latent[:, 0], 0.0)
        np.testing.assert_allclose(terms.log_density, moments.log_z, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(terms.gradient[:, 0], moments.log_z_slope, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(terms.curvature[:, 0], moments.log_z_curvature, rtol=1e-9, atol=1e-15)
        assert np.all(terms.curvature >= 0.0)
