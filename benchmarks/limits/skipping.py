"""A sweep that passes over confident rows: their sites are nearly flat, and O(m) work tells.

Tried for the library, and not in it. With log loss within 1 % (ε = 0.003), ``fitc_skipping`` measured on
digits all sweeps together 1.6 times faster at 13 x 13 pixels and 1.35 times at 28 x 28: the first sweeps see
all rows, and the kernel of rows passed over is computed all the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.inference.inducing.basis import Approximation, Basis, FloatArray, whiten_block
from streamgp.inference.inducing.posterior import InducingPosterior
from streamgp.inference.inducing.sweep import SweepSums, flat_sites, sweep_whitened
from streamgp.inference.inducing.updates import CAVITY_FLOOR, update_rows
from streamgp.inference.sites import Sites
from streamgp.likelihoods import Likelihood

NEGLIGIBLE = 1e-3
"""Share of a row's marginal precision below which its site is left out."""


class Looks(NamedTuple):
    """What the last full look at c rows found: variance vs of s = wᵀu and D0, (c,) each; NaN before it."""

    variance: FloatArray
    residual_variance: FloatArray


class SkippingSwept(NamedTuple):
    """New sites and looks of a block, its sums, and how many of its rows were passed over."""

    sites: Sites
    looks: Looks
    sums: SweepSums
    passed_over: int


def no_looks(rows: int) -> Looks:
    """Before the first sweep, which passes over nothing."""
    return Looks(np.full(rows, np.nan), np.full(rows, np.nan))


def skipping_sweep_block(
    basis: Basis,
    posterior: InducingPosterior,
    features: NDArray[Any],
    targets: FloatArray,
    likelihood: Likelihood,
    sites: Sites,
    looks: Looks,
    approximation: Approximation,
    damping: float,
    weights: FloatArray | None = None,
    *,
    negligible: float = NEGLIGIBLE,
) -> SkippingSwept:
    """:func:`streamgp.inference.inducing.sweep.sweep_block`, but for rows whose site would be negligible.

    ms = k_u(x)ᵀ T_u m;  τ' vs ≤ ε, τ' updated from (ms, vs) with vs of the last full look → site 0, no look
    ε negligible.  A row that is passed over adds its log Z to the evidence, and nothing to moments and
    residual.  Sites of rows that come back start from 0.
    Shapes: as there; looks (c,).  Cost: 2 p m flops for a row passed over, 2 p m + 3 m² for others.
    Hazard: an approximation: A lacks at most Σ τ w wᵀ of what was left out, and vs may be old; a sweep with
    ``no_looks`` sees all rows again.
    """
    weight = np.ones(len(targets)) if weights is None else weights
    block = basis.prepared.block(features)
    prior = basis.kernel.diagonal(features)
    mean_weights = basis.whitening @ posterior.inducing_mean.astype(basis.dtype)
    seen = np.flatnonzero(~np.isnan(looks.variance))
    guess = update_rows(
        likelihood,
        targets[seen],
        flat_sites(len(seen)),
        (block[seen] @ mean_weights).astype(np.float64),
        looks.variance[seen],
        approximation.residual * looks.residual_variance[seen],
        approximation.power,
        CAVITY_FLOOR[basis.dtype],
    )
    over = guess.sites.precision * looks.variance[seen] <= negligible
    rest = np.ones(len(targets), np.bool_)
    rest[seen[over]] = False
    rows = whiten_block(basis, block[rest], prior[rest])
    residual_variance = rows.residual_variance
    (some, sums), variance = sweep_whitened(
        posterior,
        rows,
        targets[rest],
        likelihood,
        Sites(sites.precision[rest], sites.precision_mean[rest]),
        approximation,
        damping,
        weight[rest],
    )
    new = flat_sites(len(targets))
    new.precision[rest], new.precision_mean[rest] = some
    looks = Looks(looks.variance.copy(), looks.residual_variance.copy())
    looks.variance[rest], looks.residual_variance[rest] = variance, residual_variance
    evidence = sums.evidence + float(weight[seen[over]] @ guess.evidence[over])
    return SkippingSwept(
        new, looks, sums._replace(evidence=evidence, rows=len(targets)), int(np.count_nonzero(~rest))
    )
