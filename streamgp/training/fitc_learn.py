"""Learning by the evidence of a sample's rows, all of them seen through inducing inputs.

First from several starts on a small sample, with inducing inputs drawn at random; then, once the inducing
inputs are chosen, a few steps more on a larger sample, which may move the inducing inputs too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from streamgp.inference.fitc import FOR_PREDICTION, fit_sites
from streamgp.inference.fitc_basis import make_basis
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.training.context import Context
from streamgp.training.fitc_evidence import (
    MOST_SWEEPS,
    Parameters,
    Problem,
    affordable,
    judged_heads,
    maximise,
    sample_problem,
)
from streamgp.training.fitc_starts import rough_twin
from streamgp.training.starts import start_kernels
from streamgp.training.state import Best, State

FloatArray = NDArray[np.float64]

FIRST_ROWS = {True: 1000, False: 2000}
"""Rows that decide about the start, of classes (which need many sweeps) and of real targets (one)."""
FIRST_INDUCING = {True: 200, False: 400}
RANKING_ROWS = 500
RANKING_INDUCING = 100
FIRST_STEPS = 20
LAST_ROWS = {True: 4000, False: 10_000}
LAST_INDUCING = {True: 400, False: 4000}
"""Inducing inputs that take part in the last steps, where they are not learned themselves."""
ROWS_PER_INDUCING = 20
LAST_STEPS = 10
LAST_STEPS_WITH_INPUTS = 30


def learn_start(context: Context, state: State, save: Callable[[State], None]) -> State:
    """Follow one start uphill; the last one hands over to the selection."""
    starts = _ranked_starts(context, state)
    problem = sample_problem(context, FIRST_ROWS[context.is_classification], judged_heads(context))
    inducing = _some(problem.inputs, FIRST_INDUCING[context.is_classification])
    mine = tuple(state.likelihoods[head] for head in problem.heads)
    kernel = starts[state.round]
    found, value = maximise(
        context, state, problem, Parameters(kernel, mine, inducing), False, FIRST_STEPS, save
    )
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
        phase=context.selection_phase,
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


def _some(inputs: FloatArray, count: int) -> FloatArray:
    """So many rows, at most half of them."""
    return _thinned(inputs, max(1, min(count, len(inputs) // 2)))


def _thinned(inputs: FloatArray, size: int) -> FloatArray:
    """At most ``size`` rows, evenly from all of them: classes follow each other."""
    return inputs[np.linspace(0, len(inputs) - 1, min(size, len(inputs))).astype(np.intp)]


def refine(context: Context, state: State, save: Callable[[State], None]) -> State:
    """A few steps uphill with the inducing inputs of the model, on more rows."""
    first = state.actives[0]
    inducing = first.inputs[: first.count]
    learn_inputs = context.learns_inducing
    size = min(ROWS_PER_INDUCING * max(len(inducing), 100), LAST_ROWS[context.is_classification])
    problem = sample_problem(context, affordable(context, state, size), judged_heads(context))
    used = inducing if learn_inputs else _thinned(inducing, LAST_INDUCING[context.is_classification])
    mine = tuple(state.likelihoods[head] for head in problem.heads)
    steps = LAST_STEPS_WITH_INPUTS if learn_inputs else LAST_STEPS
    found, value = maximise(
        context, state, problem, Parameters(state.kernel, mine, used), learn_inputs, steps, save
    )
    actives = state.actives
    if learn_inputs:
        # Inputs that have moved are no rows of the store any more.
        rows = np.full(len(inducing), -1)
        actives = tuple(replace(active.trimmed(), rows=rows, inputs=found.inducing) for active in actives)
    likelihoods = _adopted(state, problem, found)
    state = replace(state, kernel=found.kernel, likelihoods=likelihoods, actives=actives, evaluations={})
    state = state.told(log_evidence=-value, kernel=repr(found.kernel), rows=len(problem.inputs))
    return replace(state, phase="approximate")


def _adopted(state: State, problem: Problem, found: Parameters) -> tuple[Likelihood, ...]:
    """The state's likelihoods, those of the problem's heads replaced by what was found."""
    learned = dict(zip(problem.heads, found.likelihoods, strict=True))
    return tuple(learned.get(head, likelihood) for head, likelihood in enumerate(state.likelihoods))
