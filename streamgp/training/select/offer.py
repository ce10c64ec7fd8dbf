"""What one block does to active sets: rows are scored, enter and leave, and sites converge again."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from streamgp.arrays import FloatArray, IntArray
from streamgp.inference import Sites, head_from_sites
from streamgp.inference.active_set import ActiveSet
from streamgp.inference.damping import FOR_PREDICTION
from streamgp.inference.ep import active_marginals
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.passes.candidates import Pool
from streamgp.posterior import Snapshot
from streamgp.selection.predictive import Fit, Predictive, predictive_fit
from streamgp.training.heads import active_set, propagate
from streamgp.training.judge import marginals_in_memory
from streamgp.training.problem import Problem
from streamgp.training.select.blocks import pieces
from streamgp.training.stage import Draft


class Visited(NamedTuple):
    """What one block has done to a group of heads."""

    actives: list[ActiveSet]
    entered: int
    left: int
    is_full: bool
    log_evidence: float


def offer_block(
    problem: Problem, selection: Predictive, draft: Draft, heads: tuple[int, ...], pool: Pool
) -> Visited:
    """Offer a block to heads that share their active rows (often one alone), part by part."""
    actives = [draft.actives[head] for head in heads]
    likelihoods = [draft.likelihoods[head] for head in heads]
    result = Visited(actives, 0, 0, False, 0.0)
    for piece in pieces(problem, pool, heads, actives[0].rows):
        targets = [problem.head_targets(piece.targets, head) for head in heads]
        step = _offer(problem, selection, draft.kernel, likelihoods, result.actives, piece, targets)
        result = Visited(
            step.actives,
            result.entered + step.entered,
            result.left + step.left,
            result.is_full or step.is_full,
            step.log_evidence,
        )
    return result


def _offer(
    problem: Problem,
    selection: Predictive,
    kernel: Kernel,
    likelihoods: list[Likelihood],
    actives: list[ActiveSet],
    piece: Pool,
    targets: list[FloatArray],
) -> Visited:
    """Score rows and active rows by what is known without them; exchange; converge again."""
    features, counts = problem.inputs(piece.features), problem.weights.of_rows(piece.rows, piece.targets)
    candidates, rows = _fits(kernel, likelihoods, actives, features, targets)
    exchange = selection.exchange(
        candidates.counted(counts, selection.p_min),
        rows.counted(actives[0].weights),
        problem.plan.n_active,
    )
    stay = np.setdiff1d(np.arange(actives[0].count), exchange.leave)
    changed, log_evidence = [], 0.0
    for active, likelihood, own in zip(actives, likelihoods, targets, strict=True):
        following = _exchanged(active, stay, piece, features, own, counts, exchange.enter)
        found = propagate(kernel, likelihood, following, FOR_PREDICTION)
        log_evidence += found.log_evidence
        changed.append(replace(following, precision=found.sites[0], precision_mean=found.sites[1]))
    return Visited(changed, len(exchange.enter), len(exchange.leave), exchange.is_full, log_evidence)


def _fits(
    kernel: Kernel,
    likelihoods: list[Likelihood],
    actives: list[ActiveSet],
    features: FloatArray,
    targets: list[FloatArray],
) -> tuple[Fit, Fit]:
    """Fit of candidates by their marginals, and of active rows by their cavities; the worst of all heads."""
    gram = kernel.gram(actives[0].inputs).astype(np.float64, copy=False)
    candidates, rows = [], []
    for active, likelihood, own in zip(actives, likelihoods, targets, strict=True):
        marginals = active_marginals(gram, active.sites)
        rows.append(
            predictive_fit(likelihood, active.targets, marginals.cavity_mean, marginals.cavity_variance)
        )
        snapshot = Snapshot(kernel, active.inputs, (head_from_sites(gram.copy(), active.sites),))
        mean, variance = marginals_in_memory(snapshot, features)
        assert variance is not None
        candidates.append(predictive_fit(likelihood, own, mean[:, 0], variance[:, 0]))
    return reduce(Fit.worst, candidates), reduce(Fit.worst, rows)


def _exchanged(
    active: ActiveSet,
    stay: IntArray,
    piece: Pool,
    features: FloatArray,
    targets: FloatArray,
    counts: FloatArray,
    enter: IntArray,
) -> ActiveSet:
    """The active set without the rows that leave, and with those that enter, whose sites are flat."""
    flat = np.zeros(len(enter))
    sites = Sites(*(np.append(part[stay], flat) for part in active.sites))
    return active_set(
        np.append(active.rows[stay], piece.rows[enter]),
        np.concatenate([active.inputs[stay], features[enter]]),
        np.append(active.targets[stay], targets[enter]),
        sites,
        np.append(active.weights[stay], counts[enter]),
    )
