"""Joint classes, mean first: the mode of all rows, in few passes that cost no m² a row.

A sample in memory gives a start and the shape of the problem; in coordinates in which that is round, steps of
L-BFGS over all rows need few evaluations, each of them one pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.inference.inducing.basis import Basis, make_basis, whiten
from streamgp.inference.inducing.mode import ModeStep, find_mode, merge_modes, mode_scale
from streamgp.likelihoods import JointLikelihood
from streamgp.passes.sites import SiteSweep
from streamgp.posterior import Head, Snapshot
from streamgp.posterior.calibration import Calibration
from streamgp.training.codec import record
from streamgp.training.heads import inducing_of
from streamgp.training.optimise import Evaluations, descend, logged
from streamgp.training.problem import Problem
from streamgp.training.sample import sample_rows
from streamgp.training.stage import Draft, Save, Stage
from streamgp.training.sweeps import sum_over_rows

SAMPLE_ROWS = 20_000
SAMPLE_STEPS = 100
STEPS = 12
MEAN_SHARE = 0.5
"""Share of the memory left for candidates that whitened rows of the sample may take."""


@record
@dataclass(frozen=True, eq=False)
class Modes:
    """The search under way: where the sample led (m, C), coordinates (m, m), evaluations over all rows.

    ``saw_all``: the sample is all there is to learn from, and its mode is the mode.
    """

    start: FloatArray
    scale: FloatArray
    saw_all: bool
    evaluations: Evaluations = field(default_factory=dict)


@record
@dataclass(frozen=True, eq=False)
class JointMeans:
    """The posterior of joint classes as its mode: whitened weights U (m, C), and the type of the passes."""

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


def find_joint_mode() -> Stage:
    """First the mode of a sample, then (one step more) that of all rows."""
    return Stage("infer: mode", _of_sample, _of_all_rows)


def _of_sample(problem: Problem, draft: Draft) -> Modes:
    """Where the mode of a sample lies, and coordinates in which the problem of all rows is nearly round."""
    basis, likelihood = _basis(problem, draft), _likelihood(draft)
    room = MEAN_SHARE * problem.plan.candidate_share / (4 * basis.size)
    rows = sample_rows(problem, min(SAMPLE_ROWS, max(int(room), 500)), (0,))
    features = whiten(basis, rows.inputs.astype(basis.dtype)).features
    encoded = _encoded_sample(problem, len(rows.weights))
    share = (problem.n_rows - len(problem.excluded)) / rows.weights.sum()
    weight = share * rows.weights
    found = find_mode(
        features, encoded, weight, likelihood, n_classes=problem.n_heads, most_steps=SAMPLE_STEPS
    )
    latent = (features @ found.weights.astype(features.dtype)).astype(np.float64)
    saw_all = len(rows.weights) == problem.n_rows - len(problem.excluded)
    return Modes(found.weights, mode_scale(features, weight, latent, likelihood), saw_all)


def _of_all_rows(
    problem: Problem, draft: Draft, own: Modes, save: Save
) -> tuple[Draft, None, dict[str, Any]]:
    basis, shape = _basis(problem, draft), own.start.shape

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        weights = own.start + own.scale @ vector.reshape(shape)
        visitor = SiteSweep(
            ModeStep(
                basis,
                (basis.whitening.astype(np.float64) @ weights).astype(basis.dtype),
                _likelihood(draft),
                problem.weights,
            ),
            merge_modes,
        )
        [sums] = sum_over_rows(problem, visitor, str(basis.dtype), "mode")
        value = 0.5 * float(np.sum(weights**2)) - sums.log_density
        slope = weights - basis.whitening.T.astype(np.float64) @ sums.gradient
        return value, (own.scale.T @ slope).ravel()

    if own.saw_all:
        means = JointMeans(own.start, str(basis.dtype))
        return (
            replace(draft, sweeps=means),
            None,
            {"n_active": draft.sizes, "passes": 0, "rows": problem.n_rows},
        )
    log = logged(objective, own.evaluations, lambda arrays: save(replace(own, evaluations=arrays)))
    found, value = descend(log, np.zeros(own.start.size), None, STEPS, 2 * STEPS, problem.is_late)
    means = JointMeans(own.start + own.scale @ found.reshape(shape), str(basis.dtype))
    told = {"n_active": draft.sizes, "passes": len(log), "log_posterior": -value, "rows": problem.n_rows}
    return replace(draft, sweeps=means), None, told


def _basis(problem: Problem, draft: Draft) -> Basis:
    wish = problem.settings.precision
    precision = "float32" if wish == "auto" else wish
    return make_basis(draft.kernel, inducing_of(draft), precision).astype(precision)


def _likelihood(draft: Draft) -> JointLikelihood:
    [likelihood] = draft.likelihoods
    assert isinstance(likelihood, JointLikelihood)
    return likelihood


def _encoded_sample(problem: Problem, size: int) -> FloatArray:
    return problem.sample.targets[np.sort(problem.sample_order(size))]
