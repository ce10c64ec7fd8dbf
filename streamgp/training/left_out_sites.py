"""Rows by which the spread of joint classes is calibrated: those held out, and rows without their own sites.

Expectation propagation knows what all other rows say about a row: its cavity. So rows of the sample judge
too, each as if left out, where few are held out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference.inducing.basis import whiten
from streamgp.inference.inducing.held import held_bytes
from streamgp.inference.inducing.joint import put_marginals
from streamgp.inference.inducing.updates import CAVITY_FLOOR
from streamgp.training.heads import inducing_of, snapshot_of
from streamgp.training.judge import marginals_in_memory
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft
from streamgp.training.sweeps import Sweeps

ENOUGH_JUDGES = 2000


class LeftOutMarginals(NamedTuple):
    """Rows that did not teach what is said about them: latent mean and variance (n, k); the rest (n,)."""

    mean: FloatArray
    variance: FloatArray
    targets: FloatArray
    weights: FloatArray
    keys: FloatArray


def left_out_of_sweeps(problem: Problem, draft: Draft) -> LeftOutMarginals:
    """Rows held out, as the model sees them, and rows of the sample without their sites."""
    held_out = problem.held_out
    found = marginals_in_memory(snapshot_of(draft), held_out.features, problem)
    assert found.variance is not None
    weights = problem.weights.of_rows(held_out.rows, held_out.targets)
    parts = [LeftOutMarginals(found.mean, found.variance, held_out.targets, weights, held_out.keys)]
    missing = ENOUGH_JUDGES - len(held_out.rows)
    room = problem.plan.free_bytes // held_bytes(1, draft.n_active, 8)
    if missing > 0 and room > 0 and not problem.is_late():
        parts.append(_cavities(problem, draft, min(missing, room)))
    return LeftOutMarginals._make(map(np.concatenate, zip(*parts, strict=True)))


def _cavities(problem: Problem, draft: Draft, size: int) -> LeftOutMarginals:
    """So many rows of the sample by the posterior without their sites.

    q = 1 − τ vs,  vc = vs/q,  mc = ms − vc (ρ − τ ms);  f has mean mc and variance vc + s D0
    (ms, vs) mean and variance of wᵀu, sites (τ, ρ) of the last sweep as often as the row counts. Rows without
    a cavity are left out.
    """
    sweeps, sample = draft.sweeps, problem.sample
    assert isinstance(sweeps, Sweeps)
    assert problem.scratch is not None
    sites = problem.scratch.read(sweeps.generation)
    assert sites is not None
    chosen = np.sort(problem.sample_order(size))
    basis = sweeps.basis(draft.kernel, inducing_of(draft)).astype(sweeps.precision)
    rows = whiten(basis, problem.inputs(sample.features[chosen], basis.dtype))
    targets = sample.targets[chosen]
    counted = problem.weights.of_rows(sample.rows[chosen], targets)
    own = np.asarray(sites.oindex[sample.rows[chosen]])[:, :, :2] * counted[:, None, None]
    marginals = np.empty((*own.shape[:2], 2))
    for c in range(problem.n_heads):
        put_marginals(marginals, {c: sweeps.posterior(c).astype(sweeps.precision)}, rows)
    (precision, pushed), (mean, variance) = np.moveaxis(own, 2, 0), np.moveaxis(marginals, 2, 0)
    ratio = 1.0 - precision * variance
    kept = np.all(ratio > CAVITY_FLOOR[basis.dtype], axis=1)
    ratio = np.where(kept[:, None], ratio, 1.0)
    cavity = variance / ratio
    weights = problem.sample_weights(targets) * counted
    return LeftOutMarginals(
        (mean - cavity * (pushed - precision * mean))[kept],
        (cavity + sweeps.approximation.residual * rows.residual_variance[:, None])[kept],
        targets[kept],
        weights[kept] * (np.count_nonzero(kept) / max(weights[kept].sum(), 1e-300)),
        sample.keys[chosen][kept],
    )
