"""New rows predicted by a block: means by weights alone, variances by its factor.

A head can be made of any rows and their sites, not only of a block of the posterior: of the union of two
blocks, or of a block widened by rows of its neighbours. The posterior of u is kept as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from streamgp.arrays import Array, FloatArray, Floats, IntArray
from streamgp.inference.inducing.basis import Basis, whiten, whiten_bytes
from streamgp.inference.inducing.posterior import InducingPosterior
from streamgp.inference.local.divided import DividedBlock
from streamgp.inference.local.factor import BlockFactor, factor_block, factor_bytes, scaled_features
from streamgp.inference.local.marginals import BlockMarginals, block_marginals, marginals_bytes
from streamgp.inference.local.prior import block_prior, prior_bytes
from streamgp.inference.sites import Sites
from streamgp.kernels import Kernel
from streamgp.numerics import factors
from streamgp.numerics import projection as numerics


class BlockWeights(NamedTuple):
    """All that the means of new rows need of a block: dual_weights d (b,), inducing_weights (m,)."""

    dual_weights: FloatArray
    inducing_weights: FloatArray


@dataclass(frozen=True, eq=False)
class BlockHead:
    """A block ready to predict: inputs (b, p), weights of means, factor and marginals for variances."""

    inputs: Array
    weights: BlockWeights
    factor: BlockFactor
    marginals: BlockMarginals


class Predicted(NamedTuple):
    """Latent mean and variance of new rows, (c,) each."""

    mean: FloatArray
    variance: FloatArray


def block_head(basis: Basis, posterior: InducingPosterior, inputs: Array, sites: Sites) -> BlockHead:
    """The head of rows and their sites, which count as they are (times their weight already).

    Shapes: inputs (b, p), sites (b,); basis and posterior in float64.
    Cost: that of prior, factor and marginals.
    """
    factor = factor_block(block_prior(basis, inputs), sites)
    marginals = block_marginals(factor, posterior)
    dual = marginals.dual_weights
    unexplained = posterior.inducing_mean - dual @ factor.prior.features
    return BlockHead(inputs, BlockWeights(dual, basis.whitening @ unexplained), factor, marginals)


def predict_means(basis: Basis, inputs: Array, weights: BlockWeights, rows: Array) -> FloatArray:
    """Means of new rows by a block, without any factor.

    wᵀm + R*ᵀd = k_u(x)ᵀ T_u (m − Wᵀd) + k_b(x)ᵀ d
    Shapes: inputs (b, p), rows (c, p) → (c,).  Cost: 2 (p + 1) (b + m) flops and b + m exponentials a row.
    Hazard: T_u (m − Wᵀd) may be large where inducing inputs are near each other: a sum of float64 values.
    Source: [PIC2007].  Oracle: tests/reference/pic_dense.py
    """
    rows = np.ascontiguousarray(rows, basis.dtype)
    by_inducing = basis.prepared.block(rows) @ weights.inducing_weights
    by_block: FloatArray = basis.kernel.block(rows, inputs) @ weights.dual_weights
    return by_inducing + by_block


def predict_block(basis: Basis, posterior: InducingPosterior, head: BlockHead, rows: Array) -> Predicted:
    """Latent means and variances of new rows by a block.

    R* = k_b(x) − W w,  mean = wᵀm + R*ᵀd,  G = L⁻¹ S R*,  E* = w − Zᵀ S R*
    variance = k(x, x) − |w|² − |G|² + |L_A⁻¹ E*|²
    Shapes: rows (c, p) → (c,) each; all in float64.
    Cost: 2 p (m + b) + 2 m² + 4 b m + b² flops and b + m exponentials a row.
    Hazard: the first three terms are the variance if u were known, not below zero but by rounding.
    Source: [PIC2007].  Oracle: tests/reference/pic_dense.py
    """
    seen = residual_rows(basis, head.inputs, head.factor.prior.features, rows)
    marginals = head.marginals
    latent = LatentHead(
        head.factor.root, head.factor.lower, marginals.solved_features, marginals.dual_weights
    )
    return predict_residuals(posterior, latent, seen)


class LatentHead(NamedTuple):
    """What one latent function adds to a head: S root (k,), L lower (k, k), Z solved_features (k, m), d (b,).

    Its k rows that have a precision are ``curved``; None: all of them.
    """

    root: FloatArray
    lower: Floats
    solved_features: Floats
    dual_weights: FloatArray
    curved: IntArray | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that it holds."""
        return sum(array.nbytes for array in self if array is not None)


def latent_head(block: DividedBlock, posterior: InducingPosterior) -> LatentHead:
    """What one latent function adds to a head, without the marginals of the head's own rows.

    Z = B⁻¹ S W,  d = e − S Z m
    Shapes: see :class:`LatentHead`.  Cost: 2 k² m flops.  Oracle: :func:`block_marginals`
    """
    factor = block.factor
    solved = scaled_features(factor, np.empty(factor.prior.features.shape))
    factors.solve_lower(factor.lower, solved)
    factors.solve_lower(factor.lower, solved, transposed=True)
    dual = block.own_weights.copy()
    dual[slice(None) if block.curved is None else block.curved] -= factor.root * (
        solved @ posterior.inducing_mean
    )
    return LatentHead(factor.root, factor.lower, solved, dual, block.curved)


class ResidualRows(NamedTuple):
    """New rows beside a head's: w features (c, m), k(x, x) − |w|² (c,), R* residual (c, b), all float64."""

    features: FloatArray
    unexplained: FloatArray
    residual: FloatArray


def residual_rows(basis: Basis, inputs: Array, features: FloatArray, rows: Array) -> ResidualRows:
    """What all latent functions need to know of new rows; W features of the head's.

    Cost: 2 p (m + b) + m² + 2 b m flops and b + m exponentials a row.
    """
    rows = np.ascontiguousarray(rows, basis.dtype)
    whitened, unexplained = whiten(basis, rows)
    residual: FloatArray = np.asarray(basis.kernel.block(rows, inputs), np.float64)
    residual -= whitened @ features.T
    return ResidualRows(whitened, unexplained, residual)


def predict_residuals(posterior: InducingPosterior, latent: LatentHead, seen: ResidualRows) -> Predicted:
    """Latent means and variances of one function; see :func:`predict_block`."""
    mean = seen.features @ posterior.inducing_mean + seen.residual @ latent.dual_weights
    scaled = (seen.residual if latent.curved is None else seen.residual[:, latent.curved]) * latent.root
    left_over = seen.features - scaled @ latent.solved_features
    stubs = np.ascontiguousarray(scaled.T)
    factors.solve_lower(latent.lower, stubs)
    own = seen.unexplained - np.einsum("ij,ij->j", stubs, stubs)
    _, by_inducing = numerics.project(left_over, posterior.spread, posterior.projected_targets)
    return Predicted(mean, np.maximum(own, 0.0) + by_inducing)


def joined(parts: tuple[tuple[Array, Sites], ...]) -> tuple[Array, Sites]:
    """Inputs and sites of several blocks as one: what the head of their union is made of."""
    inputs = np.concatenate([inputs for inputs, _ in parts])
    columns = zip(*(sites for _, sites in parts), strict=True)
    return inputs, Sites(*(np.concatenate(column) for column in columns))


def head_bytes(kernel: Kernel, rows: int, n_inducing: int, n_features: int) -> int:
    """Upper bound of the bytes that :func:`block_head` takes, its result included, the inputs not."""
    prior = prior_bytes(kernel, rows, n_inducing, n_features)
    return prior + factor_bytes(rows, 8) + marginals_bytes(rows, n_inducing, 8) + 16 * (rows + n_inducing)


def predict_bytes(kernel: Kernel, new: int, rows: int, n_inducing: int, n_features: int) -> int:
    """Upper bound of the bytes that :func:`predict_block` takes for ``new`` rows, the head not included."""
    whitening = whiten_bytes(kernel, new, n_inducing, n_features, 8)
    block = (
        24 * new * rows + 16 * new * max(rows, n_inducing) + kernel.workspace_bytes(new, rows, n_features, 8)
    )
    return whitening + block + numerics.workspace_bytes(new, 8) + 8 * new * (n_features + 8)
