"""Inducing inputs by the evidence that each would add, given residual variances and misfits of the rows."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference.inducing.basis import Basis, WhitenedRows, make_basis, whiten
from streamgp.inference.inducing.fit import fit_sites
from streamgp.inference.inducing.updates import CAVITY_FLOOR, update_rows
from streamgp.selection.inducing import EvidenceGain
from streamgp.training.heads import with_inducing
from streamgp.training.problem import Problem
from streamgp.training.sample import Sampled, judged_heads, sample_rows
from streamgp.training.stage import Draft, Stage, once

logger = logging.getLogger(__name__)

FIRST = 16
"""Inputs at random to begin with."""
TOLERANCE = 1e-2
MOST_SWEEPS = 15


class Misfit(NamedTuple):
    """What rows say about one head's posterior; (n,) each.

    v = ρ − τ ms ``gap``, the slope of the log site by s; τ ``precision``; e ``slope``, that of the evidence
    by the residual variance; each times the row's weight.
    """

    gap: FloatArray
    precision: FloatArray
    slope: FloatArray


def gain_inducing(selection: EvidenceGain) -> Stage:
    """Grow the inducing inputs by half of their number again and again; sites are refitted in between."""

    def work(problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
        sample = problem.sample
        wanted = min(problem.plan.n_active, len(sample.rows))
        rows = sample_rows(problem, selection.rows, judged_heads(problem))
        pool = problem.sample_order(max(wanted, int(selection.candidates_per_input * wanted)))
        inputs = problem.inputs(sample.features[pool])
        chosen = list(range(min(FIRST, wanted)))
        while len(chosen) < wanted and not problem.is_late():
            until = min(wanted, len(chosen) + max(FIRST, len(chosen) // 2))
            basis = make_basis(draft.kernel, inputs[chosen])
            misfits = [_misfit(basis, draft, rows, place) for place in range(len(rows.heads))]
            picked = greedy_gains(basis, inputs, rows.inputs, misfits, until - len(chosen), chosen)
            if not picked:
                break
            chosen += picked
        told = {"n_active": [len(chosen)], "rows": len(rows.inputs)}
        if problem.is_late():
            told["left_out"] = "other inducing inputs: max_seconds have passed"
        elif len(chosen) < problem.plan.n_active:
            message = "%d inducing inputs instead of %d: they explain all rows that could be others"
            logger.warning(message, len(chosen), problem.plan.n_active)
        return with_inducing(draft, inputs[chosen], sample.rows[pool][chosen]), told

    return once("select: gain", work)


def _misfit(basis: Basis, draft: Draft, sampled: Sampled, place: int) -> Misfit:
    likelihood = draft.likelihoods[sampled.heads[place]]
    rows, targets = sampled.rows(place), sampled.targets[place]
    fit = fit_sites(basis, likelihood, rows, tolerance=TOLERANCE, max_sweeps=MOST_SWEEPS, hold=basis.dtype)
    seen = whiten(basis, sampled.inputs)
    projected = seen.features @ fit.posterior.spread
    mean, variance = projected @ fit.posterior.projected_targets, np.square(projected).sum(axis=1)
    floor = CAVITY_FLOOR[basis.dtype]
    update = update_rows(likelihood, targets, fit.sites, mean, variance, seen.residual_variance, 1.0, floor)
    slope = 0.5 * (update.slope**2 - update.curvature)
    weights = sampled.weights
    return Misfit(weights * update.precision_gap, weights * fit.sites.precision, weights * slope)


def greedy_gains(
    basis: Basis,
    candidates: FloatArray,
    rows: FloatArray,
    misfits: list[Misfit],
    count: int,
    known: list[int],
) -> list[int]:
    """Candidates of largest gain, one after the other; sites stay, residual variances and gaps follow.

    gain = ½ (cᵀv)²/(D + cᵀτc) − ½ log(1 + cᵀτc/D) − cᵀe c/D,  cᵀτc = Σ τ_j c_j²
    c the covariance of candidate and rows that the basis leaves unexplained, D that of the candidate itself:
    a new direction u ~ N(0, 1) enters every row as c_j u/√D, its sites decide about u as if all others stood
    still, and takes c_j²/D off the residual variance of row j, where the evidence has the slope e_j.
    Shapes: candidates (k, p), rows (n, p) → at most ``count`` places.  Cost: O(k n) for each, memory O(k n).
    """
    seen, own = whiten(basis, rows), whiten(basis, candidates)
    covariance = basis.kernel.block(candidates, rows) - own.features @ seen.features.T
    # A candidate would be an inducing input, a value of the function: it has no white noise.
    left = np.maximum(own.residual_variance - basis.kernel.nugget(candidates), 0.0)
    smallest = 1e-6 * float(np.mean(basis.kernel.smooth_diagonal(candidates)))
    gaps = [misfit.gap.copy() for misfit in misfits]
    directions = np.empty((0, len(candidates)))
    free = np.ones(len(candidates), np.bool_)
    free[known] = False
    picked: list[int] = []
    while len(picked) < count:
        usable = free & (left > smallest)
        if not usable.any():
            break
        variance = np.where(usable, left, 1.0)
        squares = np.square(covariance)
        gain = np.zeros(len(candidates))
        for misfit, gap in zip(misfits, gaps, strict=True):
            sharpness = squares @ misfit.precision / variance
            gain += 0.5 * np.square(covariance @ gap) / variance / (1.0 + sharpness)
            gain -= 0.5 * np.log1p(sharpness) + squares @ misfit.slope / variance
        best = int(np.argmax(np.where(usable, gain, -np.inf)))
        picked.append(best)
        free[best] = False
        by_row = covariance[best] / np.sqrt(left[best])
        for misfit, gap in zip(misfits, gaps, strict=True):
            mean = by_row @ gap / (1.0 + np.square(by_row) @ misfit.precision)
            gap -= misfit.precision * by_row * mean
        by_candidate = _left_over(basis, candidates, own, directions, best) / np.sqrt(left[best])
        directions = np.vstack([directions, by_candidate])
        covariance -= np.outer(by_candidate, by_row)
        left = np.maximum(left - np.square(by_candidate), 0.0)
    return picked


def _left_over(
    basis: Basis, candidates: FloatArray, own: WhitenedRows, directions: FloatArray, one: int
) -> FloatArray:
    """Covariance of all candidates with one of them, less what basis and new directions explain: (k,)."""
    column = basis.kernel.block(candidates, candidates[one : one + 1])[:, 0]
    left: FloatArray = column - own.features @ own.features[one] - directions.T @ directions[:, one]
    return left
