"""Gradients of the evidence and of left-one-out densities against finite differences; bytes."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from streamgp.inference.inducing.basis import make_basis
from streamgp.inference.inducing.posterior import prior_posterior
from streamgp.inference.inducing.slopes import finish_evidence, merge_evidence
from streamgp.inference.inducing.sweep import flat_sites
from streamgp.inference.local.left_out import (
    finish_left_out,
    left_out_block,
    left_out_bytes,
    left_out_slopes,
    merge_left_out,
    merge_left_out_slopes,
)
from streamgp.inference.local.prediction import block_head, head_bytes, predict_block, predict_bytes
from streamgp.inference.local.prior import block_prior, prior_bytes
from streamgp.inference.local.slopes import evidence_block, evidence_bytes
from streamgp.inference.local.sweep import exact_block, sweep_block, sweep_bytes
from streamgp.kernels import RBF, Linear, Matern52, Polynomial, White
from streamgp.likelihoods import Gaussian, Logit, Probit
from tests.inference.test_fitc import agree
from tests.inference.test_fitc_evidence import peak_bytes
from tests.inference.test_local import exact_local, fit_local, members, part, problem
from tests.reference import pic_dense
from tests.reference.kernels_dense import derivative

KERNELS = [
    RBF(2.0, 1.1),
    RBF(1.3, (0.8, 1.6)) + Linear(0.4) + White(0.05),
    Matern52(1.2, 1.5) * Polynomial(2, 0.8, 1.1),
]


@pytest.mark.parametrize(
    "likelihood", [Probit(0.2), Logit(-0.1), Gaussian(0.3)], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gradient_equals_differences_of_refitted_evidence(kernel, likelihood):
    X, y, Z, groups = problem(6, rows=30, blocks=3)
    weights = np.random.default_rng(2).uniform(1.0, 2.0, len(X))
    basis = make_basis(kernel, Z)
    fit = fit_local(basis, likelihood, X, y, groups, weights=weights, tolerance=1e-12)
    pieces = [
        evidence_block(
            basis,
            prior,
            fit.posterior,
            X[rows],
            y[rows],
            likelihood,
            part(fit.sites, rows),
            weights=weights[rows],
            inputs=True,
        )
        for prior, rows in zip(fit.priors, members(groups), strict=True)
    ]
    found = finish_evidence(basis, fit.posterior, reduce(merge_evidence, pieces))
    agree(found.value, fit.evidence, 1e-10)
    start = np.concatenate([kernel.log_parameters, likelihood.parameters, Z.ravel()])
    n, k = len(kernel.log_parameters), len(kernel.log_parameters) + len(likelihood.parameters)

    def along(direction, t):
        moved = start + t * direction
        basis = make_basis(kernel.with_log_parameters(moved[:n]), moved[k:].reshape(Z.shape))
        other = likelihood.with_parameters(moved[n:k])
        return fit_local(basis, other, X, y, groups, weights=weights, tolerance=1e-10).evidence

    directions = np.zeros((k + 1, len(start)))
    directions[:k, :k] = np.eye(k)
    directions[k, k:] = np.random.default_rng(0).standard_normal(Z.size)
    gradient = np.concatenate(
        [found.kernel_gradient, found.likelihood_gradient, found.input_gradient.ravel()]
    )
    expected = np.array([derivative(lambda t, e=e: along(e, t), 1e-3) for e in directions])
    agree(directions @ gradient, expected, 1e-6)


@pytest.mark.parametrize("noise", [0.3, 0.003])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gradient_of_left_one_out_densities(kernel, noise):
    X, _, Z, groups = problem(6, rows=30, blocks=3)
    y = np.sin(2 * X[:, 0])
    likelihood = Gaussian(noise)
    found = left_out(kernel, likelihood, X, y, Z, groups)
    start = np.concatenate([kernel.log_parameters, likelihood.parameters])

    def density(moved):
        basis = make_basis(kernel.with_log_parameters(moved[:-1]), Z)
        return exact_local(basis, likelihood.with_parameters(moved[-1:]), X, y, groups)[2].sum()

    expected = [derivative(lambda t, e=e: density(start + t * e), 1e-3) for e in np.eye(len(start))]
    agree(np.concatenate([found.kernel_gradient, found.likelihood_gradient]), np.array(expected), 1e-7)
    agree(found.value, density(start), 1e-10)


def left_out(kernel, likelihood, X, y, Z, groups):
    """Sum of left-one-out log densities and gradient, in the three rounds that a learner makes."""
    basis = make_basis(kernel, Z)
    posterior = exact_local(basis, likelihood, X, y, groups)[0]
    pieces = [(block_prior(basis, X[rows]), rows) for rows in members(groups)]
    sums = reduce(
        merge_left_out, [left_out_block(prior, posterior, y[rows], likelihood)[1] for prior, rows in pieces]
    )
    slopes = reduce(
        merge_left_out_slopes,
        [left_out_slopes(basis, prior, posterior, X[r], y[r], likelihood, sums) for prior, r in pieces],
    )
    return finish_left_out(basis, likelihood, sums, slopes)


def test_left_out_predictions_are_those_of_the_other_rows():
    X, _, Z, groups = problem(2)
    y, kernel, likelihood = np.cos(X[:, 1]), Matern52(1.5, 0.8), Gaussian(0.05)
    basis = make_basis(kernel, Z)
    posterior = exact_local(basis, likelihood, X, y, groups)[0]
    for rows in members(groups):
        found, sums = left_out_block(block_prior(basis, X[rows]), posterior, y[rows], likelihood)
        for place, row in enumerate(rows[:3]):
            others = np.arange(len(X)) != row
            mean, variance = pic_dense.predict(
                kernel,
                Z,
                X[others],
                groups[others],
                X[[row]],
                groups[[row]],
                np.full(others.sum(), 1 / likelihood.noise),
                y[others] / likelihood.noise,
                basis.jitter,
            )
            agree(found.mean[place], mean[0], 1e-8)
            agree(found.variance[place], variance[0] + likelihood.noise, 1e-8)
        agree(sums.squared_error, np.sum((y[rows] - found.mean) ** 2), 1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("flat", [True, False])
def test_steps_stay_within_their_stated_bytes(dtype, flat):
    generator = np.random.default_rng(0)
    b, m, p = 400, 150, 6
    X, y = generator.standard_normal((b, p)), np.sign(generator.standard_normal(b))
    kernel, likelihood = RBF(2.0, (1.0,) * p), Probit()
    basis = make_basis(kernel, generator.standard_normal((m, p)))
    prior, posterior, sites = block_prior(basis, X), prior_posterior(m), flat_sites(b)
    if flat:  # all rows in the factor, none of which says anything
        sites = sites._replace(precision=np.full(b, 1e-40))
    else:
        sites, _, sums, *_ = sweep_block(prior, posterior, y, likelihood, sites, 0.8)
        posterior = sums.sums.posterior()
    streaming = posterior.astype(dtype)
    itemsize = np.dtype(dtype).itemsize

    def within(bound, work, least=0.25):
        assert least * bound < peak_bytes(work) <= bound

    within(
        sweep_bytes(likelihood, b, m, itemsize),
        lambda: sweep_block(prior, streaming, y, likelihood, sites, 0.8),
        least=0.2,  # room of either type is allowed for, one is taken
    )
    if dtype is np.float32:
        return
    noise = Gaussian(0.1)
    of_noise = exact_block(prior, y, noise).sums.sums.posterior()
    total = left_out_block(prior, of_noise, y, noise)[1]
    head = block_head(basis, posterior, X, sites)
    within(prior_bytes(kernel, b, m, p), lambda: block_prior(basis, X))
    within(sweep_bytes(noise, b, m, itemsize), lambda: exact_block(prior, y, noise), least=0.1)
    within(
        evidence_bytes(kernel, likelihood, b, m, p),
        lambda: evidence_block(basis, prior, posterior, X, y, likelihood, sites, inputs=True),
    )
    within(
        left_out_bytes(kernel, b, m, p),
        lambda: left_out_slopes(basis, prior, of_noise, X, y, noise, total),
    )
    within(head_bytes(kernel, b, m, p), lambda: block_head(basis, posterior, X, sites))
    within(predict_bytes(kernel, 200, b, m, p), lambda: predict_block(basis, posterior, head, X[:200]))
