"""Learning by the evidence of a sample's rows, all of them seen through inducing inputs.

First from several starts on a small sample, with inducing inputs drawn at random; then a few steps more on a
larger sample, with the inducing inputs of the model once they are chosen, which may be moved too; where the
model has active rows instead, with centres of clusters.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import LinAlgError

from streamgp.arrays import Array, FloatArray
from streamgp.inference import Sites
from streamgp.inference.damping import FOR_EVIDENCE, FOR_PREDICTION
from streamgp.inference.inducing.basis import make_basis
from streamgp.inference.inducing.fit import converged_evidence, fit_sites
from streamgp.kernels import Kernel
from streamgp.likelihoods import Likelihood
from streamgp.selection.centres import cluster_centres, metric
from streamgp.training.codec import record
from streamgp.training.heads import inducing_of, with_inducing
from streamgp.training.learn.climb import NOT_AT_ALL, Memory, Parameters, climb, penalised, reach, refused
from streamgp.training.optimise import SCIPY_TOLERANCE, Evaluations, in_time
from streamgp.training.problem import Problem
from streamgp.training.sample import Sampled, affordable, judged_heads, sample_rows
from streamgp.training.stage import Draft, Save, Stage
from streamgp.training.starts import Starts, rough_twin

RANKING_ROWS = 500
RANKING_INDUCING = 100
FIRST_STEPS = 20
LAST_STEPS = 10
LAST_STEPS_WITH_INPUTS = 30
FEWEST_INDUCING = 100
ROWS_PER_INDUCING = 20
CENTRE_STEPS = 10
MOST_SWEEPS = 60


@dataclass(frozen=True)
class Sizes:
    """Rows and inducing inputs that learning by evidence takes: for the starts, and for the last steps.

    ``last_inducing`` inputs of the model take part in the last steps at most, unless they are learned
    themselves; ``last_centres`` are used where the model has active rows, which need a kernel, not inputs.
    """

    first_rows: int
    first_inducing: int
    last_rows: int
    last_inducing: int
    last_centres: int


FOR_CLASSES = Sizes(1000, 200, 8000, 800, 400)  # each evaluation takes several sweeps
FOR_REAL_TARGETS = Sizes(2000, 400, 6000, 4000, 4000)  # each evaluation takes one


class Accuracy(NamedTuple):
    """How a climb is done.

    ``tolerance`` is how well the sites of an evaluation agree with their posterior, ``sweeps_in`` the type of
    the sweeps for it. ``first_step`` and ``least_gain`` are those of :func:`climb`.
    """

    tolerance: float
    sweeps_in: DTypeLike
    first_step: float = 1.0
    least_gain: float = SCIPY_TOLERANCE


SHARP = Accuracy(FOR_EVIDENCE, np.float64)
COARSE = Accuracy(FOR_PREDICTION, np.float32, first_step=0.05, least_gain=3e-4)
"""Of many rows, near to where it ends. Reasons and measurements are in docs/decisions.md."""


@record
@dataclass(frozen=True, eq=False)
class Climbs:
    """The starts that have been followed uphill, and the best end: its log evidence and parameters."""

    done: int = 0
    log_evidence: float | None = None
    kernel: Kernel | None = None
    likelihoods: tuple[Likelihood, ...] = ()
    evaluations: Evaluations = field(default_factory=dict)


def climb_starts(sizes: Sizes, starts: Starts | None) -> Stage:
    """Follow several starts uphill, one a step, and keep the best; a given kernel is the only start."""
    return Stage("learn: evidence", lambda problem, draft: Climbs(), partial(_climb_one_start, sizes, starts))


def _climb_one_start(
    sizes: Sizes, starts: Starts | None, problem: Problem, draft: Draft, own: Climbs, save: Save
) -> tuple[Draft, Climbs | None, dict[str, Any]]:
    kernels = [draft.kernel] if starts is None else _ranked(problem, draft, starts)
    rows = sample_rows(problem, sizes.first_rows, judged_heads(problem))
    found, value = climb(
        problem,
        partial(evidence, rows, False, SHARP),
        Parameters(kernels[own.done], _likelihoods_of(draft, rows), _some(rows.inputs, sizes.first_inducing)),
        FIRST_STEPS,
        own.evaluations,
        lambda arrays: save(replace(own, evaluations=arrays)),
    )
    told = {"log_evidence": -value, "kernel": repr(found.kernel), "rows": len(rows.inputs)}
    own = replace(own, done=own.done + 1, evaluations={})
    if own.log_evidence is None or -value > own.log_evidence:
        likelihoods = _adopted(draft, rows, found)
        own = replace(own, log_evidence=-value, kernel=found.kernel, likelihoods=likelihoods)
    if own.done < len(kernels) and not problem.is_late():
        return draft, own, told
    assert own.kernel is not None
    return replace(draft, kernel=own.kernel, likelihoods=own.likelihoods), None, told


def _ranked(problem: Problem, draft: Draft, starts: Starts) -> list[Kernel]:
    """The kernels to follow uphill: of largest evidence on a few rows, and one of another kind.

    A rough kernel beside a smooth one; beside the polynomial of pixels, or instead of it, an RBF.
    """
    rows = sample_rows(problem, RANKING_ROWS, judged_heads(problem))
    inducing = _some(rows.inputs, RANKING_INDUCING)

    def misfit(kernel: Kernel) -> float:
        basis = make_basis(kernel, inducing)
        return -sum(
            fit_sites(
                basis,
                draft.likelihoods[head],
                rows.rows(place),
                tolerance=FOR_PREDICTION,
                max_sweeps=MOST_SWEEPS,
                hold=np.float64,
            ).evidence
            for place, head in enumerate(rows.heads)
        )

    first, *others = sorted(starts.kernels(problem), key=misfit)
    if starts.with_polynomials:
        return [first, next(kernel for kernel in others if type(kernel) is not type(first))]
    rougher = [rough_twin(kernel) for kernel in (first, *others)]
    return [first, next(kernel for kernel in rougher if kernel is not None)]


def refine_with_inducing(sizes: Sizes, *, learn_inputs: bool) -> Stage:
    """A few steps uphill on more rows, with the inducing inputs of the model, which may move too."""

    def step(
        problem: Problem, draft: Draft, own: Evaluations, save: Save
    ) -> tuple[Draft, None, dict[str, Any]]:
        known = inducing_of(draft)
        count = len(known) if learn_inputs else min(len(known), sizes.last_inducing)
        fewest = count if learn_inputs else FEWEST_INDUCING
        rows, count = _last_rows(problem, draft, sizes, count, fewest)
        accuracy = SHARP if learn_inputs else COARSE
        found, value = climb(
            problem,
            partial(evidence, rows, learn_inputs, accuracy),
            Parameters(draft.kernel, _likelihoods_of(draft, rows), _thinned(known, count)),
            LAST_STEPS_WITH_INPUTS if learn_inputs else LAST_STEPS,
            own,
            save,
            within=reach(rows.inputs) if learn_inputs else None,
            first_step=accuracy.first_step,
            tolerance=accuracy.least_gain,
        )
        moved = with_inducing(draft, found.inducing) if learn_inputs else draft
        return _refined(moved, rows, found, value)

    return Stage("learn: refine", lambda problem, draft: {}, step)


def refine_with_centres(sizes: Sizes) -> Stage:
    """A few steps uphill on more rows, seen through centres of clusters: there is no active set yet."""

    def step(
        problem: Problem, draft: Draft, own: Evaluations, save: Save
    ) -> tuple[Draft, None, dict[str, Any]]:
        rows, count = _last_rows(problem, draft, sizes, sizes.last_centres, FEWEST_INDUCING)
        centres = _centres(rows.inputs, draft.kernel, count)
        start = Parameters(draft.kernel, _likelihoods_of(draft, rows), centres)
        found, value = climb(
            problem,
            partial(evidence, rows, False, COARSE),
            start,
            LAST_STEPS,
            own,
            save,
            first_step=COARSE.first_step,
            tolerance=COARSE.least_gain,
        )
        return _refined(draft, rows, found, value)

    return Stage("learn: refine", lambda problem, draft: {}, step)


def _last_rows(problem: Problem, draft: Draft, sizes: Sizes, count: int, fewest: int) -> tuple[Sampled, int]:
    """Rows of the last steps, and how many inducing inputs they can afford."""
    wanted = min(ROWS_PER_INDUCING * max(problem.plan.n_active, 100), sizes.last_rows)
    size, count = affordable(problem, draft, wanted, count, fewest_inducing=fewest)
    rows = sample_rows(problem, size, judged_heads(problem))
    # An evaluation takes many sweeps over many rows.
    return rows._replace(before=in_time(problem.is_late)), count


def _refined(
    draft: Draft, rows: Sampled, found: Parameters, value: float
) -> tuple[Draft, None, dict[str, Any]]:
    told = {"log_evidence": -value, "kernel": repr(found.kernel), "rows": len(rows.inputs)}
    if not np.isfinite(value):
        told |= {"log_evidence": None, "left_out": "all of it: max_seconds have passed"}
    likelihoods = _adopted(draft, rows, found)
    return replace(draft, kernel=found.kernel, likelihoods=likelihoods), None, told


def evidence(
    rows: Sampled, inputs: bool, accuracy: Accuracy, parameters: Parameters, memory: Memory
) -> tuple[float, FloatArray, Memory]:
    """−log Z of the heads of a sample minus log hyperpriors, its gradient, and the sites that were reached.

    ``memory`` has the sites to start from, (heads, 2, n); none where there is no evidence.
    """
    start = memory.get("sites")
    found, sites = [], []
    try:
        basis = make_basis(parameters.kernel, parameters.inducing)
        for place, likelihood in enumerate(parameters.likelihoods):
            result, fit = converged_evidence(
                basis,
                likelihood,
                rows.rows(place),
                sites=None if start is None else Sites(*start[place]),
                inputs=inputs,
                tolerance=accuracy.tolerance,
                max_sweeps=MOST_SWEEPS,
                hold=accuracy.sweeps_in,
            )
            if not fit.converged and fit.residual > NOT_AT_ALL:
                raise LinAlgError("no convergence")
            found.append(result)
            sites.append(fit.sites)
    except LinAlgError:
        return refused(parameters, inputs)
    return *penalised(parameters, found, inputs, rows.hyperpriors), {"sites": np.array(sites)}


def _some(inputs: Array, count: int) -> Array:
    """So many rows, at most half of them."""
    return _thinned(inputs, max(1, min(count, len(inputs) // 2)))


def _thinned(inputs: Array, size: int) -> Array:
    """At most ``size`` rows, evenly from all of them: classes follow each other."""
    return inputs[np.linspace(0, len(inputs) - 1, min(size, len(inputs))).astype(np.intp)]


def _centres(inputs: FloatArray, kernel: Kernel, count: int) -> FloatArray:
    """Centres of clusters of rows, in the kernel's metric; at most half as many as rows."""
    scale = metric(kernel, inputs.shape[1])
    scaled = (inputs / scale).astype(np.float32)
    return cluster_centres(scaled, _some(scaled, count), CENTRE_STEPS) * scale


def _likelihoods_of(draft: Draft, rows: Sampled) -> tuple[Likelihood, ...]:
    return tuple(draft.likelihoods[head] for head in rows.heads)


def _adopted(draft: Draft, rows: Sampled, found: Parameters) -> tuple[Likelihood, ...]:
    """The draft's likelihoods, those of the sample's heads replaced by what was found."""
    learned = dict(zip(rows.heads, found.likelihoods, strict=True))
    return tuple(learned.get(head, likelihood) for head, likelihood in enumerate(draft.likelihoods))
