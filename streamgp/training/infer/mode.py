"""Mean first: the mode of all rows, in few passes that cost no m² a row, or of whitened rows in memory.

A sample in memory gives a start and the shape of the problem; in coordinates in which that is round, L-BFGS
over all rows needs few evaluations. Where all rows, whitened, fit into the budget (if need be as 16 bits),
they are read once. Where there are very many, every part of the store makes a step, and two or three passes
are enough.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.data import Span
from streamgp.errors import NotConvergedWarning
from streamgp.inference.inducing.basis import Basis, make_basis
from streamgp.inference.inducing.held import HoldStep, merge_held
from streamgp.inference.inducing.mode import (
    Mode,
    ModeStep,
    ModeSums,
    PointTerms,
    find_mode,
    merge_modes,
    mode_scale,
)
from streamgp.passes.blas import single_threaded_blas
from streamgp.passes.run import available_threads, find_client
from streamgp.passes.sites import SiteSweep
from streamgp.posterior import Head, Snapshot
from streamgp.posterior.calibration import Calibration
from streamgp.settings import FITC
from streamgp.training.codec import record
from streamgp.training.heads import inducing_of
from streamgp.training.held import TILE_ROWS, held_sample, rows_that_fit
from streamgp.training.infer.parts import Judge, Walk, parts_of, steps_ahead, walk_parts
from streamgp.training.optimise import Evaluations, descend, logged
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Save, Stage
from streamgp.training.sweeps import sum_over_rows

SAMPLE_ROWS = 20_000
FEWEST_ROWS = 500
SAMPLE_STEPS = 40
HELD_STEPS = 400
PACKED = "int16"
"""Type of whitened rows that would not fit in float32."""
PART_PASSES = 8
PART_GAIN = 0.01
"""Share of the loss of held-out rows that a pass must gain for another one to follow."""
JUDGES, LOOKED_AT = 10_000, 2000
"""Rows that judge a pass, and those of a look within it."""
VALUE_TOLERANCE = 0.1
"""Share of ``tolerance`` by which a step must improve the log posterior for the search to go on."""


@record
@dataclass(frozen=True, eq=False)
class Modes:
    """The search under way: a start (m, k), coordinates (m, m), evaluations over all rows.

    The start is where the sample led. ``walk``: the steps by parts of the store, where it has many.
    """

    start: FloatArray
    scale: FloatArray
    walk: Walk | None = None
    evaluations: Evaluations = field(default_factory=dict)


@record
@dataclass(frozen=True, eq=False)
class JointMeans:
    """A posterior that is its mode: whitened weights U (m, k), and the type of the passes."""

    weights: FloatArray
    precision: str

    def snapshot(self, kernel: Any, inducing: FloatArray, calibrations: tuple[Calibration, ...]) -> Snapshot:
        """The mode as a model of its own, in float64: a point, without variance."""
        basis, columns = make_basis(kernel, inducing, self.precision), slice(0, len(inducing))
        by_class = basis.whitening @ self.weights
        heads = tuple(
            Head(None, np.ascontiguousarray(by_class[:, c]), columns, calibration, residual=0.0)
            for c, calibration in enumerate(calibrations)
        )
        return Snapshot(kernel, inducing, heads)

    def model_snapshot(self, problem: Problem, draft: Draft) -> Snapshot:
        """The model that a fit ends with, in the precision that its passes need."""
        return problem.in_pass_precision(self.snapshot(draft.kernel, inducing_of(draft), draft.calibrations))


def find_joint_mode(inference: FITC) -> Stage:
    """First the mode of a sample, then (one step more) that of all rows."""

    def step(problem: Problem, draft: Draft, own: Modes, save: Save) -> tuple[Draft, None, dict[str, Any]]:
        if _held_as(problem, draft):
            search = _of_held_rows
        else:
            search = _by_parts if parts_of(problem.prepared.rows, draft.n_active) else _of_all_rows
        mode, passes = search(problem, draft, own, save, inference)
        if not mode.converged and not problem.is_late():
            warnings.warn(
                f"the mode was not found to tolerance={inference.tolerance:g} in {mode.evaluations} "
                f"evaluations: give a larger one, or FITC(most_sweeps=...) more than "
                f"{inference.most_sweeps}",
                NotConvergedWarning,
                stacklevel=2,
            )
        told = {
            "n_active": draft.sizes,
            "passes": passes,
            "evaluations": mode.evaluations,
            "converged": mode.converged,
            # Steps by parts never meet all rows with the same weights.
            "log_posterior": mode.value if np.isfinite(mode.value) else None,
            "rows": problem.n_rows,
        }
        return replace(draft, sweeps=JointMeans(mode.weights, _precision(problem))), None, told

    return Stage("infer: mode", _of_sample, step)


def _of_sample(problem: Problem, draft: Draft) -> Modes:
    """Where the mode of a sample lies, and coordinates in which the problem of all rows is nearly round."""
    basis, terms = _basis(problem, draft), _terms(problem, draft)
    size = min(SAMPLE_ROWS, max(rows_that_fit(problem, draft, _precision(problem)), FEWEST_ROWS))
    rows = held_sample(problem, basis, size)
    # Rows that stand for many others would be fitted too well to be a start for those.
    share = sum(len(tile.encoded) for tile in rows) / sum(float(tile.weights.sum()) for tile in rows)
    found = find_mode(
        [tile._replace(weights=share * tile.weights) for tile in rows],
        terms,
        n_functions=problem.n_heads,
        most_steps=SAMPLE_STEPS,
        workers=available_threads(),
    )
    if _held_as(problem, draft) or not parts_of(problem.prepared.rows, draft.n_active):
        return Modes(found.weights, mode_scale(rows, terms, found.weights))
    if len(problem.sample.rows) >= 2 * size:
        # Rows that were fitted are too sure of themselves to know the curvature: others tell it.
        del rows  # as large as those
        rows = held_sample(problem, basis, size, after=size)
    return Modes(found.weights, mode_scale(rows, terms, found.weights, np.max))


def _of_held_rows(
    problem: Problem, draft: Draft, own: Modes, save: Save, inference: FITC
) -> tuple[Mode, int]:
    """The mode of whitened rows in memory, and the passes that it took to hold them."""
    basis, packed = _basis(problem, draft), _held_as(problem, draft) == PACKED
    in_memory = problem.holds_all_rows and not packed
    if in_memory:
        rows = held_sample(problem, basis, len(problem.sample.rows), as_they_are=True)
    else:
        visitor = SiteSweep(HoldStep(basis, problem.weights, packed), merge_held)
        [rows] = sum_over_rows(problem, visitor, str(basis.dtype), "whitened rows")
    found = find_mode(
        rows,
        _terms(problem, draft),
        n_functions=problem.n_heads,
        start=own.start,
        scale=own.scale,
        most_steps=HELD_STEPS,
        tolerance=VALUE_TOLERANCE * inference.tolerance,
        workers=available_threads(),
    )
    return found, 0 if in_memory else 1


def _of_all_rows(problem: Problem, draft: Draft, own: Modes, save: Save, inference: FITC) -> tuple[Mode, int]:
    """The mode of rows in the store, one pass for each evaluation."""
    basis, shape, terms = _basis(problem, draft), own.start.shape, _terms(problem, draft)
    whitening = basis.whitening.astype(np.float64)

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        weights = own.start + own.scale @ vector.reshape(shape)
        sums = _sums(problem, basis, whitening, terms, weights)
        value = 0.5 * float(np.sum(weights**2)) - sums.log_density
        return value, (own.scale.T @ (weights - sums.gradient)).ravel()

    log = logged(objective, own.evaluations, lambda arrays: save(replace(own, evaluations=arrays)))
    most = inference.most_sweeps
    found, value = descend(
        log,
        np.zeros(own.start.size),
        None,
        most,
        most,
        problem.is_late,
        tolerance=VALUE_TOLERANCE * inference.tolerance,
    )
    weights = own.start + own.scale @ found.reshape(shape)
    return Mode(weights, -value, len(log), len(log) < most), len(log)


def _by_parts(problem: Problem, draft: Draft, own: Modes, save: Save, inference: FITC) -> tuple[Mode, int]:
    """Near the mode of all rows, by steps of the parts of a store that has many; judged by held-out rows."""
    basis, terms = _basis(problem, draft), _terms(problem, draft)
    whitening, parts = basis.whitening.astype(np.float64), parts_of(problem.prepared.rows, draft.n_active)
    judges = problem.held_out if len(problem.held_out.rows) else problem.sample
    judges = judges.take(np.argsort(judges.keys, kind="stable")[:JUDGES])

    at_once = _at_once(problem, steps_ahead(len(parts)))
    share = max(1, problem.plan.tasks_in_flight // at_once)
    each = replace(problem, plan=replace(problem.plan, tasks_in_flight=share))

    def slope(weights: FloatArray, spans: Sequence[Span]) -> FloatArray:
        sums = _sums(each, basis, whitening, terms, weights, spans)
        return weights - (problem.n_rows / sum(span.rows for span in spans)) * sums.gradient

    def loss(weights: FloatArray, most: int = JUDGES) -> float:
        met, density, count = (whitening @ weights).astype(basis.dtype), 0.0, min(most, len(judges.rows))
        for begin in range(0, count, TILE_ROWS):
            tile = slice(begin, min(begin + TILE_ROWS, count))
            block = basis.prepared.block(problem.inputs(judges.features[tile], basis.dtype))
            density += float(terms(judges.targets[tile], block @ met).log_density.sum())
        return -density / count

    judge = Judge(loss, partial(loss, most=LOOKED_AT))
    # Setting the limit takes milliseconds, as long as the rows of a step where there are few: once is enough.
    with single_threaded_blas():
        walk, passes, converged = walk_parts(
            own.walk or Walk.begin(own.start, judge.loss(own.start), judge.look(own.start)),
            parts,
            own.scale,
            slope,
            judge,
            lambda number: problem.generator(draft.step, number).permutation(len(parts)),
            at_once=at_once,
            most_passes=min(PART_PASSES, inference.most_sweeps),
            tolerance=PART_GAIN,
            is_late=problem.is_late,
            save=lambda walk: save(replace(own, walk=walk)),
        )
    return Mode(walk.best, np.nan, walk.parts, converged), passes


def _at_once(problem: Problem, ahead: int) -> int:
    """How many slopes are under way: on a cluster several, so that no worker waits for the trip of a step.

    Threads of this process share the rows of one slope instead, in less memory and without a trip.
    """
    if find_client(problem.settings.client) is None:
        return 1
    tasks = problem.plan.tasks_in_flight
    # Workers compute a task a thread, so where memory does not limit tasks, others may wait for them.
    return ahead + 1 if tasks == problem.plan.threads else min(ahead + 1, tasks)


def _sums(
    problem: Problem,
    basis: Basis,
    whitening: FloatArray,
    terms: PointTerms,
    weights: FloatArray,
    spans: Sequence[Span] | None = None,
) -> ModeSums:
    """Log density of all rows, or those of some spans, and its gradient by whitened weights (m, k)."""
    met = (whitening @ weights).astype(basis.dtype)
    visitor = SiteSweep(ModeStep(basis, met, terms, problem.weights), merge_modes)
    [sums] = sum_over_rows(problem, visitor, str(basis.dtype), "mode", spans)
    return ModeSums(sums.log_density, whitening.T @ sums.gradient)


def _held_as(problem: Problem, draft: Draft) -> str:
    """The type in which all rows, whitened, fit into the memory that a pass leaves free; none: ""."""
    wanted, precision = problem.n_rows - len(problem.excluded), _precision(problem)
    types = [precision, PACKED] if precision == "float32" else [precision]
    return next((one for one in types if rows_that_fit(problem, draft, one) >= wanted), "")


def _precision(problem: Problem) -> str:
    wish = problem.settings.precision
    return "float32" if wish == "auto" else str(wish)


def _basis(problem: Problem, draft: Draft) -> Basis:
    precision = _precision(problem)
    return make_basis(draft.kernel, inducing_of(draft), precision).astype(precision)


def _terms(problem: Problem, draft: Draft) -> PointTerms:
    [likelihood] = draft.likelihoods
    return PointTerms(likelihood, problem.prepared.targets)
