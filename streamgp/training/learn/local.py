"""Learning the kernel of local blocks, from the sample: by near rows and by far ones, in equal parts.

Near rows come in neighbourhoods, small blocks like those of the model; far rows are drawn at random. A
criterion of near rows alone switches off what is constant within a block and follows likenesses that new rows
do not have; one of far rows alone calls noise what only near rows explain.
Real targets: half the left-one-out density of neighbourhoods, half the exact evidence of random rows.
Classes, and all likelihoods but the Gaussian: the EP evidence of neighbourhoods and of sets of random rows.
Short trials choose families, and what wins is learned on more rows; where there are classes, a regression on
labels gives the first lengthscales. Several classes come here with a given kernel only: without one, judges
choose it for all classes jointly. Measurements: docs/decisions.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from streamgp.arrays import IntArray
from streamgp.kernels import RBF, Kernel, Laplacian, Matern12, Matern32, Matern52
from streamgp.kernels.composite import Sum
from streamgp.likelihoods import Likelihood
from streamgp.training.learn.local_climb import (
    Learned,
    by_label_regression,
    is_gaussian,
    learn_from,
    score,
)
from streamgp.training.learn.local_rows import (
    Course,
    Lesson,
    affordable_course,
    examples,
    make_lesson,
    rows_by_share,
)
from streamgp.training.learn.proposals import Stationary
from streamgp.training.problem import Problem
from streamgp.training.sample import judged_heads
from streamgp.training.stage import Draft, Stage, once
from streamgp.training.starts import Starts

START_ROWS = 400
FAR_BEHIND = 0.3
"""Nats a row by which a family loses its trial for good: trials have been wrong by 0.18."""
JURIES = 2
"""Sets of neighbourhoods that judge what a whole course has led to, each as large as what it learned from."""


class Courses(NamedTuple):
    """A short one to choose a family by, and the one that the winner is learned by."""

    trial: Course
    whole: Course


FOR_REAL_TARGETS = Courses(Course(5, 200, 1, 400, 80, 20), Course(12, 250, 1, 1000, 150, 12))
FOR_TWO_CLASSES = Courses(Course(3, 200, 2, 300, 0, 6), Course(8, 300, 4, 600, 0, 20))
FOR_SEVERAL_CLASSES = Courses(Course(2, 200, 2, 200, 0, 6), Course(2, 300, 2, 300, 0, 12))


class Trial(NamedTuple):
    """What a short course has led to, and its score on rows not learned from: the larger the better."""

    learned: Learned
    score: float

    def told(self) -> list[Any]:
        """For the history."""
        kernel: Any = self.learned.kernel
        common = "" if isinstance(kernel.lengthscale, tuple) else ", one lengthscale"
        return [type(kernel).__name__ + common, self.score]


def learn_local(starts: Starts | None) -> Stage:
    """Kernel and likelihoods by near and far rows of the sample; a given kernel keeps its family."""
    return once("learn: local", partial(_learn, starts))


def _learn(starts: Starts | None, problem: Problem, draft: Draft) -> tuple[Draft, dict[str, Any]]:
    order, courses = rows_by_share(problem), _courses(problem, draft)
    heads = judged_heads(problem)
    tried: list[Trial] = []
    finals: list[Trial] = []
    learned = Learned(draft.kernel, tuple(draft.likelihoods[head] for head in heads))
    if starts is not None:
        tried = _tried(problem, order, learned.likelihoods, starts, courses.trial)
        learned = _best(tried).learned
    if not (tried and problem.is_late()):
        finals = [_taught(problem, order, courses.whole, one) for one in _finalists(tried) or [learned]]
        learned = _best(finals).learned
    by_head = dict(zip(heads, learned.likelihoods, strict=True))
    likelihoods = tuple(by_head.get(head, own) for head, own in enumerate(draft.likelihoods))
    told = {"kernel": repr(learned.kernel), "tried": [trial.told() for trial in tried]}
    if len(finals) > 1:
        told["taught"] = [trial.told() for trial in finals]
    return replace(draft, kernel=learned.kernel, likelihoods=likelihoods), told


# Families.


def _tried(
    problem: Problem, order: IntArray, likelihoods: tuple[Likelihood, ...], starts: Starts, course: Course
) -> list[Trial]:
    """Families after a short course, and the best one with a common lengthscale; fewer when time is up.

    Two families of middle smoothness come first: if the smoother one is better the smoothest is next, else
    the roughest; for real targets the other one too. Of columns that mean different things a Laplacian
    follows, whose functions are like those of decision trees. One half of the sample teaches, the other one
    judges: lengthscales for each feature fit what they are learned from, and their evidence cannot tell
    whether they should.
    """
    median = float(np.median(_rbf_of(starts.default(problem)).lengthscale))
    lessons: list[Lesson] = []
    tried: list[Trial] = []

    def trial(family: type[Stationary], per_feature: bool) -> None:
        if tried and problem.is_late():
            return
        # A sum of p differences is √p times as large as their distance.
        lengthscale = median * math.sqrt(problem.n_features) if family is Laplacian else median
        kernel = family(1.0, (lengthscale,) * problem.n_features if per_feature else lengthscale)
        learned = _started(problem, order[::2], likelihoods, kernel)
        if not lessons:
            halves = (order[::2], order[1::2])
            lessons.extend(make_lesson(problem, half, course, learned.kernel) for half in halves)
        learned = learn_from(problem, lessons[0], course.steps, learned)
        tried.append(Trial(learned, score(problem, lessons[1], learned)))

    trial(Matern52, starts.per_feature)
    trial(Matern32, starts.per_feature)
    smoother_is_better = isinstance(_best(tried).learned.kernel, Matern52)
    trial(RBF if smoother_is_better else Matern12, starts.per_feature)
    if is_gaussian(likelihoods):
        trial(Matern12 if smoother_is_better else RBF, starts.per_feature)
    if starts.per_feature and problem.n_features > 1:
        trial(Laplacian, True)
        best: Any = _best(tried).learned.kernel
        trial(type(best), False)
    return tried


def _finalists(tried: list[Trial]) -> list[Learned]:
    """What is learned on more rows: the best, and where targets are real the best of each family.

    Half of the sample in few neighbourhoods does not tell how rough a function is between near rows: only
    families that are far behind are left out.
    """
    ranked = sorted(tried, key=lambda trial: -trial.score)
    if not ranked or not is_gaussian(ranked[0].learned.likelihoods):
        return [trial.learned for trial in ranked[:1]]
    families: dict[type[Kernel], Learned] = {}
    for trial in ranked:
        if trial.score > ranked[0].score - FAR_BEHIND:
            families.setdefault(type(trial.learned.kernel), trial.learned)
    return list(families.values())


def _taught(problem: Problem, order: IntArray, course: Course, learned: Learned) -> Trial:
    """The whole course, judged by juries of other neighbourhoods in the metric that it has led to."""
    learned = learn_from(problem, make_lesson(problem, order, course, learned.kernel), course.steps, learned)
    if not is_gaussian(learned.likelihoods):
        return Trial(learned, 0.0)
    # The first rows of the order are the centres that teach: now others come first.
    orders = (np.roll(order, -course.near * number) for number in range(1, JURIES + 1))
    juries = (make_lesson(problem, one, course, learned.kernel) for one in orders)
    return Trial(learned, float(np.mean([score(problem, jury, learned) for jury in juries])))


def _best(tried: list[Trial]) -> Trial:
    return max(tried, key=lambda trial: trial.score)


def _rbf_of(kernel: Kernel) -> RBF:
    rbf = kernel.terms[0] if isinstance(kernel, Sum) else kernel
    assert isinstance(rbf, RBF)
    return rbf


def _started(
    problem: Problem, order: IntArray, likelihoods: tuple[Likelihood, ...], kernel: Kernel
) -> Learned:
    """Where a trial starts: for classes, at the lengthscales of a regression on labels.

    Not for real targets: the evidence of a few rows may call noise what is not, and no step leads back.
    """
    if problem.is_classification:
        kernel = by_label_regression(problem, examples(problem, order[:START_ROWS]), kernel)
    return Learned(kernel, likelihoods)


def _courses(problem: Problem, draft: Draft) -> Courses:
    """The courses, with fewer rows where memory is short."""
    if is_gaussian(draft.likelihoods):
        courses = FOR_REAL_TARGETS
    else:
        courses = FOR_TWO_CLASSES if problem.n_heads == 1 else FOR_SEVERAL_CLASSES
    # What candidates and tasks leave free, less the distances of the sample to the centres of neighbourhoods.
    room = 2 * problem.plan.candidate_share - 8 * len(problem.sample.rows) * (1 + courses.whole.near)
    shape = (draft.kernel, draft.likelihoods[0], problem.n_features)
    return Courses(*(affordable_course(course, *shape, room) for course in courses))
