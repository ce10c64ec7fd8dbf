"""What kernels of local blocks are learned by: criteria of a few blocks in memory, with their gradients.

Parameters must suit near rows, which a random sample does not have, and far ones, which a block does not.
Real targets: the left-one-out density of some blocks and the exact evidence of random rows, in equal parts.
Two classes: the EP evidence of some blocks, each a process of its own, from sites kept between steps.
Blocks do not need each other within a round: functions take the ``map`` that goes over them,
which may do several at once. Sums are in the order of the blocks all the same.
Measurements: docs/decisions.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial, reduce
from typing import NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference import active_evidence
from streamgp.inference.inducing.basis import make_basis
from streamgp.inference.inducing.posterior import InducingPosterior
from streamgp.inference.inducing.slopes import Evidence
from streamgp.inference.local.left_out import (
    LeftOut,
    LeftOutSums,
    finish_left_out,
    left_out_block,
    left_out_bytes,
    left_out_slopes,
    merge_left_out,
    merge_left_out_slopes,
)
from streamgp.inference.local.prior import BlockPrior, block_prior, prior_bytes
from streamgp.inference.local.sweep import LocalSums, exact_block, merge_local
from streamgp.inference.sites import Sites
from streamgp.kernels import Kernel
from streamgp.likelihoods import Gaussian, Likelihood
from streamgp.numerics import factors
from streamgp.passes.run import Map


class Examples(NamedTuple):
    """Some rows in memory: inputs (n, p) and targets (n,), float64."""

    inputs: FloatArray
    targets: FloatArray


def half_and_half(
    kernel: Kernel,
    likelihood: Gaussian,
    inducing: FloatArray,
    blocks: tuple[Examples, ...],
    sample: Examples,
    over: Map = map,
) -> Evidence:
    """Half the left-one-out density of blocks, half the evidence of a random sample, in nats a row.

    ½ Σ log p(y_i | all other y of the blocks)/n_blocks + ½ log p(y of the sample)/n_sample
    The density alone lets a kernel forget what blocks are too small to show, the evidence alone lets it call
    noise what only near rows can explain.
    Shapes: inducing (m, p).  Cost: three rounds over the blocks, see
    :mod:`streamgp.inference.local.left_out`, and :func:`sample_evidence`; all priors are held.
    Oracle: finite differences.
    """
    near, far = _near_and_far(kernel, likelihood, inducing, blocks, sample, over)
    n_near, n_far = sum(len(block.targets) for block in blocks), len(sample.targets)

    def half(of_near: FloatArray, of_far: FloatArray) -> FloatArray:
        return 0.5 * of_near / n_near + 0.5 * of_far / n_far

    return Evidence(
        0.5 * near.value / n_near + 0.5 * far.value / n_far,
        half(near.kernel_gradient, far.kernel_gradient),
        half(near.likelihood_gradient, far.likelihood_gradient),
        None,
    )


def _near_and_far(
    kernel: Kernel,
    likelihood: Gaussian,
    inducing: FloatArray,
    blocks: tuple[Examples, ...],
    sample: Examples,
    over: Map,
) -> tuple[Evidence, Evidence]:
    """The sum of left-one-out log densities of blocks, under the model of them alone; the sample's evidence.

    The sample takes as long as several blocks, so it goes first in the last round.
    """
    basis = make_basis(kernel, inducing)
    priors = list(over(lambda block: block_prior(basis, block.inputs), blocks))
    posterior = _regression_posterior(priors, blocks, likelihood, over)
    sums = _left_out_sums(priors, blocks, posterior, likelihood, over)
    of_sample = partial(sample_evidence, kernel, likelihood, sample)
    of_blocks = (
        partial(left_out_slopes, basis, prior, posterior, *block, likelihood, sums)
        for prior, block in zip(priors, blocks, strict=True)
    )
    far, *slopes = over(lambda work: work(), (of_sample, *of_blocks))
    return finish_left_out(basis, likelihood, sums, reduce(merge_left_out_slopes, slopes)), far


def left_out_sums(
    kernel: Kernel, likelihood: Gaussian, inducing: FloatArray, blocks: tuple[Examples, ...], over: Map = map
) -> LeftOutSums:
    """Left-one-out log densities and squared errors of blocks in memory, summed, without a gradient."""
    basis = make_basis(kernel, inducing)
    priors = list(over(lambda block: block_prior(basis, block.inputs), blocks))
    posterior = _regression_posterior(priors, blocks, likelihood, over)
    return _left_out_sums(priors, blocks, posterior, likelihood, over)


def left_out_rows(
    kernel: Kernel, likelihood: Gaussian, inducing: FloatArray, blocks: tuple[Examples, ...], over: Map = map
) -> tuple[FloatArray, FloatArray]:
    """Latent mean and variance of each row of blocks in memory, left out, one block after the other."""
    basis = make_basis(kernel, inducing)
    priors = list(over(lambda block: block_prior(basis, block.inputs), blocks))
    posterior = _regression_posterior(priors, blocks, likelihood, over)
    found = [one for one, _ in _left_out(priors, blocks, posterior, likelihood, over)]
    mean, variance = (np.concatenate(column) for column in zip(*(one[:2] for one in found), strict=True))
    return mean, np.maximum(variance - likelihood.noise, 0.0)


def _left_out_sums(
    priors: list[BlockPrior],
    blocks: tuple[Examples, ...],
    posterior: InducingPosterior,
    likelihood: Gaussian,
    over: Map,
) -> LeftOutSums:
    parts = (sums for _, sums in _left_out(priors, blocks, posterior, likelihood, over))
    return reduce(merge_left_out, parts)


def _left_out(
    priors: list[BlockPrior],
    blocks: tuple[Examples, ...],
    posterior: InducingPosterior,
    likelihood: Gaussian,
    over: Map,
) -> Iterable[tuple[LeftOut, LeftOutSums]]:
    def one(pair: tuple[BlockPrior, Examples]) -> tuple[LeftOut, LeftOutSums]:
        prior, block = pair
        return left_out_block(prior, posterior, block.targets, likelihood)

    return over(one, zip(priors, blocks, strict=True))


def _regression_posterior(
    priors: list[BlockPrior], blocks: tuple[Examples, ...], likelihood: Gaussian, over: Map
) -> InducingPosterior:
    def one(pair: tuple[BlockPrior, Examples]) -> LocalSums:
        prior, block = pair
        return exact_block(prior, block.targets, likelihood).sums

    parts = over(one, zip(priors, blocks, strict=True))
    sums: LocalSums = reduce(merge_local, parts)
    return sums.sums.posterior()


def sample_evidence(kernel: Kernel, likelihood: Gaussian, sample: Examples) -> Evidence:
    """The exact evidence of a regression on some rows, and its gradient.

    C = K + σ²,  log Z = −½ (yᵀ C⁻¹ y + log|C| + n log 2π),  F = ½ (C⁻¹ y yᵀ C⁻¹ − C⁻¹): the weights of dC
    White noise of the kernel is part of K, as of any exact process.
    Shapes: n rows.  Cost: n³ flops, the kernel block and its derivatives; memory: two matrices (n, n).
    Source: Rasmussen and Williams (2006) eq. 5.8, 5.9.  Oracle: finite differences.
    """
    inputs, targets = sample
    matrix = np.asarray(kernel.gram(inputs), np.float64)
    matrix.flat[:: len(matrix) + 1] += likelihood.noise
    factors.cholesky(matrix)
    log_determinant = 2.0 * float(np.log(matrix.diagonal()).sum())
    factors.invert_lower(matrix)
    factors.gram_of_inverse(matrix)
    dual = matrix @ targets
    value = -0.5 * (float(targets @ dual) + log_determinant + len(targets) * np.log(2.0 * np.pi))
    np.subtract(np.multiply.outer(dual, dual), matrix, out=matrix)
    matrix *= 0.5
    diagonal = matrix.diagonal().copy()
    np.fill_diagonal(matrix, 0.0)
    by_kernel = kernel.parameter_gradient(inputs, inputs, matrix)
    by_kernel += kernel.diagonal_gradient(inputs, diagonal)
    return Evidence(value, by_kernel, np.array([likelihood.noise * diagonal.sum()]), None)


class BlocksEvidence(NamedTuple):
    """The evidence of several blocks and its gradient, and the sites that start the next evaluation."""

    evidence: Evidence
    sites: tuple[Sites, ...]
    sweeps: int


def blocks_evidence(
    kernel: Kernel,
    likelihood: Likelihood,
    blocks: tuple[Examples, ...],
    start: tuple[Sites, ...] | None = None,
    *,
    tolerance: float = 1e-4,
    over: Map = map,
) -> BlocksEvidence:
    """The EP evidence of blocks, each a process of its own, summed; from the sites of a near kernel if given.

    Cost: for each block ⅔ b³ flops a sweep, three to five from near sites, then b³ for the gradient.
    Hazard: what never changes within a block has no influence on this criterion: a prior on lengthscales
    must hold them. Source: [PASS2012] section 2.
    """
    starts = (None,) * len(blocks) if start is None else start

    def one(pair: tuple[Examples, Sites | None]) -> active_evidence.Evidence:
        block, sites = pair
        return active_evidence.evidence(kernel, likelihood, *block, sites, tolerance=tolerance)

    found = list(over(one, zip(blocks, starts, strict=True)))
    total = Evidence(
        sum(one.value for one in found),
        np.sum([one.kernel_gradient for one in found], axis=0),
        np.sum([one.likelihood_gradient for one in found], axis=0),
        None,
    )
    sweeps = sum(one.propagated.sweeps for one in found)
    return BlocksEvidence(total, tuple(one.propagated.sites for one in found), sweeps)


def half_and_half_bytes(
    kernel: Kernel, n_blocks: int, rows: int, sample_rows: int, n_inducing: int, n_features: int, workers: int
) -> int:
    """Upper bound of the bytes that :func:`half_and_half` takes for blocks of ``rows`` rows, some at once."""
    priors = 8 * n_blocks * rows * (rows + n_inducing)
    block = prior_bytes(kernel, rows, n_inducing, n_features)
    block += left_out_bytes(kernel, rows, n_inducing, n_features) + 40 * n_inducing * n_inducing
    derivatives = 3 * kernel.workspace_bytes(sample_rows, sample_rows, n_features, 8)
    sample = 24 * sample_rows * sample_rows + derivatives
    return priors + (workers - 1) * block + max(block, sample)


def blocks_evidence_bytes(
    kernel: Kernel, likelihood: Likelihood, rows: int, n_features: int, workers: int
) -> int:
    """Upper bound of the bytes that :func:`blocks_evidence` takes for blocks of ``rows`` rows at most."""
    derivatives = 3 * kernel.workspace_bytes(rows, rows, n_features, 8)
    return workers * (40 * rows * rows + derivatives + likelihood.workspace_bytes(rows) + 40 * 8 * rows)
