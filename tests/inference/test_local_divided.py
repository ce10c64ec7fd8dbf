"""Blocks whose sites are linear for most rows: equal to blocks of all rows, and to a dense version."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.inference import Sites
from streamgp.inference.inducing.basis import make_basis
from streamgp.inference.inducing.posterior import posterior_from_moments, prior_posterior
from streamgp.inference.local.divided import (
    divide_block,
    divided_marginals,
    divided_moments,
    linear_pushes,
    slopes,
    straightened,
)
from streamgp.inference.local.factor import block_moments, factor_block
from streamgp.inference.local.marginals import block_marginals
from streamgp.inference.local.prediction import latent_head, predict_residuals, residual_rows
from streamgp.inference.local.prior import block_prior
from streamgp.inference.local.sweep import sweep_block
from streamgp.inference.local.workspace import Workspace
from streamgp.kernels import Linear, Matern32
from streamgp.likelihoods import Probit
from tests.inference.test_fitc import agree
from tests.inference.test_local import fit_local, members, part, problem, scattered
from tests.reference import pic_dense

KERNEL = Matern32(25.0, 1.2) + Linear(0.3)


@pytest.fixture(scope="module")
def block():
    """A block, sites of its rows, and a posterior of u that knows them."""
    X, _, Z, groups = problem(11)
    generator, basis = np.random.default_rng(0), make_basis(KERNEL, Z)
    rows = X[members(groups)[0]]
    prior = block_prior(basis, rows)
    sites = Sites(generator.uniform(0.1, 1.0, len(rows)), generator.standard_normal(len(rows)))
    swept = sweep_block(prior, prior_posterior(len(Z)), np.ones(len(rows)), Probit(), sites, 0.5)
    posterior = swept.sums.sums.posterior()
    return basis, prior, posterior, sites, rows


@pytest.mark.parametrize("linear", [slice(0, 0), slice(0, None, 2), slice(1, None), slice(0, None)])
def test_rows_without_precision_need_no_factor(block, linear):
    basis, prior, posterior, sites, rows = block
    sites = Sites(*(column.copy() for column in sites))
    sites.precision[linear] = 0.0
    whole, divided = factor_block(prior, sites), divide_block(prior, sites, Workspace())
    wanted, found = block_marginals(whole, posterior), divided_marginals(divided, posterior, Workspace())
    for name in ("mean", "variance", "residual_variance", "variance_ratio", "dual_weights"):
        agree(getattr(found, name), getattr(wanted, name), 1e-9)
    for one, other in zip(divided_moments(divided), block_moments(whole), strict=True):
        agree(one, other, 1e-9)
    by_u = prior.features - (prior.residual * whole.root) @ wanted.solved_features
    agree(slopes(divided, found.solved_features, 3), by_u[:3], 1e-9)
    seen = residual_rows(basis, rows, prior.features, np.random.default_rng(1).standard_normal((6, 2)))
    heads = (latent_head(one, posterior) for one in (divided, divide_block(prior, _sharp(sites))))
    one, other = (predict_residuals(posterior, head, seen) for head in heads)
    agree(one.mean, other.mean, 1e-6)
    agree(one.variance, other.variance, 1e-6)


def _sharp(sites):
    """The same sites with a precision that is next to none instead of none, so that all rows are factored."""
    return Sites(np.maximum(sites.precision, 1e-12), sites.precision_mean)


def test_linear_sites_move_no_mean_and_widen_variances_a_little():
    """Sites of a converged fit, those of little precision made linear: against the dense model of both."""
    X, y, Z, groups = problem(5)
    basis, blocks = make_basis(KERNEL, Z), members(groups)
    fit = fit_local(basis, Probit(0.1), X, y, groups)
    gram = pic_dense.prior(KERNEL, Z, X, groups, basis.jitter)
    own = scattered([prior.residual.diagonal() for prior in fit.priors], blocks)
    limit = float(np.quantile(fit.sites.precision * own, 0.6))
    pushes = linear_pushes(fit.sites, fit.mean, own, limit)
    straight = Sites(*straightened(np.stack(fit.sites, axis=-1), pushes).T)
    assert 0.5 < np.mean(straight.precision == 0.0) < 0.7
    np.testing.assert_array_equal(
        straight.precision_mean[np.isnan(pushes)], fit.sites.precision_mean[np.isnan(pushes)]
    )
    covariance = np.linalg.inv(np.eye(len(X)) + gram * straight.precision) @ gram
    agree(covariance @ straight.precision_mean, fit.mean, 1e-7)
    lost = np.where(np.isnan(pushes), 0.0, fit.sites.precision * np.diag(gram)).sum()
    assert np.all(np.diag(covariance) >= fit.variance * (1.0 - 1e-9))
    assert np.all(np.diag(covariance) <= fit.variance * (1.0 + lost))

    moments = [
        divided_moments(divide_block(prior, part(straight, rows)))
        for prior, rows in zip(fit.priors, blocks, strict=True)
    ]
    posterior = posterior_from_moments(*(np.sum(column, axis=0) for column in zip(*moments, strict=True)))
    found = [
        divided_marginals(divide_block(prior, part(straight, rows)), posterior)
        for prior, rows in zip(fit.priors, blocks, strict=True)
    ]
    agree(scattered([one.mean for one in found], blocks), fit.mean, 1e-6)
    agree(scattered([one.variance for one in found], blocks), np.diag(covariance), 1e-6)
