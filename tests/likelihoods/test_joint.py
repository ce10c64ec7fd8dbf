"""Joint likelihoods: against brute force in both representations, their symmetries, and their extremes."""

import dataclasses
import itertools
import json
import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from streamgp.errors import ParameterError
from streamgp.likelihoods import (
    JointLikelihood,
    Logit,
    MultivariateProbit,
    Probit,
    Softmax,
    likelihood_from_json,
)
from tests.reference.joint_dense import frequencies_by_sampling, tilted_by_latents, tilted_by_value
from tests.reference.likelihoods_dense import site_textbook

NOISE = {MultivariateProbit: "normal", Softmax: "gumbel"}
families = pytest.mark.parametrize("family", [MultivariateProbit, Softmax])


def random_rows(n_rows, n_classes, largest, seed=0, spread=3.0):
    """Codes, means and variances: from equal variances to one wide class among narrow ones."""
    generator = np.random.default_rng(seed)
    variance = largest * 10 ** (-3 * generator.random((n_rows, n_classes)))
    variance[0], variance[1] = largest, 1e-3
    variance[1, 0] = largest
    scale = spread * np.sqrt(1 + 0.3 * largest * (np.arange(n_rows) % 2))
    mean = scale[:, None] * generator.standard_normal((n_rows, n_classes))
    mean[1] = 0.0
    codes = generator.integers(0, n_classes, n_rows)
    codes[1] = 0
    return codes, mean, variance


def assert_moments(found, i, expected, tolerance):
    np.testing.assert_allclose(found.log_z[i], expected[0], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found.log_z_slope[i], expected[1], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found.log_z_curvature[i], expected[2], rtol=tolerance, atol=tolerance)


# Values ------------------------------------------------------------------------------------------


@families
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize(("largest", "tolerance"), [(1.0, 1e-8), (10.0, 1e-8)])
def test_moments_equal_a_dense_grid_of_the_winners_value(family, n_classes, largest, tolerance):
    codes, mean, variance = random_rows(8, n_classes, largest, n_classes)
    found = family().tilted_moments(codes, mean, variance)
    for i in range(8):
        expected = tilted_by_value(NOISE[family], codes[i], mean[i], variance[i])
        assert_moments(found, i, expected, tolerance)


@families
@pytest.mark.parametrize(("largest", "tolerance"), [(100.0, 1e-5), (1000.0, 1e-5)])
def test_moments_of_large_variances_equal_a_dense_grid(family, largest, tolerance):
    """The requirement is 1e-3 at 1000."""
    codes, mean, variance = random_rows(3, 3, largest, 5)
    found = family().tilted_moments(codes, mean, variance)
    for i in range(1, 3):
        expected = tilted_by_value(NOISE[family], codes[i], mean[i], variance[i], step=0.5)
        assert_moments(found, i, expected, tolerance)


@families
@pytest.mark.parametrize(("n_classes", "step"), [(2, 0.1), (3, 0.4)])
def test_moments_equal_a_tensor_grid_of_latent_values(family, n_classes, step):
    """The definition itself, without the winner's value; the grid's own error is below 1e-6."""
    generator = np.random.default_rng(n_classes)
    mean, variance = generator.uniform(-1.5, 1.5, (3, n_classes)), generator.uniform(0.3, 2.0, (3, n_classes))
    codes = np.arange(3) % n_classes
    found = family().tilted_moments(codes, mean, variance)
    for i in range(3):
        expected = tilted_by_latents(NOISE[family], codes[i], mean[i], variance[i], step)
        assert_moments(found, i, expected, 1e-6)


@families
@pytest.mark.parametrize("n_classes", [3, 10])
def test_probabilities_equal_frequencies_of_samples(family, n_classes):
    generator = np.random.default_rng(1)
    mean, variance = generator.standard_normal(n_classes), 4 * generator.random(n_classes)
    found = np.exp(family().log_probabilities(mean[None], variance[None])[0])
    n_samples = 200_000
    expected = frequencies_by_sampling(NOISE[family], mean, variance, n_samples, generator)
    error = np.sqrt(found * (1 - found) / n_samples)
    assert np.all(np.abs(found - expected) < 5 * error + 1e-5)


@families
@pytest.mark.parametrize("n_classes", [2, 3, 10, 26, 100])
@pytest.mark.parametrize("largest", [1.0, 30.0, 1000.0])
def test_probabilities_sum_to_one_and_agree_with_the_evidence(family, n_classes, largest):
    codes, mean, variance = random_rows(4, n_classes, largest, 3)
    likelihood = family()
    log_probabilities = likelihood.log_probabilities(mean, variance)
    np.testing.assert_allclose(logsumexp(log_probabilities, axis=1), 0.0, atol=1e-14)
    for c in range(0, n_classes, max(1, n_classes // 3)):
        log_z = likelihood.tilted_moments(np.full(4, c), mean, variance).log_z
        np.testing.assert_allclose(log_probabilities[:, c], log_z, rtol=2e-5, atol=2e-5)
    assert codes.size == 4


@families
def test_slope_and_curvature_are_the_derivatives(family):
    codes, mean, variance = random_rows(6, 4, 5.0, 7, spread=1.0)
    likelihood, step = family(), 1e-3
    here = likelihood.tilted_moments(codes, mean, variance)
    for c in range(4):
        change = step * (np.arange(4) == c)
        low, high = (likelihood.tilted_moments(codes, mean + s * change, variance) for s in (-1, 1))
        slope = (high.log_z - low.log_z) / (2 * step)
        np.testing.assert_allclose(here.log_z_slope[:, c], slope, atol=3e-7)
        bend = -(high.log_z_slope - low.log_z_slope)[:, c] / (2 * step)
        np.testing.assert_allclose(here.log_z_curvature[:, c], bend, atol=3e-7)


@families
def test_slopes_add_up_to_zero(family):
    """A constant added to all latent functions changes nothing."""
    codes, mean, variance = random_rows(20, 6, 10.0, 2)
    moments = family().tilted_moments(codes, mean, variance)
    np.testing.assert_allclose(moments.log_z_slope.sum(axis=1), 0.0, atol=1e-8)
    moved = family().tilted_moments(codes, mean + 7.0, variance)
    np.testing.assert_allclose(moved.log_z, moments.log_z, rtol=1e-9, atol=1e-9)


@families
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32 - 1))
def test_permuting_classes_permutes_the_result(family, seed):
    codes, mean, variance = random_rows(2, 3, 20.0, seed)
    likelihood = family((0.3, -0.2, 0.0))
    moments = likelihood.tilted_moments(codes, mean, variance)
    log_probabilities = likelihood.log_probabilities(mean, variance)
    for order in map(list, itertools.permutations(range(3))):
        other = family(tuple(np.array(likelihood.biases)[order]))
        found = other.tilted_moments(np.argsort(order)[codes], mean[:, order], variance[:, order])
        np.testing.assert_allclose(found.log_z, moments.log_z, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(found.log_z_slope, moments.log_z_slope[:, order], rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(
            found.log_z_curvature, moments.log_z_curvature[:, order], rtol=1e-9, atol=1e-9
        )
        np.testing.assert_allclose(
            other.log_probabilities(mean[:, order], variance[:, order]),
            log_probabilities[:, order],
            rtol=1e-9,
            atol=1e-9,
        )


def test_two_classes_are_the_probit_of_their_difference():
    """f_1 − f_0 + noise of variance 2: a probit of (f_1 − f_0)/√2."""
    codes, mean, variance = random_rows(30, 2, 10.0)
    found = MultivariateProbit((0.4, 0.1)).tilted_moments(codes, mean, variance)
    difference, total = mean[:, 1] - mean[:, 0] - 0.3, variance.sum(axis=1)
    expected = Probit().tilted_moments(2.0 * codes - 1.0, difference / np.sqrt(2), total / 2)
    np.testing.assert_allclose(found.log_z, expected.log_z, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.log_z_slope[:, 1], expected.log_z_slope / np.sqrt(2), atol=1e-10)
    np.testing.assert_allclose(found.log_z_curvature[:, 0], expected.log_z_curvature / 2, atol=1e-10)


def test_two_classes_are_the_logit_of_their_difference():
    codes, mean, variance = random_rows(30, 2, 10.0)
    found = Softmax((0.4, 0.1)).tilted_moments(codes, mean, variance)
    difference, total = mean[:, 1] - mean[:, 0] - 0.3, variance.sum(axis=1)
    expected = Logit().tilted_moments(2.0 * codes - 1.0, difference, total)
    np.testing.assert_allclose(found.log_z, expected.log_z, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.log_z_slope[:, 1], expected.log_z_slope, atol=1e-8)
    np.testing.assert_allclose(found.log_z_curvature[:, 1], expected.log_z_curvature, atol=1e-8)


# Sites -------------------------------------------------------------------------------------------


@families
def test_sites_match_the_moments(family):
    codes, mean, variance = random_rows(10, 4, 5.0)
    moments = family().tilted_moments(codes, mean, variance)
    sites = family().tilted_sites(codes, mean, variance)
    expected = site_textbook(moments.log_z_slope, moments.log_z_curvature, mean, variance)
    np.testing.assert_array_equal(sites.log_z, moments.log_z)
    np.testing.assert_allclose(sites.site_precision, expected[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(sites.site_precision_mean, expected[1], rtol=1e-9, atol=1e-12)


@families
def test_a_flat_site_carries_no_mean(family):
    """The winner is certain: nothing is learned about the others, nor about it."""
    sites = family().tilted_sites([0], [[1e4, 0.0, 1.0]], [[1.0, 0.0, 2.0]])
    flat = sites.site_precision == 0.0
    assert flat.any()
    assert np.all(sites.site_precision_mean[flat] == 0.0)
    np.testing.assert_allclose(sites.site_precision, 0.0, atol=1e-9)


@families
def test_large_variances_do_not_cancel(family):
    """π = ν/(1 − aν) of a class that the data contradict: at most 1, however large the variance is."""
    sites = family().tilted_sites([0, 0], [[-30.0, 5.0], [0.0, 0.0]], [[1e6, 1e6], [1e6, 1.0]])
    assert np.all(sites.site_precision >= 0.0)
    assert np.all(sites.site_precision <= 1.0)


# Points ------------------------------------------------------------------------------------------


@families
def test_mode_terms_are_the_moments_without_variance(family):
    codes, latent, _ = random_rows(20, 5, 1.0)
    likelihood = family((0.1, 0.2, 0.3, 0.0, -1.0))
    terms = likelihood.mode_terms(codes, latent)
    for found, expected in zip(
        terms, likelihood.tilted_moments(codes, latent, np.zeros_like(latent)), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-9)
    assert np.all(terms.curvature >= 0.0)
    step = 1e-4
    for c in range(5):
        change = step * (np.arange(5) == c)
        low, high = (likelihood.mode_terms(codes, latent + s * change) for s in (-1, 1))
        np.testing.assert_allclose(
            (high.log_density - low.log_density) / (2 * step), terms.gradient[:, c], atol=1e-6
        )
        bend = -(high.gradient - low.gradient)[:, c] / (2 * step)
        np.testing.assert_allclose(bend, terms.curvature[:, c], atol=1e-6)


def test_softmax_at_a_point_keeps_the_digits_of_a_confident_row():
    terms = Softmax().mode_terms([0, 1], [[50.0, 0.0], [50.0, 0.0]])
    tiny = np.exp(-50.0)
    np.testing.assert_allclose(terms.log_density, [-tiny, -50.0], rtol=1e-12)
    np.testing.assert_allclose(terms.gradient, [[tiny, -tiny], [-1.0, 1.0]], rtol=1e-12)
    np.testing.assert_allclose(terms.curvature, tiny, rtol=1e-12)


# Extremes ----------------------------------------------------------------------------------------


@families
def test_extremes_are_finite_and_silent(family):
    generator = np.random.default_rng(0)
    means, variances = [-1e4, -100.0, -1.0, 0.0, 3.0, 1e4], [-1e-12, 0.0, 1e-300, 1e-3, 1.0, 100.0, 1e6]
    mean = generator.choice(means, (300, 3))
    variance = generator.choice(variances, (300, 3))
    codes = generator.integers(0, 3, 300)
    likelihood = family()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        moments = likelihood.tilted_moments(codes, mean, variance)
        sites = likelihood.tilted_sites(codes, mean, variance)
        log_probabilities = likelihood.log_probabilities(mean, variance)
        terms = likelihood.mode_terms(codes, mean)
    for part in (*moments, *sites, log_probabilities, *terms):
        assert np.all(np.isfinite(part))
    assert np.all(moments.log_z <= 0.0)
    assert np.all(moments.log_z_curvature >= 0.0)
    assert np.all(moments.log_z_curvature * np.maximum(variance, 0.0) < 1.0)
    np.testing.assert_allclose(logsumexp(log_probabilities, axis=1), 0.0, atol=1e-14)
    relative = (log_probabilities[np.arange(300), codes] - moments.log_z) / (1 - moments.log_z)
    np.testing.assert_allclose(relative, 0.0, atol=1e-4)


@families
@pytest.mark.parametrize("scale", [1e9, 1e300])
def test_what_is_beyond_all_measure_is_finite_too(family, scale):
    mean = scale * np.array([[1.0, -1.0, 0.5], [0.0, 1.0, 1.0]])
    variance = np.array([[1.0, scale, 0.0], [scale, scale, 1.0]])
    for part in (
        *family().tilted_sites([0, 1], mean, variance),
        *family().tilted_sites([1, 0], mean, variance),
        family().log_probabilities(mean, variance),
    ):
        assert np.all(np.isfinite(part))


@families
def test_contradicted_rows_are_exact(family):
    """log Z of a hopeless class, from its asymptotics: −Δ²/2(2 + a + b) and so on; here by two classes."""
    gap, variance = 200.0, np.array([[3.0, 2.0]])
    found = family().tilted_moments([0], [[-gap, 0.0]], variance)
    if family is MultivariateProbit:
        expected = Probit().tilted_moments(-1.0, gap / np.sqrt(2), 2.5).log_z
    else:
        expected = Logit().tilted_moments(-1.0, gap, 5.0).log_z
    np.testing.assert_allclose(found.log_z, expected, rtol=1e-9)


# Values as objects -------------------------------------------------------------------------------


@families
def test_parameters_and_their_gradient(family):
    likelihood = family((0.5, -0.25, 0.0))
    assert isinstance(likelihood, JointLikelihood)
    assert likelihood.is_classification
    assert likelihood.parameter_names == ("bias[0]", "bias[1]", "bias[2]")
    np.testing.assert_array_equal(likelihood.parameters, [0.5, -0.25, 0.0])
    assert likelihood.with_parameters([1.0, 2.0, 3.0]) == family((1.0, 2.0, 3.0))
    assert likelihood.bounds.shape == (3, 2)
    assert likelihood.log_prior()[1] == pytest.approx([-0.02, 0.01, 0.0])
    codes, mean, variance = random_rows(6, 3, 5.0)
    gradient = likelihood.parameter_gradient(codes, mean, variance)
    assert gradient.shape == (3, 6)
    for c in range(3):
        change = 1e-3 * (np.arange(3) == c)
        low, high = (
            likelihood.with_parameters(likelihood.parameters + s * change).tilted_moments(
                codes, mean, variance
            )
            for s in (-1, 1)
        )
        np.testing.assert_allclose(gradient[c], (high.log_z - low.log_z) / 2e-3, atol=1e-6)
    free = family()
    assert free.parameters.shape == (0,)
    assert free.with_parameters([]) == free
    assert free.parameter_gradient(codes, mean, variance).shape == (0, 6)


@families
@pytest.mark.parametrize("biases", [None, (0.5, -0.25, 0.0)])
def test_round_trips(family, biases):
    likelihood = family(biases)
    text = json.dumps(likelihood.to_json())
    assert likelihood_from_json(text) == likelihood
    assert eval(repr(likelihood)) == likelihood
    again = pickle.loads(pickle.dumps(likelihood))
    assert again == likelihood
    assert hash(again) == hash(likelihood)
    assert family(None if biases is None else np.array(biases)) == likelihood
    with pytest.raises(dataclasses.FrozenInstanceError):
        likelihood.biases = None


def test_families_differ():
    assert Softmax() != MultivariateProbit()


@families
def test_shapes_and_types(family):
    likelihood = family()
    mean = np.zeros((3, 4), np.float32)
    moments = likelihood.tilted_moments(np.array([0, 1, 3], np.uint8), mean.tolist(), mean + 1)
    assert moments.log_z.shape == (3,)
    assert moments.log_z_slope.shape == moments.log_z_curvature.shape == (3, 4)
    assert all(part.dtype == np.float64 for part in moments)
    np.testing.assert_allclose(moments.log_z, np.log(0.25), rtol=1e-8)
    fortran = likelihood.tilted_moments([0, 1, 3], np.asfortranarray(mean), np.asfortranarray(mean + 1))
    np.testing.assert_array_equal(fortran.log_z_slope, moments.log_z_slope)
    empty = np.empty((0, 4))
    assert likelihood.tilted_sites([], empty, empty).site_precision.shape == (0, 4)
    assert likelihood.log_probabilities(empty, empty).shape == (0, 4)
    assert likelihood.mode_terms([], empty).gradient.shape == (0, 4)


@families
def test_wrong_input_is_named(family):
    likelihood, mean = family((0.0, 1.0, 2.0)), np.zeros((2, 3))
    with pytest.raises(ParameterError, match=r"codes run from 0 to 3; of 3 classes they must be 0 to 2"):
        likelihood.tilted_moments([0, 3], mean, mean)
    with pytest.raises(ParameterError, match=r"codes run from -1"):
        likelihood.mode_terms([0, -1], mean)
    with pytest.raises(ParameterError, match=r"codes have shape \(3,\); \(2,\) is needed"):
        likelihood.tilted_sites([0, 1, 2], mean, mean)
    with pytest.raises(ParameterError, match=r"\(2, 3\) and \(3,\)"):
        likelihood.log_probabilities(mean, np.zeros(3))
    with pytest.raises(ParameterError, match=r"\(2, 1\)"):
        likelihood.log_probabilities(np.zeros((2, 1)), np.zeros((2, 1)))
    with pytest.raises(ParameterError, match="has 3 biases, but the rows have 4 classes"):
        likelihood.log_probabilities(np.zeros((2, 4)), np.zeros((2, 4)))
    with pytest.raises(ParameterError, match=rf"biases\[1\] of {family.__name__} is nan"):
        family((0.0, np.nan))
    with pytest.raises(ParameterError, match="has 1 biases"):
        family((0.0,))


@families
def test_workspace_is_bounded(family):
    codes, mean, variance = random_rows(400, 10, 5.0)
    likelihood = family()
    for call in (
        lambda: likelihood.tilted_sites(codes, mean.astype(np.float32), variance),
        lambda: likelihood.log_probabilities(mean, variance),
        lambda: likelihood.mode_terms(codes, mean),
    ):
        call()
        tracemalloc.start()
        try:
            call()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak <= likelihood.workspace_bytes(400, 10)


@pytest.mark.parametrize("family", [Softmax, MultivariateProbit])
def test_biases_of_shares_are_what_an_ignorant_model_says(family):
    shares = np.array([0.6, 0.3, 0.0999, 0.0001])
    likelihood = family().of_shares(shares)
    ignorant = likelihood.log_probabilities(np.zeros((1, 4)), np.zeros((1, 4)))
    np.testing.assert_allclose(np.exp(ignorant[0]), shares, rtol=1e-3)
    assert sum(likelihood.biases) == pytest.approx(0.0, abs=1e-9)
    assert likelihood.of_shares(shares[::-1]) == likelihood
