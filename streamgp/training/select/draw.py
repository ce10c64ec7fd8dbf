"""Active rows at random: the baseline, and where predictive selections begin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.arrays import IntArray
from streamgp.errors import ParameterError
from streamgp.inference import Sites, filter_sites
from streamgp.inference.damping import FOR_PREDICTION
from streamgp.kernels import Kernel
from streamgp.passes.candidates import Pool, smallest
from streamgp.selection import stratified_quotas
from streamgp.selection.predictive import Predictive
from streamgp.training.heads import active_set, converged, with_inducing
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Stage, once

START_ROWS = 300
"""Active rows that decide about the start of learning."""

ChooseKernel = Callable[[Problem, Draft, Pool], Kernel]


def draw_actives() -> Stage:
    """Rows of the sample at random, the same for all heads, each site visited once in their order."""

    def work(problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
        drawn = _drawn(problem)
        inputs = problem.inputs(drawn.features)
        gram = draft.kernel.gram(inputs).astype(np.float64, copy=False)
        weights = problem.weights.of_rows(drawn.rows, drawn.targets)
        actives = []
        for head, likelihood in enumerate(draft.likelihoods):
            targets = problem.head_targets(drawn.targets, head)
            sites = filter_sites(gram, targets, likelihood, weights)
            actives.append(active_set(drawn.rows, inputs, targets, sites, weights))
        draft = replace(draft, actives=tuple(actives))
        return draft, {"n_active": draft.sizes, "candidates": len(problem.sample.rows)}

    return once("select: random", work)


def draw_inducing() -> Stage:
    """The same rows as inducing inputs alone: without sites, which a joint likelihood has none of."""

    def work(problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
        drawn = _drawn(problem)
        draft = with_inducing(draft, problem.inputs(drawn.features), drawn.rows)
        return draft, {"n_active": draft.sizes, "candidates": len(problem.sample.rows)}

    return once("select: random", work)


def _drawn(problem: Problem) -> Pool:
    """Rows of the sample in random order, which filtering depends on."""
    wanted, sample = problem.plan.n_active, problem.sample
    places: IntArray = np.arange(len(sample.rows))
    if not problem.holds_all_rows:
        places = smallest(sample.keys, problem.plan.candidates_at(wanted))
    pool = sample.take(places)
    return pool.take(np.argsort(pool.keys, kind="stable")[:wanted])


def draw_first(selection: Predictive, choose_kernel: ChooseKernel | None) -> Stage:
    """The rows that a selection begins with, the same for all heads; a kernel may be chosen by some first."""

    def work(problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
        size = selection.initial_size(problem.plan.n_active)
        if choose_kernel is not None:
            few = _stratified(problem, min(size, START_ROWS))
            draft = replace(draft, kernel=choose_kernel(problem, draft, few))
        return _begun(problem, draft, _stratified(problem, size))

    return once("select: draw", work)


def draw_printed(selection: Predictive) -> Stage:
    """Rows at random to begin with, whatever their classes are.  Source: [PASS2012] algorithm 1."""

    def work(problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
        if not problem.holds_all_rows:
            raise ParameterError(
                f"{type(selection).__name__}.paper() keeps all {problem.n_rows} rows in memory, but "
                f"memory_budget has room for {len(problem.sample.rows)}: give a larger one, or "
                f"{type(selection).__name__}() without paper()"
            )
        places = np.sort(problem.sample_order(selection.initial_size(problem.plan.n_active)))
        return _begun(problem, draft, problem.sample.take(places))

    return once("select: draw", work)


def _begun(problem: Problem, draft: Draft, first: Pool) -> tuple[Draft, dict[str, Any]]:
    """The first rows as the active set of all heads, their sites converged."""
    flat = Sites(np.zeros(len(first.rows)), np.zeros(len(first.rows)))
    inputs, weights = problem.inputs(first.features), problem.weights.of_rows(first.rows, first.targets)
    actives = tuple(
        active_set(first.rows, inputs, problem.head_targets(first.targets, head), flat, weights)
        for head in range(problem.n_heads)
    )
    draft, found = converged(problem, replace(draft, actives=actives), FOR_PREDICTION)
    return draft, {
        "n_active": draft.sizes,
        "log_evidence_active": sum(result.log_evidence for result in found),
        "kernel": repr(draft.kernel),
    }


def _stratified(problem: Problem, size: int) -> Pool:
    """Rows of the sample, at random, rare classes with at least a quarter of an equal part."""
    sample = problem.sample
    codes = (
        sample.targets.astype(np.int64) if problem.is_classification else np.zeros(len(sample.rows), np.int64)
    )
    quotas = stratified_quotas(np.bincount(codes), size, least_share=0.25)
    order = problem.sample_order()
    chosen = np.concatenate([order[codes[order] == code][:quota] for code, quota in enumerate(quotas)])
    return sample.take(np.sort(chosen[:size]))
