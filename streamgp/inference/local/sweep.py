"""A sweep of EP over a block of rows: new sites, and sums that are merged over all blocks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from streamgp.arrays import FloatArray
from streamgp.inference.inducing.basis import FITC
from streamgp.inference.inducing.posterior import InducingPosterior
from streamgp.inference.inducing.sweep import SweepSums, merge_sweeps
from streamgp.inference.inducing.updates import CAVITY_FLOOR, exact_rows, update_rows
from streamgp.inference.local.divided import (
    DividedBlock,
    divide_block,
    divided_bytes,
    divided_marginals,
    linear_pushes,
    moments_of_divided,
)
from streamgp.inference.local.factor import (
    block_moments,
    factor_block,
    factor_bytes,
    moments_bytes,
    projected_features,
)
from streamgp.inference.local.held import BlockStart
from streamgp.inference.local.marginals import marginals_bytes
from streamgp.inference.local.prior import BlockPrior
from streamgp.inference.local.workspace import Workspace
from streamgp.inference.sites import Sites
from streamgp.likelihoods import Gaussian, Likelihood


class LocalSums(NamedTuple):
    """Sums over rows of blocks, in float64; a row of weight ω counts ω times.

    sums: moments Σ Yᵀ Y and Σ Wᵀ e of the *new* sites, evidence and residuals of the sites and the posterior
    that the sweep *started* from: with these :func:`~streamgp.inference.inducing.sweep.log_evidence`,
    ``moment_residual`` and ``posterior`` hold as they do for blocks of one row.
    left_out_log_density Σ ω log Z, of each target given all others, of the start too; left_out_change Σ ω of
    how far that has moved since the last sweep, 0 where that is not known.
    """

    sums: SweepSums
    left_out_log_density: float
    left_out_change: float

    @property
    def mean_left_out_change(self) -> float:
        """Mean move of the left-out log densities in one sweep: below 2e-3 predictions have settled."""
        return self.left_out_change / self.sums.weight if self.sums.weight > 0.0 else 0.0


class Swept(NamedTuple):
    """New sites of a block's rows and the left-out log densities before them, (b,) each, and the sums.

    pushes: d = ρ − τ mean where the site takes so little of a variance that it could be linear, else NaN.
    end: what a next sweep of the block may start from, in the sweep's room; None where sites are divided.
    """

    sites: Sites
    left_out: FloatArray
    sums: LocalSums
    pushes: FloatArray
    end: BlockStart | None = None


def sweep_block(
    prior: BlockPrior,
    posterior: InducingPosterior,
    targets: FloatArray,
    likelihood: Likelihood,
    sites: Sites,
    damping: float,
    *,
    weights: FloatArray | None = None,
    left_out: FloatArray | None = None,
    straight: float = 0.0,
    start: BlockStart | None = None,
    room: Workspace | None = None,
) -> Swept:
    """One damped update of all sites of a block, in parallel, from a frozen posterior.

    (mean, variance) of f by :func:`block_marginals`;  cavity, tilted, update as in FITC at power 1, with no
    residual variance beside, for sites stand on f itself;  site ← (1 − δ) site + δ update;  Yᵀ Y, Wᵀ e anew
    evidence = Σ (log Z − ½ log q − ½ d h₋) − ½ log|B|, so that log Z_EP = −½ log|A| + Σ evidence
    δ damping; ω ``weights``: a row stands for ω equal ones, so ω τ, ω ρ are in the factor; ``left_out``:
    those of the last sweep. Sites of ω τ R_ii below ``straight`` may be linear (:func:`linear_pushes`); while
    sweeps go on they stay as they are, because linear sites swing. The type of the posterior's spread is
    that of products with m columns. ``start``: the end of the last sweep, if it was held.
    Shapes: b rows, (b,) each.  Cost: b³ + 3 b² m + 2 b m² flops, by a start ⅓ b³ + b² m less; where k sites
    are not linear k³ + 3 k² m + k m² + b (k² + k m + m²).  Memory: :func:`sweep_bytes`.
    Hazard: rows without a positive cavity keep their site and are counted. A site's precision never exceeds
    the largest curvature c of −log p(y|f), 1 for probit and ¼ for logit, for the tilted density has a log of
    curvature at most 1/a₋ + c and so a variance of at least 1/(1/a₋ + c) (Cramér and Rao): for probit it is
    k/(1 + a₋ (1 − k)), 0 < k < 1. No clipping is needed where sites are computed without cancellation.
    Source: [PIC2007] with EP as in [FITC2007].  Oracle: tests/reference/pic_dense.py
    """
    weight = np.ones(len(targets)) if weights is None else weights
    room = Workspace() if room is None else room
    dtype, counted = posterior.spread.dtype, weighted(sites, weight)
    if start is not None and start.serves(counted, dtype):
        block = DividedBlock(prior, counted, None, start.factor, start.factor.own_weights)
        marginals = divided_marginals(block, posterior, room, start.projected)
    else:
        block = divide_block(prior, counted, room, dtype)
        marginals = divided_marginals(block, posterior, room)
    log_determinant = block.factor.log_determinant
    nothing = np.zeros(len(targets))
    floor = CAVITY_FLOOR[dtype]
    update = update_rows(
        likelihood, targets, sites, marginals.mean, marginals.variance, nothing, FITC.power, floor
    )
    new = Sites(*(old + damping * (fresh - old) for old, fresh in zip(sites, update.sites, strict=True)))
    # The old triangle and the solved features have served: in the same room follow the new ones.
    renewed = divide_block(prior, weighted(new, weight), room, dtype)
    projected = projected_features(renewed.factor, dtype, room)
    moments = moments_of_divided(projected, renewed)
    moved = nothing if left_out is None else np.abs(update.log_z - left_out)
    sums = SweepSums(
        moments.matrix,
        moments.vector,
        float(weight @ update.evidence) - 0.5 * log_determinant,
        float(weight @ update.mean_change**2),
        float(weight @ np.abs(update.log_variance_change)),
        float(weight @ update.has_cavity),
        len(targets),
        int(np.count_nonzero(~update.has_cavity & (weight > 0.0))),
    )
    pushes = linear_pushes(new, marginals.mean, weight * prior.residual.diagonal(), straight)
    total = LocalSums(sums, float(weight @ update.log_z), float(weight @ moved))
    end = BlockStart(renewed.factor, projected) if renewed.curved is None else None
    return Swept(new, update.log_z, total, pushes, end)


def exact_block(
    prior: BlockPrior,
    targets: FloatArray,
    likelihood: Gaussian,
    *,
    weights: FloatArray | None = None,
    dtype: DTypeLike = np.float64,
    room: Workspace | None = None,
) -> Swept:
    """The sites of a block under Gaussian noise, final at once, and the sums of their posterior.

    τ = 1/σ²,  ρ = y/σ²;  evidence = −½ Σ (log 2πσ² + y²/σ²) − ½ log|B| + ½ ρᵀ R e, so that
    log Z = −½ log|A| + ½ rᵀm + Σ evidence  (:func:`~streamgp.inference.inducing.sweep.exact_evidence`)
    Densities left out need the posterior of all blocks: see :mod:`streamgp.inference.local.left_out`.
    Shapes: b rows, (b,) each; products with m columns in ``dtype``.  Cost: ⅓ b³ + b² m + b m² flops.
    Oracle: tests/reference/pic_dense.py
    """
    weight = np.ones(len(targets)) if weights is None else weights
    exact = exact_rows(likelihood, targets, np.zeros(len(targets)), FITC)
    factor = factor_block(prior, weighted(exact.sites, weight), room)
    moments = block_moments(factor, dtype, room)
    fit = 0.5 * float(factor.sites.precision_mean @ (prior.residual @ factor.own_weights))
    evidence = float(weight @ exact.evidence) + fit - 0.5 * factor.log_determinant
    total = float(weight.sum())
    sums = SweepSums(moments.matrix, moments.vector, evidence, 0.0, 0.0, total, len(targets), 0)
    pushes = np.full(len(targets), np.nan)
    return Swept(exact.sites, np.zeros(len(targets)), LocalSums(sums, 0.0, 0.0), pushes)


def moments_of_sites(
    prior: BlockPrior,
    sites: Sites,
    *,
    weights: FloatArray | None = None,
    dtype: DTypeLike = np.float64,
    room: Workspace | None = None,
) -> LocalSums:
    """The moments of given sites alone: how sites of other hyperparameters start a fit.

    Cost: ⅓ b³ + b² m + b m² flops.
    """
    weight = np.ones(len(sites.precision)) if weights is None else weights
    moments = block_moments(factor_block(prior, weighted(sites, weight), room), dtype, room)
    rows = len(sites.precision)
    return LocalSums(SweepSums(*moments, 0.0, 0.0, 0.0, float(weight.sum()), rows, 0), 0.0, 0.0)


def weighted(sites: Sites, weights: FloatArray) -> Sites:
    """The site of ω equal rows: ω τ, ω ρ."""
    return Sites(weights * sites.precision, weights * sites.precision_mean)


def merge_local(earlier: LocalSums, later: LocalSums) -> LocalSums:
    """Sums over the blocks of both; the arrays of ``earlier`` are added to in place."""
    return LocalSums(
        merge_sweeps(earlier.sums, later.sums),
        earlier.left_out_log_density + later.left_out_log_density,
        earlier.left_out_change + later.left_out_change,
    )


def sweep_bytes(likelihood: Likelihood, rows: int, n_inducing: int, itemsize: int) -> int:
    """Upper bound of the bytes that :func:`sweep_block` takes, room and result included, the prior not."""
    steps = factor_bytes(rows, itemsize) + marginals_bytes(rows, n_inducing, itemsize)
    steps += divided_bytes(rows, n_inducing)
    return steps + moments_bytes(n_inducing, itemsize) + 40 * 8 * rows + likelihood.workspace_bytes(rows)
