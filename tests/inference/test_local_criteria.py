"""Learning criteria of local blocks: their values against dense versions, gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.inference.inducing.basis import JITTER
from streamgp.inference.local.criteria import (
    Examples,
    blocks_evidence,
    half_and_half,
    left_out_rows,
    sample_evidence,
)
from streamgp.kernels import RBF, Matern52, White
from streamgp.likelihoods import Gaussian, Probit
from streamgp.passes.run import limited_threads
from streamgp.passes.side_by_side import side_by_side
from tests.inference.test_fitc import agree
from tests.inference.test_local import members, problem
from tests.reference import ep_dense, pic_dense
from tests.reference.kernels_dense import derivative


@pytest.mark.parametrize("kernel", [RBF(1.5, (0.8, 1.4)), Matern52(1.2, 0.9) + White(0.02)], ids=repr)
def test_half_left_out_density_and_half_evidence(kernel):
    X, _, Z, groups = problem(3, rows=30, blocks=3)
    y, likelihood = np.sin(2 * X[:, 0]), Gaussian(0.05)
    blocks = tuple(Examples(X[rows], y[rows]) for rows in members(groups))
    sample = Examples(X[:12] + 0.1, y[:12])

    def value(kernel, noise):
        near = pic_dense.left_one_out(
            pic_dense.prior(kernel, Z, X, groups, JITTER[np.dtype(np.float64)]), noise, y
        )
        far = pic_dense.regression(np.asarray(kernel.gram(sample.inputs)), noise, sample.targets)
        return 0.5 * near.mean() + 0.5 * far / 12

    found = half_and_half(kernel, likelihood, Z, blocks, sample)
    agree(found.value, value(kernel, 0.05), 1e-9)
    start = kernel.log_parameters
    expected = [
        derivative(lambda t, e=e: value(kernel.with_log_parameters(start + t * e), 0.05), 1e-3)
        for e in np.eye(len(start))
    ]
    agree(found.kernel_gradient, np.array(expected), 1e-7)
    by_noise = derivative(lambda t: value(kernel, 0.05 * np.exp(t)), 1e-3)
    agree(found.likelihood_gradient, np.array([by_noise]), 1e-7)


def test_blocks_side_by_side_give_the_same_bits():
    X, y, Z, groups = problem(3, rows=60, blocks=6)
    kernel, sample = Matern52(1.2, (0.9, 1.1)), Examples(X[:20] + 0.1, y[:20])
    blocks = tuple(Examples(X[rows], y[rows]) for rows in members(groups))

    def found(over):
        return (
            *half_and_half(kernel, Gaussian(0.05), Z, blocks, sample, over)[:3],
            *left_out_rows(kernel, Gaussian(0.05), Z, blocks, over),
            *blocks_evidence(kernel, Probit(0.1), blocks, over=over).evidence[:3],
        )

    with limited_threads(3), side_by_side(3) as over:
        together = found(over)
    for one, other in zip(found(map), together, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_evidence_of_a_sample_is_that_of_an_exact_process():
    X, _, _, _ = problem(5)
    y, kernel = np.cos(X[:, 1]), Matern52(1.3, 0.7)
    found = sample_evidence(kernel, Gaussian(1e-3), Examples(X, y))
    agree(found.value, pic_dense.regression(np.asarray(kernel.gram(X)), 1e-3, y), 1e-9)


def test_the_evidence_of_blocks_is_the_sum_of_theirs():
    X, y, _, groups = problem(3, blocks=2)
    kernel, likelihood = RBF(4.0, (0.9, 1.5)), Probit(0.2)
    blocks = tuple(Examples(X[rows], y[rows]) for rows in members(groups))
    cold = blocks_evidence(kernel, likelihood, blocks, tolerance=1e-10)
    expected = sum(
        ep_dense.propagate(np.asarray(kernel.gram(inputs)), targets, likelihood).log_evidence
        for inputs, targets in blocks
    )
    agree(cold.evidence.value, expected, 1e-8)
    near = kernel.with_log_parameters(kernel.log_parameters + 1e-4)
    warm = blocks_evidence(near, likelihood, blocks, cold.sites, tolerance=1e-10)
    assert warm.sweeps < blocks_evidence(near, likelihood, blocks, tolerance=1e-10).sweeps
    start = kernel.log_parameters

    def value(vector):
        other = kernel.with_log_parameters(vector)
        return blocks_evidence(other, likelihood, blocks, cold.sites, tolerance=1e-11).evidence.value

    slopes = [derivative(lambda t, e=e: value(start + t * e), 1e-3) for e in np.eye(len(start))]
    agree(cold.evidence.kernel_gradient, np.array(slopes), 1e-6)
