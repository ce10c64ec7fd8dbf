"""Learning again from rows as near as those of the model's blocks, where the sample's are farther apart.

A sample of a large store shows what varies slowly: its neighbourhoods are the wider the larger the store is.
So neighbourhoods are drawn anew from all rows: half of them as wide in every feature and half in the metric
of the kernel so far, then all of them in the metric of what that has led to. Each kernel on the way is judged
by other neighbourhoods, in its own metric, as its blocks would be: by the left-out density of their rows. The
best one is kept. What looks rough from afar may be smooth between near rows: so smoother families follow,
each from the parameters of the best one so far, while they gain. Measurements: docs/decisions.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from streamgp.arrays import FloatArray, IntArray
from streamgp.inference.ep import expectation_propagation
from streamgp.inference.local.criteria import Examples, left_out_sums
from streamgp.kernels import RBF, Matern12, Matern32, Matern52
from streamgp.likelihoods import Gaussian
from streamgp.passes.neighbours import FindNearRows
from streamgp.passes.side_by_side import side_by_side
from streamgp.selection.centres import metric
from streamgp.training.learn.local_climb import TOLERANCE, Learned, is_gaussian, learn_from
from streamgp.training.learn.local_rows import Course, Lesson, affordable_course, examples, rows_by_share
from streamgp.training.problem import Problem
from streamgp.training.sample import judged_heads
from streamgp.training.stage import Draft, Stage, once

LEAST_ROWS = 100_000
"""Of a store whose fit takes so long that learning again is a small part of it."""
ROUNDS = (12, 12, 24)
"""Neighbourhoods to learn from in each round."""
JUDGES = 24
FOR_REAL_TARGETS = Course(12, 250, 1, 1000, 150, 12)
FOR_CLASSES = Course(12, 300, 2, 400, 0, 12)
FAMILIES = (Matern12, Matern32, Matern52, RBF)
"""From rough to smooth."""


class Judged(NamedTuple):
    """A kernel with its likelihoods, and the mean left-out log density of rows near those that judge."""

    learned: Learned
    score: float


def learn_near(*, chooses_family: bool) -> Stage:
    """Kernel and likelihoods by neighbourhoods of all rows; nothing where the sample has them already."""
    return once("learn: near rows", partial(_learn, chooses_family))


def _learn(chooses_family: bool, problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
    if problem.n_rows < LEAST_ROWS or problem.is_late():
        return draft, {}
    order, course, heads = rows_by_share(problem), _course(problem, draft), judged_heads(problem)
    # Some centres teach, others judge; far rows and inducing inputs are the last ones of the order.
    *teachers, judges = np.split(order[: sum(ROUNDS) + JUDGES], np.cumsum(ROUNDS))
    if len(judges) == 0:
        return draft, {}
    learned = Learned(draft.kernel, tuple(draft.likelihoods[head] for head in heads))
    lesson = _far(problem, order[::-1], course)
    tried = [_judged(problem, learned, _judges_of(problem, learned, judges, course), lesson)]
    common = np.ones(problem.n_features)
    for number, centres in enumerate(teachers):
        if problem.is_late():
            break
        own = metric(learned.kernel, problem.n_features)
        scales = [common if number == 0 and place % 2 == 0 else own for place in range(len(centres))]
        lesson = lesson._replace(near=_near(problem, centres, np.array(scales), course.near_rows))
        learned = learn_from(problem, lesson, course.steps, learned)
        tried.append(_judged(problem, learned, _judges_of(problem, learned, judges, course), lesson))
    if chooses_family and not problem.is_late():
        lesson = lesson._replace(near=lesson.near[: course.near])
        best = max(tried, key=lambda one: one.score)
        rows = _judges_of(problem, best.learned, judges, course)
        tried += _smoother(problem, best.learned, rows, lesson, course.steps)
    best = max(tried, key=lambda one: one.score)
    by_head = dict(zip(heads, best.learned.likelihoods, strict=True))
    likelihoods = tuple(by_head.get(head, own) for head, own in enumerate(draft.likelihoods))
    told = {
        "kernel": repr(best.learned.kernel),
        "tried": [[repr(one.learned.kernel), one.score] for one in tried],
    }
    return replace(draft, kernel=best.learned.kernel, likelihoods=likelihoods), told


def _far(problem: Problem, last: IntArray, course: Course) -> Lesson:
    """Sets of far rows and inducing inputs, no near rows yet."""
    places = [last[k * course.far_rows : (k + 1) * course.far_rows] for k in range(course.far)]
    inducing = problem.inputs(problem.sample.features[last[: course.inducing]])
    return Lesson((), tuple(examples(problem, rows) for rows in places), inducing, course.workers)


def _near(problem: Problem, centres: IntArray, scales: FloatArray, count: int) -> tuple[Examples, ...]:
    """The rows of the store nearest to rows of the sample, targets as encoded."""
    points = problem.inputs(problem.sample.features[centres])
    visitor = FindNearRows(points, scales, count, problem.excluded)
    found = problem.run_pass(visitor, np.float64, "near rows")
    return tuple(Examples(problem.inputs(one.features), one.targets) for one in found)


def _smoother(
    problem: Problem, learned: Learned, rows: tuple[Examples, ...], lesson: Lesson, steps: int
) -> list[Judged]:
    """Smoother families, one after the other while each gains, judged by the same rows."""
    best, found = _judged(problem, learned, rows, lesson), list[Judged]()
    while type(best.learned.kernel) in FAMILIES[:-1] and not problem.is_late():
        kernel: Any = best.learned.kernel
        family = FAMILIES[FAMILIES.index(type(kernel)) + 1]
        start = best.learned._replace(kernel=family(kernel.variance, kernel.lengthscale))
        following = _judged(problem, learn_from(problem, lesson, steps, start), rows, lesson)
        found.append(following)
        if following.score <= best.score:
            break
        best = following
    return found


def _judges_of(problem: Problem, learned: Learned, judges: IntArray, course: Course) -> tuple[Examples, ...]:
    """The rows near some centres, in the metric of the kernel itself."""
    own = metric(learned.kernel, problem.n_features)
    return _near(problem, judges, np.tile(own, (len(judges), 1)), course.near_rows)


def _judged(problem: Problem, learned: Learned, near: tuple[Examples, ...], lesson: Lesson) -> Judged:
    """A kernel with the mean left-out log density of rows in neighbourhoods."""
    with side_by_side(lesson.workers) as over:
        if is_gaussian(learned.likelihoods):
            [noise] = learned.likelihoods
            assert isinstance(noise, Gaussian)
            sums = left_out_sums(learned.kernel, noise, lesson.inducing, near, over)
            return Judged(learned, float(sums.log_density / sums.rows))
        densities = list(over(partial(_left_out_densities, problem, learned), near))
    return Judged(learned, float(np.mean(densities)))


def _left_out_densities(problem: Problem, learned: Learned, near: Examples) -> list[float]:
    """The mean left-out log density of a neighbourhood, for each head that takes part."""
    gram = np.asarray(learned.kernel.gram(near.inputs), np.float64)
    densities = []
    for head, likelihood in zip(judged_heads(problem), learned.likelihoods, strict=True):
        targets = problem.head_targets(near.targets, head)
        found = expectation_propagation(gram, targets, likelihood, tolerance=TOLERANCE)
        densities.append(float(found.left_out_log_density.mean()))
    return densities


def _course(problem: Problem, draft: Draft) -> Course:
    """The course, with fewer rows where memory is short."""
    course = FOR_REAL_TARGETS if is_gaussian(draft.likelihoods) else FOR_CLASSES
    shape = (draft.kernel, draft.likelihoods[0], problem.n_features)
    return affordable_course(course, *shape, problem.plan.candidate_share)
