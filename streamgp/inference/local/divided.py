"""A block in which most sites only push: they have no precision, and so no part in the block's factor.

Where classes are clear, the site of a row says next to nothing about how sure its latent value is, though
many of them together hold the mean where it is. Such a site is made linear, t(f) = exp(d f): means stay what
they are, and the factor is that of the few other rows. So a class that is not at issue in a block costs
little there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from streamgp.arrays import FloatArray, Floats, IntArray
from streamgp.inference.inducing.posterior import InducingPosterior
from streamgp.inference.local.factor import (
    RESOLVED,
    BlockFactor,
    Moments,
    factor_block,
    moments_of,
    projected_features,
)
from streamgp.inference.local.marginals import BlockMarginals, block_marginals, projected_rows
from streamgp.inference.local.prior import BlockPrior
from streamgp.inference.local.workspace import Workspace
from streamgp.inference.sites import Sites
from streamgp.numerics import factors

MOST_CURVED = 0.75
"""Share of rows with a precision from which on a factor of all rows is as cheap as a copy of theirs."""


def linear_pushes(sites: Sites, mean: FloatArray, own_variance: FloatArray, limit: float) -> FloatArray:
    """What sites of little precision push: d = ρ − τ mean where τ own_variance < limit; NaN for all others.

    mean = K (ρ − τ mean) for all rows together: a mean that solves this solves it with sites (0, d) as well,
    so that no mean moves where EP has converged; variances grow by about the share τ R_ii that is lost.
    Shapes: (b,) each; own_variance R_ii times the row's weight.  Oracle: the dense model of all rows.
    """
    precision, precision_mean = sites
    return np.where(precision * own_variance < limit, precision_mean - precision * mean, np.nan)


def straightened(sites: FloatArray, pushes: FloatArray) -> FloatArray:
    """Sites that may be linear made so.  Shapes: sites (…, 2), pushes (…) → (…, 2)."""
    is_light = ~np.isnan(pushes)
    return np.stack(
        [np.where(is_light, 0.0, sites[..., 0]), np.where(is_light, pushes, sites[..., 1])], axis=-1
    )


@dataclass(frozen=True, eq=False)
class DividedBlock:
    """The factor of the rows whose sites are curved, and what the linear ones push; frozen.

    curved (k,): places of rows in the factor, None: all of them
    own_weights e (b,): the dual weights of the block if u were 0; ρ itself where sites are linear
    """

    prior: BlockPrior
    sites: Sites
    curved: IntArray | None
    factor: BlockFactor
    own_weights: FloatArray


def divide_block(
    prior: BlockPrior, sites: Sites, room: Workspace | None = None, dtype: DTypeLike = np.float64
) -> DividedBlock:
    """A block for sites that count as they are, in ``room`` if that is given; type: :func:`factor_block`.

    Linear sites give r the mean R ρ₀ more, ρ₀ = ρ where τ = 0, else 0: the others are met by ρ − τ (R ρ₀).
    Shapes: b rows, k of them curved.  Cost: ⅓ k³ flops and a copy of k (k + m) numbers.
    Oracle: :func:`factor_block` of all rows.
    """
    curved = np.flatnonzero(sites.precision > 0.0)
    if len(curved) > MOST_CURVED * len(sites.precision):
        factor = factor_block(prior, sites, room, dtype)
        return DividedBlock(prior, sites, None, factor, factor.own_weights)
    room, k = Workspace() if room is None else room, len(curved)
    features = room.take("curved features", (k, prior.features.shape[1]))
    residual = room.take("curved residual", (k, k))
    np.take(prior.features, curved, axis=0, out=features)
    residual[...] = prior.residual[np.ix_(curved, curved)]
    weights = np.where(sites.precision > 0.0, 0.0, sites.precision_mean)
    pushed = (prior.residual @ weights)[curved]
    precision = sites.precision[curved]
    own = Sites(precision, sites.precision_mean[curved] - precision * pushed)
    factor = factor_block(BlockPrior(features, residual), own, room, dtype)
    weights[curved] = factor.own_weights
    return DividedBlock(prior, sites, curved, factor, weights)


def divided_moments(
    block: DividedBlock, dtype: DTypeLike = np.float64, room: Workspace | None = None
) -> Moments:
    """The block's share of A and r; see :func:`block_moments`.  Cost: k² m + k m² flops."""
    return moments_of_divided(projected_features(block.factor, dtype, room), block)


def moments_of_divided(projected: Floats, block: DividedBlock) -> Moments:
    """The same where Y (k, m) of the curved rows is known.  Cost: k m² flops."""
    matrix, vector = moments_of(projected, block.factor)
    return Moments(matrix, vector if block.curved is None else block.own_weights @ block.prior.features)


def divided_marginals(
    block: DividedBlock,
    posterior: InducingPosterior,
    room: Workspace | None = None,
    projected: Floats | None = None,
) -> BlockMarginals:
    """Marginals of all rows of a block; Z solved_features (k, m) are those of the curved ones, as Y is.

    Rows without precision, C their covariances with the others, times S:
    variance = R_ii − |L⁻¹ C|² + |L_A⁻¹ E|²,  E = W − Cᵀ Z,  q = 1
    Cost: that of k rows, and k² + k m + m² flops for each other row.
    Source: [PIC2007].  Oracle: :func:`block_marginals` of all rows.
    """
    room = Workspace() if room is None else room
    found = block_marginals(block.factor, posterior, room, projected)
    if block.curved is None:
        return found
    curved, solved = block.curved, found.solved_features
    features, residual = block.prior
    others = np.flatnonzero(block.sites.precision <= 0.0)
    dual = block.own_weights.copy()
    dual[curved] = found.dual_weights
    mean = features @ posterior.inducing_mean + residual @ dual
    scaled = residual[np.ix_(others, curved)]
    scaled *= block.factor.root
    left_over = features[others].astype(solved.dtype, copy=False)
    left_over -= scaled.astype(solved.dtype, copy=False) @ solved
    stubs = np.ascontiguousarray(scaled.T, block.factor.lower.dtype)
    factors.solve_lower(block.factor.lower, stubs)
    own, by_inducing = np.empty((2, len(mean)))
    own[others] = np.maximum(residual.diagonal()[others] - np.einsum("ij,ij->j", stubs, stubs), 0.0)
    by_inducing[others] = projected_rows(left_over, posterior)[1]
    own[curved], ratio = found.residual_variance, np.ones(len(mean))
    by_inducing[curved] = found.variance - found.residual_variance
    ratio[curved] = found.variance_ratio
    return BlockMarginals(mean, own + by_inducing, own, ratio, dual, solved)


def slopes(block: DividedBlock, solved: Floats, count: int) -> FloatArray:
    """E = W − R S Z of the first rows, how their means follow u; S Z/τ where τ is not small.

    Shapes: solved Z (k, m) → (count, m).  Cost: 2 k m flops a row that is not sharp.
    """
    features, residual = block.prior
    curved = np.arange(len(features)) if block.curved is None else block.curved
    is_sharp = block.sites.precision[:count] * residual.diagonal()[:count] >= RESOLVED
    found = np.empty((count, features.shape[1]))
    here = np.flatnonzero(curved < count)
    sharp = here[is_sharp[curved[here]]]
    found[curved[sharp]] = solved[sharp] / block.factor.root[sharp, None]
    flat = np.flatnonzero(~is_sharp)
    if flat.size:
        found[flat] = features[flat] - (residual[np.ix_(flat, curved)] * block.factor.root) @ solved
    return found


def divided_bytes(rows: int, n_inducing: int) -> int:
    """Upper bound of the bytes of copies that :func:`divide_block` makes."""
    most = int(MOST_CURVED * rows)
    return 8 * most * (most + n_inducing) + 24 * rows
