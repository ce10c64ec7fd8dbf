"""Rows of the sample that the kernel of local blocks is learned from: near ones and far ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from streamgp.arrays import FloatArray, IntArray
from streamgp.inference.local.criteria import Examples, blocks_evidence_bytes, half_and_half_bytes
from streamgp.kernels import Kernel
from streamgp.likelihoods import Gaussian, Likelihood
from streamgp.selection.centres import metric
from streamgp.selection.neighbourhoods import neighbourhoods
from streamgp.training.problem import Problem

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
    workers: int = 1
    """Sets that are worked on at once, where there are as many threads: memory decides."""

    @property
    def rows(self) -> int:
        """Rows of all sets."""
        return self.near * self.near_rows + self.far * self.far_rows

    def halved(self) -> Course:
        """The same with half as many rows in each set."""
        return replace(
            self, near_rows=self.near_rows // 2, far_rows=self.far_rows // 2, inducing=self.inducing // 2
        )


class Lesson(NamedTuple):
    """Rows of a course, targets as encoded: sets of near rows, sets of far ones, inducing inputs (m, p)."""

    near: tuple[Examples, ...]
    far: tuple[Examples, ...]
    inducing: FloatArray
    workers: int


def rows_by_share(problem: Problem) -> IntArray:
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


def make_lesson(problem: Problem, order: IntArray, course: Course, kernel: Kernel) -> Lesson:
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
        tuple(examples(problem, rows) for rows in near),
        tuple(examples(problem, rows) for rows in far),
        inducing,
        course.workers,
    )


def examples(problem: Problem, places: IntArray) -> Examples:
    """Rows of the sample in the order of the store, targets as encoded."""
    ordered, sample = np.sort(places), problem.sample
    return Examples(problem.inputs(sample.features[ordered]), sample.targets[ordered])


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


def affordable_course(
    course: Course, kernel: Kernel, likelihood: Likelihood, n_features: int, room: int
) -> Course:
    """The course with half as many rows until it fits into ``room`` bytes, and as many workers as fit then.

    Threads have no say in the rows: what is learned is the same on every machine.
    """
    shape = (kernel, likelihood, n_features)
    while min(course.near_rows, course.far_rows) > FEWEST_ROWS and course_bytes(course, *shape) > room:
        course = course.halved()
    while course.workers < course.near + course.far:
        more = replace(course, workers=course.workers + 1)
        if course_bytes(more, *shape) > room:
            break
        course = more
    return course


def course_bytes(course: Course, kernel: Kernel, likelihood: Likelihood, n_features: int) -> int:
    """Upper bound of the bytes that a course takes beside the sample, distances not included."""
    held = 8 * course.rows * (n_features + 8)
    if isinstance(likelihood, Gaussian):
        sizes = (course.near, course.near_rows, course.far_rows, course.inducing)
        return held + half_and_half_bytes(kernel, *sizes, n_features, course.workers)
    largest = max(course.near_rows, course.far_rows)
    return held + blocks_evidence_bytes(kernel, likelihood, largest, n_features, course.workers)
