"""Local blocks against dense versions: sites, marginals, evidence, and the models at both ends."""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgp.inference import Sites, expectation_propagation
from streamgp.inference.inducing.basis import JITTER, make_basis, whiten
from streamgp.inference.inducing.fit import fit_sites
from streamgp.inference.inducing.in_memory import Rows
from streamgp.inference.inducing.posterior import InducingPosterior, prior_posterior
from streamgp.inference.inducing.sweep import exact_evidence, flat_sites, log_evidence
from streamgp.inference.local.factor import MOST_ROUNDED, factor_block
from streamgp.inference.local.left_out import left_out_block
from streamgp.inference.local.marginals import block_marginals
from streamgp.inference.local.prior import BlockPrior, block_prior
from streamgp.inference.local.sweep import exact_block, merge_local, moments_of_sites, sweep_block
from streamgp.kernels import RBF, Linear, Matern32, White
from streamgp.likelihoods import Gaussian, Logit, Probit
from streamgp.numerics.projection import project
from tests.inference.test_fitc import agree
from tests.reference import fitc_dense, gp_dense, pic_dense

JITTER64 = JITTER[np.dtype(np.float64)]
LIKELIHOODS = [Probit(bias=0.2), Logit(bias=-0.1)]


class LocalFit(NamedTuple):
    """A fit of all blocks: sites, means, variances and left-out log densities (n,), evidence, posterior."""

    priors: list[BlockPrior]
    posterior: InducingPosterior
    sites: Sites
    mean: np.ndarray
    variance: np.ndarray
    left_out: np.ndarray
    evidence: float
    residual: float
    skipped: int


def members(blocks):
    return [np.flatnonzero(blocks == number) for number in np.unique(blocks)]


def part(sites, rows):
    return Sites(sites.precision[rows], sites.precision_mean[rows])


def scattered(pieces, groups):
    """Values of blocks in the order of rows."""
    joined = np.empty(sum(map(len, groups)))
    joined[np.concatenate(groups)] = np.concatenate(pieces)
    return joined


def fit_local(
    basis, likelihood, X, y, blocks, *, tolerance=1e-11, dtype=np.float64, weights=None, sweeps=300
):
    """EP over all blocks to convergence, from flat sites."""
    groups = members(blocks)
    priors = [block_prior(basis, X[rows]) for rows in groups]
    sites, posterior, damping, before = flat_sites(len(X)), prior_posterior(basis.size), 0.9, np.inf
    for _ in range(sweeps):
        swept = [
            sweep_block(
                prior,
                posterior.astype(dtype),
                y[rows],
                likelihood,
                part(sites, rows),
                damping,
                weights=None if weights is None else weights[rows],
            )
            for prior, rows in zip(priors, groups, strict=True)
        ]
        sums = reduce(merge_local, [one.sums for one in swept]).sums
        evidence = log_evidence(posterior, sums)
        sites = Sites(*(scattered([one.sites[k] for one in swept], groups) for k in range(2)))
        posterior = sums.posterior()
        damping = max(0.1, 0.5 * damping) if sums.moment_residual > before else min(1.0, 1.25 * damping)
        before = sums.moment_residual
        if before < tolerance:
            break
    found = [
        block_marginals(factor_block(prior, part(sites, rows)), posterior)
        for prior, rows in zip(priors, groups, strict=True)
    ]
    return LocalFit(
        priors,
        posterior,
        sites,
        scattered([one.mean for one in found], groups),
        scattered([one.variance for one in found], groups),
        scattered([one.left_out for one in swept], groups),
        evidence,
        before,
        sums.skipped,
    )


def exact_local(basis, likelihood, X, y, blocks):
    """Regression by all blocks: posterior, evidence, left-out densities (n,)."""
    groups = members(blocks)
    priors = [block_prior(basis, X[rows]) for rows in groups]
    swept = [exact_block(prior, y[rows], likelihood) for prior, rows in zip(priors, groups, strict=True)]
    sums = reduce(merge_local, [one.sums for one in swept]).sums
    posterior = sums.posterior()
    left_out = [
        left_out_block(prior, posterior, y[rows], likelihood)[0]
        for prior, rows in zip(priors, groups, strict=True)
    ]
    sites = Sites(*(scattered([one.sites[k] for one in swept], groups) for k in range(2)))
    densities = scattered([one.log_density for one in left_out], groups)
    return posterior, exact_evidence(posterior, sums), densities, sites


def problem(seed, *, rows=36, inducing=6, blocks=4):
    """Rows with a duplicate within a block and one across blocks, inducing inputs of which one is a row."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((rows, 2))
    groups = generator.integers(0, blocks, rows)
    X[3], groups[3] = X[1], groups[1]
    X[5], groups[5] = X[1], (groups[1] + 1) % blocks
    y = np.where(X[:, 0] + 0.5 * generator.standard_normal(rows) > 0, 1.0, -1.0)
    Z = generator.standard_normal((inducing, 2))
    Z[0] = X[2]
    return X, y, Z, groups


@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**20),
    likelihood=st.sampled_from(LIKELIHOODS),
    variance=st.floats(0.3, 8.0),
    lengthscale=st.floats(0.4, 3.0),
    blocks=st.sampled_from([1, 2, 5]),
)
def test_sites_marginals_and_evidence_are_those_of_dense_ep(seed, likelihood, variance, lengthscale, blocks):
    X, y, Z, groups = problem(seed, blocks=blocks)
    kernel = RBF(variance, lengthscale) + White(0.01)
    gram = pic_dense.prior(kernel, Z, X, groups, JITTER64)
    expected = fitc_dense.full_ep(gram, likelihood, y, tolerance=1e-11)
    found = fit_local(make_basis(kernel, Z), likelihood, X, y, groups)
    assert found.skipped == 0
    agree(found.sites.precision, expected.precision, 1e-8)
    agree(found.sites.precision_mean, expected.precision_mean, 1e-8)
    agree(found.mean, expected.mean, 1e-8)
    agree(found.variance, expected.variance, 1e-8)
    agree(found.evidence, expected.evidence, 1e-8)
    log_z = likelihood.tilted_moments(y, expected.cavity_mean, expected.cavity_variance).log_z
    agree(found.left_out, log_z, 1e-8)


@given(
    seed=st.integers(0, 2**20),
    scale=st.sampled_from([0.0, 1e-9, 1e-5, 1e-2, 1.0, 1e4]),
    share=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_marginals_of_any_sites_are_those_of_the_dense_posterior(seed, scale, share):
    """Sharp, flat and absent sites side by side; means of sites that say nothing of their precision."""
    X, _, Z, groups = problem(seed)
    generator = np.random.default_rng(seed)
    kernel = Matern32(3.0, 0.8)
    precision = generator.gamma(0.5, 2.0, len(X)) * np.where(generator.random(len(X)) < share, scale, 1.0)
    sites = Sites(precision, generator.standard_normal(len(X)))
    gram = pic_dense.prior(kernel, Z, X, groups, JITTER64)
    mean, covariance = fitc_dense.gaussian_posterior(gram, *sites)
    basis, rows_of = make_basis(kernel, Z), members(groups)
    priors = [block_prior(basis, X[rows]) for rows in rows_of]
    pieces = list(zip(priors, rows_of, strict=True))
    posterior = reduce(
        merge_local, [moments_of_sites(prior, part(sites, rows)) for prior, rows in pieces]
    ).sums.posterior()
    for prior, rows in pieces:
        found = block_marginals(factor_block(prior, part(sites, rows)), posterior)
        agree(found.mean, mean[rows], 1e-8)
        agree(found.variance, np.diag(covariance)[rows], 1e-8)
        agree(found.variance_ratio, 1 - precision[rows] * np.diag(covariance)[rows], 1e-8)
        agree(found.dual_weights, sites.precision_mean[rows] - precision[rows] * mean[rows], 1e-8)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_blocks_of_one_row_are_fitc(likelihood):
    """There sites stand on s = wᵀu, here on f = s + e: integrating e out of ours gives those of FITC."""
    X, y, Z, _ = problem(5)
    kernel = RBF(3.0, 0.9)
    basis = make_basis(kernel, Z)
    fitc = fit_sites(basis, likelihood, Rows(X, y), tolerance=1e-11)
    found = fit_local(basis, likelihood, X, y, np.arange(len(X)))
    rows = whiten(basis, X)
    D = rows.residual_variance
    agree(found.sites.precision / (1 + D * found.sites.precision), fitc.sites.precision, 1e-8)
    agree(found.sites.precision_mean / (1 + D * found.sites.precision), fitc.sites.precision_mean, 1e-8)
    agree(found.evidence, fitc.evidence, 1e-8)
    agree(found.posterior.inducing_mean, fitc.posterior.inducing_mean, 1e-8)
    agree(found.posterior.spread, fitc.posterior.spread, 1e-8)
    ms, vs = project(rows.features, fitc.posterior.spread, fitc.posterior.projected_targets)
    # The marginal of f by FITC: its cavity, plus e, times the site on f.
    ratio = 1 - fitc.sites.precision * vs
    cavity_variance, cavity_mean = vs / ratio + D, (ms - vs * fitc.sites.precision_mean) / ratio
    agree(found.variance, 1 / (1 / cavity_variance + found.sites.precision), 1e-8)
    agree(found.mean, found.variance * (cavity_mean / cavity_variance + found.sites.precision_mean), 1e-8)


@pytest.mark.parametrize("noise", [0.3, 1e-4])
def test_one_block_of_all_rows_is_exact_regression(noise):
    X, _, Z, _ = problem(7)
    y = np.sin(2 * X[:, 0])
    kernel = Matern32(1.5, 0.8) + Linear(0.2)
    gram = np.asarray(kernel.gram(X))
    one = np.zeros(len(X), int)
    posterior, evidence, left_out, sites = exact_local(make_basis(kernel, Z), Gaussian(noise), X, y, one)
    agree(evidence, pic_dense.regression(gram, noise, y), 1e-8)
    agree(left_out, pic_dense.left_one_out(gram, noise, y), 1e-8)
    found = block_marginals(factor_block(block_prior(make_basis(kernel, Z), X), sites), posterior)
    mean, variance = gp_dense.posterior_marginals(gram, gram, gram.diagonal(), *sites)
    agree(found.mean, mean, 1e-8)
    agree(found.variance, variance, 1e-8)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_one_block_of_all_rows_is_full_ep(likelihood):
    X, y, Z, _ = problem(2)
    kernel = Matern32(2.0, 1.0)
    expected = expectation_propagation(np.asarray(kernel.gram(X)), y, likelihood, tolerance=1e-10)
    found = fit_local(make_basis(kernel, Z), likelihood, X, y, np.zeros(len(X), int))
    agree(found.sites.precision, expected.sites.precision, 1e-6)
    agree(found.mean, expected.marginals.mean, 1e-6)
    agree(found.variance, expected.marginals.variance, 1e-6)
    agree(found.evidence, expected.log_evidence, 1e-6)
    agree(found.left_out, expected.left_out_log_density, 1e-6)


@pytest.mark.parametrize("noise", [0.5, 1e-3, 1e-6])
def test_regression_by_blocks_is_dense(noise):
    X, _, Z, groups = problem(3)
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    kernel = Matern32(1.5, 0.8)
    gram = pic_dense.prior(kernel, Z, X, groups, JITTER64)
    _, evidence, left_out, _ = exact_local(make_basis(kernel, Z), Gaussian(noise), X, y, groups)
    agree(evidence, pic_dense.regression(gram, noise, y), 1e-8)
    agree(left_out, pic_dense.left_one_out(gram, noise, y), 1e-8 if noise > 1e-4 else 1e-5)


def test_the_general_sweep_needs_one_pass_of_gaussian_noise():
    X, _, Z, groups = problem(7)
    y = np.sin(2 * X[:, 0])
    basis, likelihood = make_basis(RBF(1.5, 0.8), Z), Gaussian(0.2)
    posterior, evidence, left_out, sites = exact_local(basis, likelihood, X, y, groups)
    found = fit_local(basis, likelihood, X, y, groups, tolerance=1e-8, sweeps=8)
    agree(found.sites.precision, sites.precision, 1e-10)
    agree(found.posterior.inducing_mean, posterior.inducing_mean, 1e-9)
    agree(found.evidence, evidence, 1e-9)
    agree(found.left_out, left_out, 1e-9)


@pytest.mark.parametrize(
    "case", ["duplicates", "identical", "constant feature", "one class a block", "one class"]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_hard_rows(case, dtype):
    X, y, Z, groups = problem(4, rows=60, blocks=3)
    if case == "duplicates":
        X = np.repeat(X[:15], 4, axis=0)
    elif case == "identical":
        X, Z = np.ones_like(X), np.ones_like(Z)
    elif case == "constant feature":
        X, Z = np.column_stack([X, np.full(60, 7.0)]), np.column_stack([Z, np.full(len(Z), 7.0)])
    elif case == "one class a block":
        y = np.where(groups == 1, 1.0, -1.0)
    else:
        y = np.ones(60)
    kernel = RBF(20.0, 1.0)
    gram = pic_dense.prior(kernel, Z, X, groups, JITTER64)
    expected = fitc_dense.full_ep(gram, Probit(), y, tolerance=1e-10)
    found = fit_local(make_basis(kernel, Z), Probit(), X, y, groups, dtype=dtype, tolerance=1e-10, sweeps=80)
    tolerance = 1e-7 if dtype is np.float64 else 1e-3
    assert found.skipped == 0
    agree(found.mean, expected.mean, tolerance)
    agree(found.variance, expected.variance, tolerance)
    agree(found.evidence, expected.evidence, tolerance)


def test_regression_of_identical_rows():
    X, y = np.ones((40, 3)), np.random.default_rng(0).standard_normal(40)
    kernel, groups = RBF(2.0, 1.0), np.arange(40) % 3
    gram = pic_dense.prior(kernel, X[:5], X, groups, JITTER64)
    _, evidence, left_out, _ = exact_local(make_basis(kernel, X[:5]), Gaussian(0.1), X, y, groups)
    agree(evidence, pic_dense.regression(gram, 0.1, y), 1e-8)
    agree(left_out, pic_dense.left_one_out(gram, 0.1, y), 1e-8)


def test_single_precision_is_close_where_most_sites_are_flat():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((300, 3))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    basis, groups = make_basis(RBF(100.0, 1.0), X[:30]), np.arange(300) // 100
    double, single = (
        fit_local(basis, Probit(), X, y, groups, dtype=dtype, tolerance=1e-4)
        for dtype in (np.float64, np.float32)
    )
    assert np.min(double.sites.precision) < 1e-5
    agree(single.mean, double.mean, 1e-3)
    agree(single.left_out, double.left_out, 1e-3)
    agree(single.evidence, double.evidence, 1e-3)


def test_a_rounded_factor_keeps_the_variances_of_rows_that_say_little():
    """Sites from sharp to next to nothing side by side; relative to each row's own variance."""
    X, _, Z, _ = problem(3)
    generator = np.random.default_rng(0)
    prior = block_prior(make_basis(Matern32(30.0, 0.8), Z), X)
    precision = 10.0 ** generator.uniform(-14.0, 0.0, len(X))
    precision[::9] = 0.0
    sites = Sites(precision, generator.standard_normal(len(X)) * np.sqrt(precision))
    posterior = moments_of_sites(prior, sites).sums.posterior()
    exact = block_marginals(factor_block(prior, sites), posterior)
    factor = factor_block(prior, sites, None, np.float32)
    assert factor.lower.dtype == np.float32
    assert factor.log_determinant == pytest.approx(factor_block(prior, sites).log_determinant, rel=1e-5)
    found = block_marginals(factor, posterior.astype(np.float32))
    np.testing.assert_allclose(found.variance, exact.variance, rtol=1e-4)
    np.testing.assert_allclose(found.residual_variance, exact.residual_variance, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.mean, exact.mean, rtol=1e-4, atol=1e-4)


def test_a_factor_far_from_1_is_not_rounded():
    X, _, Z, _ = problem(3)
    prior = block_prior(make_basis(Matern32(3.0, 0.8), Z), X)
    sharp = Sites(np.full(len(X), MOST_ROUNDED), np.ones(len(X)))
    assert factor_block(prior, sharp, None, np.float32).lower.dtype == np.float64


def test_weights_count_rows_several_times():
    X, y, Z, groups = problem(9)
    counts = np.random.default_rng(1).integers(1, 4, len(X))
    basis = make_basis(RBF(2.0, 0.8), Z)
    weighted = fit_local(basis, Probit(0.1), X, y, groups, weights=counts.astype(float))
    repeated = fit_local(
        basis, Probit(0.1), np.repeat(X, counts, 0), np.repeat(y, counts), np.repeat(groups, counts)
    )
    agree(np.repeat(weighted.sites.precision, counts), repeated.sites.precision, 1e-7)
    agree(weighted.posterior.inducing_mean, repeated.posterior.inducing_mean, 1e-7)
    agree(weighted.evidence, repeated.evidence, 1e-8)
    exact = exact_block(block_prior(basis, X), X[:, 0], Gaussian(0.2), weights=counts.astype(float)).sums
    copies = exact_block(
        block_prior(basis, np.repeat(X, counts, 0)), np.repeat(X[:, 0], counts), Gaussian(0.2)
    ).sums
    agree(exact.sums.moment_vector, copies.sums.moment_vector, 1e-8)
    agree(exact.sums.evidence, copies.sums.evidence, 1e-8)


def test_sums_tell_how_far_left_out_densities_have_moved():
    X, y, Z, _ = problem(1)
    prior = block_prior(make_basis(RBF(2.0, 1.0), Z), X)
    first = sweep_block(prior, prior_posterior(len(Z)), y, Probit(), flat_sites(len(X)), 1.0)
    assert first.sums.mean_left_out_change == 0.0
    agree(first.sums.left_out_log_density, first.left_out.sum(), 1e-12)
    posterior = first.sums.sums.posterior()
    second = sweep_block(prior, posterior, y, Probit(), first.sites, 0.7, left_out=first.left_out)
    expected = np.mean(np.abs(second.left_out - first.left_out))
    assert second.sums.mean_left_out_change == pytest.approx(expected, rel=1e-12)


def test_a_row_without_a_cavity_keeps_its_site_and_is_counted():
    X, y, Z, _ = problem(1)
    prior = block_prior(make_basis(RBF(2.0, 1.0), Z), X)
    sites = Sites(np.full(len(X), 0.1), np.zeros(len(X)))
    sites.precision[4] = 1e14  # so sharp that nothing of the marginal is left to the others
    swept = sweep_block(prior, prior_posterior(len(Z)), y, Probit(), sites, 1.0)
    assert swept.sums.sums.skipped == 1
    assert swept.sites.precision[4] == 1e14
    assert np.all(swept.sites.precision[:4] != 0.1)
    assert np.isfinite(swept.sums.sums.evidence)


@given(mean=st.floats(-1e3, 1e3), log_variance=st.floats(-20.0, 27.0), target=st.sampled_from([-1.0, 1.0]))
def test_site_precisions_are_bounded_by_the_curvature_of_the_likelihood(mean, log_variance, target):
    """Why no sweep clips them: see sweep_block."""
    variance = np.exp(log_variance)
    assert 0.0 <= Probit(0.3).tilted_sites(target, mean, variance).site_precision[0] <= 1.0
    assert 0.0 <= Logit().tilted_sites(target, mean, variance).site_precision[0] <= 0.25 + 1e-9
