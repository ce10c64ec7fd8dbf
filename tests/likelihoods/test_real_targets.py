"""Likelihoods of real targets, counts and ordered categories, against brute force."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from streamgp.errors import ParameterError
from streamgp.likelihoods import Gaussian, Laplace, Ordinal, Poisson, StudentT, likelihood_from_json
from tests.reference.likelihoods_dense import mass_below_dense

ORDINAL = Ordinal(4, thresholds=(-1.0, 0.2, 1.7))
ALL = [StudentT(0.3, 4.0), StudentT(0.05, 2.5), StudentT(1.0, 60.0), Laplace(0.3), Poisson(0.7), ORDINAL]
TARGETS = {Poisson: np.array([0.0, 1.0, 3.0, 12.0]), Ordinal: np.arange(4.0)}
REAL = np.array([0.0, -0.4, 2.0, 6.0])
MEANS = (-1.2, 0.0, 0.9)
VARIANCES = (1e-3, 0.2, 3.0, 40.0)

every = pytest.mark.parametrize("likelihood", ALL, ids=repr)
powers = pytest.mark.parametrize("power", [1.0, 0.5])


def log_density(likelihood, y, f):
    """The density by SciPy's book."""
    if isinstance(likelihood, StudentT):
        return stats.t.logpdf((y - f) / likelihood.scale, likelihood.degrees) - np.log(likelihood.scale)
    if isinstance(likelihood, Laplace):
        return stats.laplace.logpdf(y - f, scale=likelihood.scale)
    if isinstance(likelihood, Poisson):
        return y * (f + likelihood.bias) - np.exp(f + likelihood.bias) - gammaln(y + 1)
    edges = np.concatenate([[-np.inf], likelihood.thresholds, [np.inf]])
    lower, upper = edges[int(y)] - f, edges[int(y) + 1] - f
    flip = lower > 0
    lower, upper = np.where(flip, -upper, lower), np.where(flip, -lower, upper)
    return np.log(stats.norm.cdf(upper) - stats.norm.cdf(lower))


def nodes(mean, variance, target):
    """Gauss-Legendre panels around prior and target, fine enough for a kink and for two peaks."""
    root = np.sqrt(variance)
    widths = np.array([0.0, 1e-3, 1e-2, 0.03, 0.1, 0.3, 0.6, 1, 2, 3, 5, 8, 13, 20, 30])
    around = [
        centre + sign * scale * widths for centre in (mean, target) for sign in (-1, 1) for scale in (1, root)
    ]
    edges = np.unique(np.concatenate(around))
    edges = edges[np.abs(edges - mean) <= 30 * root]
    x, w = np.polynomial.legendre.leggauss(40)
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    return (half[:, None] * x + middle[:, None]).ravel(), (half[:, None] * w).ravel()


def brute_force(likelihood, target, mean, variance, power):
    """Log Z, slope, curvature, and E[log p] by f-nodes; curvature by tilted moments."""
    f, w = nodes(mean, variance, target)
    with np.errstate(divide="ignore"):
        value = power * log_density(likelihood, target, f) + stats.norm.logpdf(f, mean, np.sqrt(variance))
    top = value.max()
    p = w * np.exp(value - top)
    total = p.sum()
    first = p @ (f - mean) / total
    spread = p @ (f - mean - first) ** 2 / total
    return top + np.log(total), first / variance, (1 - spread / variance) / variance, spread / variance


@every
@powers
def test_moments_and_sites_equal_brute_force(likelihood, power):
    for target in TARGETS.get(type(likelihood), REAL):
        for mean in MEANS:
            for variance in VARIANCES:
                log_z, slope, curvature, shrinkage = brute_force(likelihood, target, mean, variance, power)
                found = likelihood.tilted_moments(target, mean, variance, power=power)
                assert found.log_z[0] == pytest.approx(log_z, rel=1e-8, abs=1e-8)
                assert found.log_z_slope[0] == pytest.approx(slope, rel=1e-6, abs=1e-6)
                expected = max(curvature, 0.0)
                assert variance * found.log_z_curvature[0] == pytest.approx(variance * expected, abs=1e-7)
                site = likelihood.tilted_sites(target, mean, variance, power=power)
                divisor = shrinkage if curvature > 0 else 1.0
                assert site.site_precision[0] == pytest.approx(expected / divisor, rel=1e-4, abs=1e-3)
                wanted = (slope + expected * mean) / divisor
                assert site.site_precision_mean[0] == pytest.approx(wanted, rel=1e-4, abs=1e-3)


@every
@powers
def test_parameter_gradient_equals_finite_differences(likelihood, power):
    targets = TARGETS.get(type(likelihood), REAL)
    mean, variance = np.array([-1.0, 0.1, 0.5, 1.0]), np.array([0.01, 0.5, 2.0, 20.0])
    found = likelihood.parameter_gradient(targets, mean, variance, power=power)
    vector, step = likelihood.parameters, 1e-4
    assert found.shape == (len(vector), 4)
    for i, row in enumerate(found):
        change = step * (np.arange(len(vector)) == i)
        low, high = (
            likelihood.with_parameters(vector + sign * change).tilted_moments(
                targets, mean, variance, power=power
            )
            for sign in (-1, 1)
        )
        np.testing.assert_allclose(row, (high.log_z - low.log_z) / (2 * step), rtol=1e-5, atol=1e-6)


@every
def test_predictive_mean_and_variance_are_those_of_draws(likelihood):
    """By the same nodes: E[E[y|f]] and the law of total variance, with SciPy's conditional moments."""
    mean, variance = np.array([-0.5, 0.8]), np.array([0.1, 0.6])
    for h, a, found_mean, found_variance in zip(
        mean,
        variance,
        likelihood.predictive_mean(mean, variance),
        likelihood.predictive_variance(mean, variance),
        strict=True,
    ):
        f, w = nodes(h, a, h)
        weight = w * stats.norm.pdf(f, h, np.sqrt(a))
        if isinstance(likelihood, Ordinal):
            numbers = np.arange(likelihood.categories)
            p = np.stack([np.exp(log_density(likelihood, j, f)) for j in numbers])
            m, second = numbers @ p, numbers**2 @ p
        elif isinstance(likelihood, Poisson):
            m = np.exp(f + likelihood.bias)
            second = m + m**2
        else:
            scale = likelihood.scale
            noise = stats.laplace.var(scale=scale)
            if isinstance(likelihood, StudentT):
                noise = scale**2 * stats.t.var(likelihood.degrees)
            m, second = f, noise + f**2
        assert found_mean == pytest.approx(weight @ m, rel=1e-8)
        assert found_variance == pytest.approx(weight @ second - (weight @ m) ** 2, rel=1e-7)


@every
def test_densities_sum_to_one_and_likelihoods_can_be_saved(likelihood):
    if isinstance(likelihood, Poisson | Ordinal):
        values = np.arange(400.0) if isinstance(likelihood, Poisson) else np.arange(4.0)
        assert np.exp(likelihood.log_predictive_density(values, 0.3, 0.5)).sum() == pytest.approx(1, abs=1e-8)
    assert likelihood_from_json(json.loads(json.dumps(likelihood.to_json()))) == likelihood


@every
def test_moments_stay_finite_at_the_ends(likelihood):
    targets = TARGETS.get(type(likelihood), np.array([0.0, 1e3, -1e5, 1e-9]))
    for variance in (0.0, 1e-14, 1e6, 1e12):
        for mean in (-1e3, 0.0, 1e3):
            log_z, slope, curvature = likelihood.tilted_moments(targets, mean, variance)
            assert np.isfinite([log_z, slope, curvature]).all()
            assert np.all((curvature >= 0) & (curvature * variance < 1))
            assert np.isfinite(np.stack(likelihood.tilted_sites(targets, mean, variance))).all()


def test_two_ordered_categories_are_a_probit():
    from streamgp.likelihoods import Probit

    mean, variance = np.linspace(-60, 60, 41), 2.0
    ordered, signs = Ordinal(2, thresholds=(-0.4,)), Probit(0.4)
    for code, sign in ((0.0, -1.0), (1.0, 1.0)):
        for one, other in zip(
            ordered.tilted_sites(code, mean, variance), signs.tilted_sites(sign, mean, variance), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_starts_are_chosen_by_the_targets():
    generator = np.random.default_rng(0)
    assert Poisson().started(np.array([4.0, 6.0])).bias == pytest.approx(np.log(5.0))
    assert Poisson(0.5).started(np.array([4.0, 6.0])).bias == 0.5
    started = Ordinal(3).started(generator.choice(3, 3000, p=[0.2, 0.5, 0.3]).astype(float))
    shares = started.category_probabilities([0.0], [1.0])[0]
    np.testing.assert_allclose(shares, [0.2, 0.5, 0.3], atol=0.03)


@pytest.mark.parametrize("arguments", [(1,), (3, (0.0,)), (3, (1.0, 0.0)), (2.5,), (True,)])
def test_ordinal_refuses_what_is_no_order(arguments):
    with pytest.raises(ParameterError, match="Ordinal"):
        Ordinal(*arguments)


def test_normal_noise_may_be_told_by_a_density_of_the_same_variance_and_longer_tails():
    plain, longer = Gaussian(0.3), Gaussian(0.3, degrees=3.0)
    targets, means, variances = np.array([0.1, -2.0, 7.0]), np.array([0.0, 0.5, -1.0]), np.full(3, 0.2)
    twin = StudentT(np.sqrt(0.3 / 3.0), 3.0)
    for target, mean, found in zip(
        targets, means, longer.log_predictive_density(targets, means, variances), strict=True
    ):
        f, w = nodes(mean, 0.2, target)
        terms = np.exp(log_density(twin, target, f) + stats.norm.logpdf(f, mean, np.sqrt(0.2)))
        np.testing.assert_allclose(found, np.log(terms @ w), rtol=1e-6)
    for name in ("tilted_moments", "tilted_sites", "parameter_gradient"):
        ours, other = (getattr(each, name)(targets, means, variances) for each in (longer, plain))
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(other))  # inference is the same
    np.testing.assert_array_equal(
        longer.predictive_variance(means, variances), plain.predictive_variance(means, variances)
    )
    assert likelihood_from_json(longer.to_json()) == longer
    assert "degrees" not in plain.to_json()
    with pytest.raises(ParameterError, match="more than 2 degrees"):
        Gaussian(0.1, degrees=2.0)


@pytest.mark.parametrize(
    "likelihood",
    [
        Gaussian(0.3),
        Gaussian(0.3, degrees=3.0),
        Gaussian(0.01, degrees=2.1),
        StudentT(0.3, 4.0),
        StudentT(1.0, 60.0),
        Laplace(0.3),
    ],
    ids=repr,
)
@pytest.mark.parametrize("variance", [1e-6, 0.04, 3.0])
def test_mass_is_the_integral_of_the_density(likelihood, variance):
    targets, mean = np.array([-4.0, -0.3, 0.5, 0.7, 2.5, 9.0]), 0.5
    found = likelihood.mass_below(targets, mean, variance)

    def density(y):
        return likelihood.log_predictive_density([y], [mean], [variance])[0]

    deviation = np.sqrt(variance + getattr(likelihood, "noise", 0.1))
    wanted = [mass_below_dense(density, target, mean, deviation) for target in targets]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    assert found[2] == pytest.approx(0.5)


def test_mass_of_wide_tails_is_that_of_the_book():
    targets = np.array([-1e6, -30.0, -1.0, 0.0, 2.0, 50.0])
    for degrees in (0.5, 1.0, 2.1, 8.0, 100.0):
        found = StudentT(0.3, degrees).mass_below(targets, 0.0, 0.0)
        np.testing.assert_allclose(found, stats.t.cdf(targets / 0.3, degrees), rtol=1e-9, atol=1e-15)
    found = Laplace(0.3).mass_below(targets, 0.0, 0.0)
    np.testing.assert_allclose(found, stats.laplace.cdf(targets, scale=0.3), atol=1e-12)
