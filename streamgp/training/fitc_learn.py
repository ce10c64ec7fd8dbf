"""Learning by the evidence of a sample's rows, all of them seen through inducing inputs.

First from several starts on a small sample, with inducing inputs drawn at random; then a few steps more on a
larger sample, with the inducing inputs of the model once they are chosen, which may be moved too; where the
model has active rows instead, with centres of clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from streamgp.arrays import Array, FloatArray
from streamgp.inference.inducing.basis import make_basis
from streamgp.inference.inducing.fit import FOR_PREDICTION, fit_sites
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.training.context import Context
from streamgp.training.fitc_evidence import (
    MOST_SWEEPS,
    Parameters,
    Problem,
    affordable,
    evidence,
    judged_heads,
    maximise,
    reach,
    sample_problem,
)
from streamgp.training.fitc_inducing import cluster_centres, metric
from streamgp.training.fitc_starts import rough_twin
from streamgp.training.fitc_sweeps import inducing_of
from streamgp.training.heads import with_inducing
from streamgp.training.starts import start_kernels
from streamgp.training.state import Best, State

FIRST_ROWS = {True: 1000, False: 2000}
"""Rows that decide about the start, of classes (which need many sweeps) and of real targets (one)."""
FIRST_INDUCING = {True: 200, False: 400}
RANKING_ROWS = 500
RANKING_INDUCING = 100
FIRST_STEPS = 20
LAST_ROWS = {True: 20_000, False: 10_000}
LAST_INDUCING = {True: 1000, False: 4000}
"""Inducing inputs that take part in the last steps at most, where they are not learned themselves."""
LAST_CENTRES = {True: 400, False: 4000}
"""Centres of clusters instead, where the model has active rows: they need a kernel, not these inputs."""
FEWEST_INDUCING = 100
ROWS_PER_INDUCING = 20
CENTRE_STEPS = 10
LAST_STEPS = 10
LAST_STEPS_WITH_INPUTS = 30


def learn_start(context: Context, state: State, save: Callable[[State], None]) -> State:
    """Follow one start uphill; the last one hands over to the selection."""
    starts = _ranked_starts(context, state)
    problem = sample_problem(context, FIRST_ROWS[context.is_classification], judged_heads(context))
    inducing = _some(problem.inputs, FIRST_INDUCING[context.is_classification])
    mine = tuple(state.likelihoods[head] for head in problem.heads)
    kernel = starts[state.round]
    evaluate = partial(evidence, problem, False)
    found, value = maximise(evaluate, state, Parameters(kernel, mine, inducing), FIRST_STEPS, save)
    state = replace(state, evaluations={})
    if state.best is None or -value > state.best.density:
        state = replace(state, best=Best(-value, found.kernel, _adopted(state, problem, found)))
    state = state.told(log_evidence=-value, kernel=repr(found.kernel), rows=len(problem.inputs))
    state = replace(state, round=state.round + 1)
    if state.round < len(starts) and not context.is_late():
        return state
    assert state.best is not None
    return replace(
        state,
        kernel=state.best.kernel,
        likelihoods=state.best.likelihoods,
        best=None,
        round=0,
        # Inducing inputs are chosen in the learned metric; active rows by the kernel that is learned in full.
        phase=context.selection_phase if context.settings.inference == "fitc" else "refine",
    )


def _ranked_starts(context: Context, state: State) -> list[Kernel]:
    """The kernels to follow uphill: of largest evidence on a few rows, and one of another kind.

    A rough kernel beside a smooth one; beside the polynomial of pixels, or instead of it, an RBF.
    """
    if context.settings.kernel is not None:
        return [context.settings.kernel]
    problem = sample_problem(context, RANKING_ROWS, judged_heads(context))
    inducing = _some(problem.inputs, RANKING_INDUCING)
    starts = start_kernels(context)

    def misfit(kernel: Kernel) -> float:
        basis = make_basis(kernel, inducing)
        return -sum(
            fit_sites(
                basis,
                state.likelihoods[head],
                problem.rows(place),
                tolerance=FOR_PREDICTION,
                max_sweeps=MOST_SWEEPS,
                hold=True,
            ).evidence
            for place, head in enumerate(problem.heads)
        )

    first, *others = sorted(starts, key=misfit)
    rougher = [rough_twin(kernel) for kernel in (first, *others)]
    if not context.prepared.standardizer.is_common:
        return [first, next(kernel for kernel in rougher if kernel is not None)]
    return [first, next(kernel for kernel in others if type(kernel) is not type(first))]


def _some(inputs: Array, count: int) -> Array:
    """So many rows, at most half of them."""
    return _thinned(inputs, max(1, min(count, len(inputs) // 2)))


def _thinned(inputs: Array, size: int) -> Array:
    """At most ``size`` rows, evenly from all of them: classes follow each other."""
    return inputs[np.linspace(0, len(inputs) - 1, min(size, len(inputs))).astype(np.intp)]


def refine(context: Context, state: State, save: Callable[[State], None]) -> State:
    """A few steps uphill on more rows, with the inducing inputs of the model if it has any, else others."""
    over_all_rows = context.settings.inference == "fitc"
    learn_inputs = over_all_rows and context.learns_inducing
    known = inducing_of(state)  # none yet, unless rows are seen through them
    most = (LAST_INDUCING if over_all_rows else LAST_CENTRES)[context.is_classification]
    count = len(known) if learn_inputs else min(len(known) or most, most)
    wanted = min(ROWS_PER_INDUCING * max(context.plan.n_active, 100), LAST_ROWS[context.is_classification])
    fewest = count if learn_inputs else FEWEST_INDUCING
    size, count = affordable(context, state, wanted, count, fewest_inducing=fewest)
    problem = sample_problem(context, size, judged_heads(context))
    used = _thinned(known, count) if over_all_rows else _centres(problem.inputs, state.kernel, count)
    mine = tuple(state.likelihoods[head] for head in problem.heads)
    steps = LAST_STEPS_WITH_INPUTS if learn_inputs else LAST_STEPS
    found, value = maximise(
        partial(evidence, problem, learn_inputs),
        state,
        Parameters(state.kernel, mine, used),
        steps,
        save,
        within=reach(problem.inputs) if learn_inputs else None,
    )
    if learn_inputs:
        state = with_inducing(state, found.inducing)
    likelihoods = _adopted(state, problem, found)
    state = replace(state, kernel=found.kernel, likelihoods=likelihoods, evaluations={})
    state = state.told(log_evidence=-value, kernel=repr(found.kernel), rows=len(problem.inputs))
    if not over_all_rows:
        return replace(state, phase=context.selection_phase)
    goes_on = context.settings.learning == "passes" and not context.is_late()
    return replace(state, phase="refine_all" if goes_on else "approximate")


def _centres(inputs: FloatArray, kernel: Kernel, count: int) -> FloatArray:
    """Centres of clusters of rows, in the kernel's metric; at most half as many as rows."""
    scale = metric(kernel, inputs.shape[1])
    scaled = (inputs / scale).astype(np.float32)
    return cluster_centres(scaled, _some(scaled, count), CENTRE_STEPS) * scale


def _adopted(state: State, problem: Problem, found: Parameters) -> tuple[Likelihood, ...]:
    """The state's likelihoods, those of the problem's heads replaced by what was found."""
    learned = dict(zip(problem.heads, found.likelihoods, strict=True))
    return tuple(learned.get(head, likelihood) for head, likelihood in enumerate(state.likelihoods))
