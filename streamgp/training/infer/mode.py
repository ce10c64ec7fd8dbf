"""Mean first: the mode of all rows, in few passes that cost no m² a row, or of whitened rows in memory.

A sample in memory gives a start and the shape of the problem; in coordinates in which that is round, L-BFGS
over all rows needs few evaluations. Where all rows, whitened, fit into the budget (if need be as 16 bits),
they are read once. Where there are very many, every part of the store moves the start already, in one pass
over all of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.data import Span
from streamgp.errors import NumericsWarning
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
from streamgp.passes.run import available_threads
from streamgp.passes.sites import SiteSweep
from streamgp.posterior import Head, Snapshot
from streamgp.posterior.calibration import Calibration
from streamgp.settings import FITC
from streamgp.training.codec import record
from streamgp.training.heads import inducing_of
from streamgp.training.held import held_sample, rows_that_fit
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
PART_ROWS = 65_536
FEWEST_PARTS = 8
"""Parts of a store with which it pays to let each of them move the start."""
SAMPLE_PARTS = 5
"""Parts that the sample counts as, at least: its curvature is too small for longer first steps."""
VALUE_TOLERANCE = 0.1
"""Share of ``tolerance`` by which a step must improve the log posterior for the search to go on."""


@record
@dataclass(frozen=True, eq=False)
class Modes:
    """The search under way: a start (m, k), coordinates (m, m), evaluations over all rows.

    The start is where the sample led, and then each of the parts of the store that have been visited.
    """

    start: FloatArray
    scale: FloatArray
    parts: int = 0
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
        search = _of_held_rows if _held_as(problem, draft) else _of_all_rows
        mode, passes = search(problem, draft, own, save, inference)
        if not mode.converged and not problem.is_late():
            warnings.warn(
                f"the mode was not found to tolerance={inference.tolerance:g} in {mode.evaluations} "
                f"evaluations: give a larger one, or FITC(most_sweeps=...) more than "
                f"{inference.most_sweeps}",
                NumericsWarning,
                stacklevel=2,
            )
        told = {
            "n_active": draft.sizes,
            "passes": passes,
            "evaluations": mode.evaluations,
            "converged": mode.converged,
            "log_posterior": mode.value,
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
    return Modes(found.weights, mode_scale(rows, terms, found.weights))


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
    basis, shape = _basis(problem, draft), own.start.shape
    terms, parts = _terms(problem, draft), _parts(problem)
    own = _moved_by_parts(problem, basis, terms, own, save, parts)

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        weights = own.start + own.scale @ vector.reshape(shape)
        sums = _sums(problem, basis, terms, weights)
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
    return Mode(weights, -value, len(log), len(log) < most), len(log) + bool(parts)


def _sums(
    problem: Problem,
    basis: Basis,
    terms: PointTerms,
    weights: FloatArray,
    spans: Sequence[Span] | None = None,
) -> ModeSums:
    """Log density of all rows, or those of some spans, and its gradient by whitened weights (m, k)."""
    whitening = basis.whitening.astype(np.float64)
    met = (whitening @ weights).astype(basis.dtype)
    visitor = SiteSweep(ModeStep(basis, met, terms, problem.weights), merge_modes)
    [sums] = sum_over_rows(problem, visitor, str(basis.dtype), "mode", spans)
    return ModeSums(sums.log_density, whitening.T @ sums.gradient)


def _parts(problem: Problem) -> list[list[Span]]:
    """The spans of the store in parts, each from all over it: rows may be sorted. None where rows are few."""
    spans, count = list(problem.prepared.rows.spans()), problem.n_rows // PART_ROWS
    count = min(count, len(spans))
    return [spans[part::count] for part in range(count)] if count >= FEWEST_PARTS else []


def _moved_by_parts(
    problem: Problem, basis: Basis, terms: PointTerms, own: Modes, save: Save, parts: list[list[Span]]
) -> Modes:
    """The start after a step by each part, as long as the part is large beside all rows seen so far.

    U ← U − (rows of the part / rows seen) R Rᵀ (U − n/(rows of the part) ∇ Σ log p),  R own.scale
    The steps of recursive least squares: each part counts as much as any other in the end, so that one pass
    ends as near to the mode of all rows as that is to the truth.
    """
    seen = sum(map(_rows_of, parts[: own.parts]))
    seen += max(min(SAMPLE_ROWS, len(problem.sample.rows)), SAMPLE_PARTS * PART_ROWS)
    for part in parts[own.parts :]:
        if problem.is_late():
            break
        rows = _rows_of(part)
        seen += rows
        sums = _sums(problem, basis, terms, own.start, part)
        slope = own.start - (problem.n_rows / rows) * sums.gradient
        moved = own.start - (rows / seen) * (own.scale @ (own.scale.T @ slope))
        own = replace(own, start=moved, parts=own.parts + 1)
        save(own)
    return own


def _rows_of(spans: Sequence[Span]) -> int:
    return sum(span.rows for span in spans)


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
