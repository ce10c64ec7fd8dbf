"""The evidence of joint classes and its gradient, against dense expectation propagation and differences."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.inference.inducing.basis import make_basis, whiten
from streamgp.inference.inducing.in_memory import Rows
from streamgp.inference.inducing.joint_fit import fit_joint, joint_evidence
from streamgp.kernels import RBF, Linear
from streamgp.likelihoods import MultivariateProbit, Softmax
from tests.reference.joint_ep_dense import joint_ep
from tests.reference.kernels_dense import derivative


def problem(rows, inducing):
    generator = np.random.default_rng(3)
    X = generator.standard_normal((rows, 2))
    codes = np.digitize(X[:, 0] + 0.4 * generator.standard_normal(rows), [-0.5, 0.5]).astype(float)
    return X, codes, X[:inducing] + 0.05


@pytest.mark.parametrize(
    ("likelihood", "noise", "residual"),
    [
        (MultivariateProbit(), "normal", 1.0),
        (Softmax(), "gumbel", 1.0),
        (Softmax(), "gumbel", 0.0),
    ],
)
def test_the_evidence_of_rows_in_memory_is_that_of_dense_joint_ep(likelihood, noise, residual):
    X, codes, Z = problem(12, 5)
    basis = make_basis(RBF(2.0, 1.2), Z)
    fit = fit_joint(basis, likelihood, Rows(X, codes, rows_per_block=5), 3, residual, tolerance=1e-8)
    assert fit.converged
    whitened, left = whiten(basis, X)
    dense = joint_ep(whitened, residual * left, codes.astype(int), noise, 3, tolerance=1e-8)
    assert fit.evidence == pytest.approx(dense.log_evidence, rel=1e-6)
    shrunk = dense.precision / (1.0 + residual * left[:, None] * dense.precision)
    np.testing.assert_allclose(fit.sites[:, :, 0], shrunk, atol=1e-5)
    pushed = dense.precision_mean / (1.0 + residual * left[:, None] * dense.precision)
    np.testing.assert_allclose(fit.sites[:, :, 1], pushed, atol=1e-5)


@pytest.mark.parametrize(
    ("likelihood", "residual"),
    [
        (MultivariateProbit((0.2, 0.0, -0.1)), 0.0),
        (MultivariateProbit((0.2, 0.0, -0.1)), 0.5),
        (Softmax((0.1, -0.3, 0.2)), 1.0),
    ],
)
def test_the_gradient_of_the_joint_evidence_equals_differences_of_refitted_evidence(likelihood, residual):
    X, codes, Z = problem(30, 6)
    kernel = RBF(2.0, (1.0, 1.6)) + Linear(0.3)
    weights = np.random.default_rng(2).uniform(0.3, 2.0, len(X))
    rows, settings = (
        Rows(X, codes, weights, rows_per_block=15),
        {"tolerance": 1e-7},
    )  # its error is quadratic in the evidence
    fit = fit_joint(make_basis(kernel, Z), likelihood, rows, 3, residual, **settings)
    found = joint_evidence(make_basis(kernel, Z), likelihood, rows, fit, residual)
    assert fit.converged
    assert found.value == pytest.approx(fit.evidence, abs=1e-8)
    n, start = len(kernel.log_parameters), np.concatenate([kernel.log_parameters, likelihood.parameters])

    def refitted(vector):
        basis = make_basis(kernel.with_log_parameters(vector[:n]), Z)
        moved = likelihood.with_parameters(vector[n:])
        return fit_joint(basis, moved, rows, 3, residual, sites=fit.sites, **settings).evidence

    slopes = [derivative(lambda t, e=e: refitted(start + t * e), 1e-3) for e in np.eye(len(start))]
    gradient = np.concatenate([found.kernel_gradient, found.likelihood_gradient])
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-5)
