"""Learning the kernel of local blocks, from the sample: by near rows and by far ones, in equal parts.

Near rows come in neighbourhoods, small blocks like those of the model; far rows are drawn at random. A
criterion of near rows alone switches off what is constant within a block and follows likenesses that new rows
do not have; one of far rows alone calls noise what only near rows explain.
Real targets: half the left-one-out density of neighbourhoods, half the exact evidence of random rows.
Classes, and all likelihoods but the Gaussian: the EP evidence of neighbourhoods and of sets of random rows.
Short trials choose the family, and the winner is learned on more rows; where there are classes, a regression
on labels gives the first lengthscales. Measurements: docs/decisions.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError

from streamgp.arrays import FloatArray, IntArray
from streamgp.inference.inducing.slopes import Evidence
from streamgp.inference.label_regression import label_evidence
from streamgp.inference.local.criteria import (
    Examples,
    blocks_evidence,
    blocks_evidence_bytes,
    half_and_half,
    half_and_half_bytes,
    left_out_sums,
)
from streamgp.inference.sites import Sites
from streamgp.kernels import RBF, Kernel, Matern12, Matern32, Matern52
from streamgp.likelihoods import Gaussian, Likelihood
from streamgp.selection.centres import metric
from streamgp.selection.neighbourhoods import neighbourhoods
from streamgp.training.learn.climb import Memory, Parameters, climb, refused
from streamgp.training.optimise import Slopes, minus_log_posterior
from streamgp.training.problem import Problem
from streamgp.training.sample import judged_heads
from streamgp.training.stage import Draft, Stage, once
from streamgp.training.starts import Starts

FAMILIES = (RBF, Matern52, Matern32, Matern12)
START_ROWS = 500
START_STEPS = 12
START_NOISE = 0.1
LEAST_START_NOISE = 0.003
LEAST_NOISE_SHARE = 0.05
"""Of the mean square of left-out errors: noise of a sparse sample may run to zero, and with it variances."""
START_VARIANCE = 10.0
"""Of a latent function that has to tell classes apart."""
PRIOR_SPREAD = 3.0
TOLERANCE = 1e-3
"""Moment residual at which the evidence of classes is good enough to learn from."""
ROWS_PER_TILE = 2048
FEWEST_ROWS = 50


@dataclass(frozen=True)
class Course:
    """How much a criterion sees: sets of near rows, sets of far ones, inducing inputs; steps uphill."""

    near: int
    near_rows: int
    far: int
    far_rows: int
    inducing: int
    steps: int

    @property
    def rows(self) -> int:
        """Rows of all sets."""
        return self.near * self.near_rows + self.far * self.far_rows

    def halved(self) -> Course:
        """The same with half as many rows in each set."""
        return replace(
            self, near_rows=self.near_rows // 2, far_rows=self.far_rows // 2, inducing=self.inducing // 2
        )


class Courses(NamedTuple):
    """A short one to choose a family by, and the one that the winner is learned by."""

    trial: Course
    whole: Course


FOR_REAL_TARGETS = Courses(Course(5, 200, 1, 400, 80, 20), Course(12, 250, 1, 1000, 150, 12))
FOR_TWO_CLASSES = Courses(Course(3, 200, 2, 300, 0, 6), Course(4, 300, 3, 400, 0, 15))
FOR_SEVERAL_CLASSES = Courses(Course(2, 200, 2, 200, 0, 6), Course(2, 300, 2, 300, 0, 12))


class Lesson(NamedTuple):
    """Rows of a course, targets as encoded: sets of near rows, sets of far ones, inducing inputs (m, p)."""

    near: tuple[Examples, ...]
    far: tuple[Examples, ...]
    inducing: FloatArray


class Pupil(NamedTuple):
    """What was learned, and how good it is: the larger the score the better, on the same lesson."""

    kernel: Kernel
    likelihoods: tuple[Likelihood, ...]
    score: float


def learn_local(starts: Starts | None) -> Stage:
    """Kernel and likelihoods by near and far rows of the sample; a given kernel keeps its family."""
    return once("learn: local", partial(_learn, starts))


def _learn(starts: Starts | None, problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
    order = _by_share(problem)
    courses = _courses(problem, draft)
    tried: list[Pupil] = []
    first = Pupil(draft.kernel, _likelihoods(draft, problem), 0.0)
    if starts is not None:
        tried = _tried(problem, order, draft, starts, courses.trial)
        first = max(tried, key=lambda pupil: pupil.score)
    learned = first
    if not (tried and problem.is_late()):
        lesson = _lesson(problem, order, courses.whole, first.kernel)
        learned = _taught(problem, lesson, courses.whole, first)
    heads = dict(zip(judged_heads(problem), learned.likelihoods, strict=True))
    likelihoods = tuple(heads.get(head, own) for head, own in enumerate(draft.likelihoods))
    told = {
        "kernel": repr(learned.kernel),
        "score": learned.score,
        "tried": [[type(pupil.kernel).__name__, pupil.score] for pupil in tried],
        "left_out": len(FAMILIES) - len(tried) if starts is not None else 0,
    }
    return replace(draft, kernel=learned.kernel, likelihoods=likelihoods), told


# Families.


def _tried(problem: Problem, order: IntArray, draft: Draft, starts: Starts, course: Course) -> list[Pupil]:
    """Every family after a short course, on the same rows; fewer when time is up."""
    base = starts.default(problem)
    rbf = base if isinstance(base, RBF) else base.terms[0]  # type: ignore[attr-defined]
    assert isinstance(rbf, RBF)
    lesson: Lesson | None = None
    tried: list[Pupil] = []
    for family in FAMILIES:
        if tried and problem.is_late():
            break
        start = _started(problem, order, draft, family(1.0, rbf.lengthscale))
        lesson = _lesson(problem, order, course, start.kernel) if lesson is None else lesson
        tried.append(_taught(problem, lesson, course, start))
    return tried


def _started(problem: Problem, order: IntArray, draft: Draft, kernel: Kernel) -> Pupil:
    """Where a trial starts: for classes, at the lengthscales of a regression on labels.

    Not for real targets: the evidence of a few rows may call noise what is not, and no step leads back.
    """
    likelihoods = _likelihoods(draft, problem)
    if problem.is_classification:
        kernel = _by_labels(problem, _examples(problem, order[:START_ROWS]), kernel)
        kernel = replace(kernel, variance=START_VARIANCE)  # type: ignore[type-var]
    return Pupil(kernel, likelihoods, 0.0)


def _by_labels(problem: Problem, rows: Examples, kernel: Kernel) -> Kernel:
    """The kernel of largest evidence of a few rows, whose labels are regressed on."""
    labels = np.eye(len(problem.prepared.class_counts))[rows.targets.astype(np.intp)]
    labels -= labels.mean(axis=0)

    def evaluate(parameters: Parameters, memory: Memory) -> tuple[float, FloatArray, Memory]:
        [noise] = parameters.likelihoods
        assert isinstance(noise, Gaussian)
        try:
            found = label_evidence(parameters.kernel, noise, rows.inputs, labels)
        except LinAlgError:
            return refused(parameters, False)
        return *_penalised(parameters, [found]), {}

    start = Parameters(kernel, (Gaussian(START_NOISE),), rows.inputs[:0])
    return climb(problem, evaluate, start, START_STEPS, {}, _unsaved)[0].kernel


# Lessons.


def _by_share(problem: Problem) -> IntArray:
    """Places of the sample in random order, classes in the proportions of all rows; none of weight zero.

    The sample has more rows of rare classes than their share: as many as are too many are left out.
    """
    sample, order = problem.sample, problem.sample_order()
    weights = problem.sample_weights(sample.targets)
    keep = problem.weights.of_rows(sample.rows, sample.targets) > 0.0
    if problem.is_classification:
        codes = sample.targets[order].astype(np.intp)
        for code in np.unique(codes):
            members = order[codes == code]
            share = weights[members[0]] / weights.max()
            keep[members[max(1, round(share * len(members))) :]] = False
    return order[keep[order]]


def _lesson(problem: Problem, order: IntArray, course: Course, kernel: Kernel) -> Lesson:
    """Rows of a course: the first ones in random order are centres, the last ones are far rows.

    Where one set would hold all rows, near and far are the same, and there is nothing but that set.
    """
    last = order[::-1]
    far = [last[k * course.far_rows : (k + 1) * course.far_rows] for k in range(course.far)]
    far = [rows for rows in far if len(rows) == course.far_rows] or [order]
    near: list[IntArray] = []
    if len(order) > course.far_rows:
        squares = _squares(problem, order, order[: course.near], metric(kernel, problem.n_features))
        near = [order[places] for places in neighbourhoods(squares, course.near_rows)]
    inducing = problem.inputs(problem.sample.features[last[: course.inducing]])
    return Lesson(
        tuple(_examples(problem, rows) for rows in near),
        tuple(_examples(problem, rows) for rows in far),
        inducing,
    )


def _examples(problem: Problem, places: IntArray) -> Examples:
    sorted_places = np.sort(places)
    sample = problem.sample
    return Examples(problem.inputs(sample.features[sorted_places]), sample.targets[sorted_places])


def _squares(problem: Problem, places: IntArray, centres: IntArray, scale: FloatArray) -> FloatArray:
    """Squared distances of rows to centres in units of the metric: (n, k)."""
    stored = problem.sample.features
    middle = problem.inputs(stored[centres]) / scale
    squares = np.empty((len(places), len(centres)))
    for start in range(0, len(places), ROWS_PER_TILE):
        tile = problem.inputs(stored[places[start : start + ROWS_PER_TILE]]) / scale
        for column, centre in enumerate(middle):
            difference = tile - centre
            squares[start : start + len(tile), column] = np.einsum("ij,ij->i", difference, difference)
    return squares


# Teaching.


def _taught(problem: Problem, lesson: Lesson, course: Course, pupil: Pupil) -> Pupil:
    """The steps of a course."""
    if _is_gaussian(pupil.likelihoods):
        return _taught_real(problem, lesson, course, pupil)
    return _taught_classes(problem, lesson, course, pupil)


def _taught_real(problem: Problem, lesson: Lesson, course: Course, pupil: Pupil) -> Pupil:
    """Uphill in the density left out and the evidence of far rows; scored by the density."""
    [noise] = pupil.likelihoods
    assert isinstance(noise, Gaussian)
    near, [far] = (_of_head(problem, sets, 0) for sets in lesson[:2])
    near = near or (far,)
    rows = sum(len(one.targets) for one in (*near, far))

    def evaluate(parameters: Parameters, memory: Memory) -> tuple[float, FloatArray, Memory]:
        [likelihood] = parameters.likelihoods
        assert isinstance(likelihood, Gaussian)
        try:
            found = half_and_half(parameters.kernel, likelihood, parameters.inducing, near, far)
        except LinAlgError:
            return refused(parameters, False)
        total = Evidence(
            rows * found.value, rows * found.kernel_gradient, rows * found.likelihood_gradient, None
        )
        return *_penalised(parameters, [total]), {}

    start = Parameters(pupil.kernel, (Gaussian(max(noise.noise, LEAST_START_NOISE)),), lesson.inducing)
    found, _ = climb(problem, evaluate, start, course.steps, {}, _unsaved)
    [likelihood] = found.likelihoods
    assert isinstance(likelihood, Gaussian)
    sums = left_out_sums(found.kernel, likelihood, lesson.inducing, near)
    least = LEAST_NOISE_SHARE * sums.squared_error / sums.rows
    return Pupil(found.kernel, (Gaussian(max(likelihood.noise, least)),), sums.log_density / sums.rows)


def _taught_classes(problem: Problem, lesson: Lesson, course: Course, pupil: Pupil) -> Pupil:
    """Uphill in the EP evidence of near and far sets; scored by it, priors included."""
    heads = judged_heads(problem)
    sets = [_of_head(problem, lesson.near + lesson.far, head) for head in heads]
    borders = np.cumsum([len(one.targets) for one in sets[0]])[:-1]
    nothing = np.zeros((0, problem.n_features))

    def evaluate(parameters: Parameters, memory: Memory) -> tuple[float, FloatArray, Memory]:
        found, sites = [], []
        try:
            for place, likelihood in enumerate(parameters.likelihoods):
                start = None
                if "sites" in memory:
                    parts = np.split(memory["sites"][place], borders, axis=1)
                    start = tuple(Sites(*part) for part in parts)
                result = blocks_evidence(
                    parameters.kernel, likelihood, sets[place], start, tolerance=TOLERANCE
                )
                found.append(result.evidence)
                sites.append(np.concatenate([np.array(one) for one in result.sites], axis=1))
        except LinAlgError:
            return refused(parameters, False)
        return *_penalised(parameters, found), {"sites": np.array(sites)}

    start = Parameters(pupil.kernel, pupil.likelihoods, nothing)
    found, value = climb(problem, evaluate, start, course.steps, {}, _unsaved)
    rows = sum(len(one.targets) for one in sets[0])
    return Pupil(found.kernel, found.likelihoods, -value / (len(heads) * rows))


def _penalised(parameters: Parameters, found: Sequence[Slopes]) -> tuple[float, FloatArray]:
    """Minus the log evidence and wide log hyperpriors, and its gradient.

    log θ ~ N(μ, 3²) for each parameter of the kernel: μ = log 10 for variances under classes, else 0.
    """
    kernel, likelihoods, _ = parameters
    logs = kernel.log_parameters
    centre = 0.0 if _is_gaussian(likelihoods) else np.log(START_VARIANCE)
    is_variance = np.array([name.endswith("variance") for name in kernel.parameter_names])
    distance = (logs - np.where(is_variance, centre, 0.0)) / PRIOR_SPREAD
    prior = -0.5 * float(distance @ distance), -distance / PRIOR_SPREAD
    return minus_log_posterior(prior, likelihoods, found)


def _of_head(problem: Problem, sets: tuple[Examples, ...], head: int) -> tuple[Examples, ...]:
    """The same rows with what a head has to learn of them."""
    return tuple(Examples(one.inputs, problem.head_targets(one.targets, head)) for one in sets)


def _likelihoods(draft: Draft, problem: Problem) -> tuple[Likelihood, ...]:
    return tuple(draft.likelihoods[head] for head in judged_heads(problem))


def _is_gaussian(likelihoods: tuple[Likelihood, ...]) -> bool:
    return all(isinstance(likelihood, Gaussian) for likelihood in likelihoods)


def _unsaved(evaluations: dict[str, FloatArray]) -> None:
    """A course takes seconds: one that is interrupted is begun again."""


# Memory.


def _courses(problem: Problem, draft: Draft) -> Courses:
    """The courses, with fewer rows where memory is short."""
    if _is_gaussian(draft.likelihoods):
        courses = FOR_REAL_TARGETS
    else:
        courses = FOR_TWO_CLASSES if problem.n_heads == 1 else FOR_SEVERAL_CLASSES
    room = 2 * problem.plan.candidate_share - 8 * len(problem.sample.rows)
    return Courses(*(_affordable(problem, draft, course, room) for course in courses))


def _affordable(problem: Problem, draft: Draft, course: Course, room: int) -> Course:
    while min(course.near_rows, course.far_rows) > FEWEST_ROWS:
        if course_bytes(draft.kernel, draft.likelihoods[0], course, problem.n_features) <= room:
            break
        course = course.halved()
    return course


def course_bytes(kernel: Kernel, likelihood: Likelihood, course: Course, n_features: int) -> int:
    """Upper bound of the bytes that a course takes beside the sample, distances not included."""
    held = 8 * course.rows * (n_features + 8)
    if isinstance(likelihood, Gaussian):
        sizes = (course.near, course.near_rows, course.far_rows, course.inducing)
        return held + half_and_half_bytes(kernel, *sizes, n_features)
    largest = max(course.near_rows, course.far_rows)
    return held + blocks_evidence_bytes(kernel, likelihood, largest, n_features)
