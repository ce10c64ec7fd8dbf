"""Uphill in the criteria of near and far rows, and the score of what that leads to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError

from streamgp.arrays import FloatArray
from streamgp.inference.inducing.slopes import Evidence
from streamgp.inference.label_regression import label_evidence
from streamgp.inference.local.criteria import (
    Examples,
    blocks_evidence,
    half_and_half,
    left_out_rows,
    left_out_sums,
)
from streamgp.inference.sites import Sites
from streamgp.kernels import Kernel
from streamgp.likelihoods import Gaussian, Likelihood
from streamgp.passes.run import Map
from streamgp.passes.side_by_side import side_by_side
from streamgp.posterior.calibration import calibrate_noise
from streamgp.training.learn.climb import Memory, Parameters, climb, refused
from streamgp.training.learn.local_rows import Lesson
from streamgp.training.optimise import Slopes, minus_log_posterior
from streamgp.training.problem import Problem
from streamgp.training.sample import judged_heads

START_STEPS = 10
START_NOISE = 0.1
LEAST_START_NOISE = 0.003
LEAST_NOISE_SHARE = 0.05
"""Of the mean square of left-out errors: noise of a sparse sample may run to zero, and with it variances."""
START_VARIANCE = 10.0
"""Of a latent function that has to tell classes apart."""
PRIOR_SPREAD = 3.0
TOLERANCE = 1e-3
"""Moment residual at which the evidence of classes is good enough to learn from."""


class Learned(NamedTuple):
    """A kernel and the likelihoods of the heads that take part."""

    kernel: Kernel
    likelihoods: tuple[Likelihood, ...]


def by_label_regression(problem: Problem, rows: Examples, kernel: Kernel) -> Kernel:
    """Lengthscales of largest evidence of a few rows, whose labels are regressed on, and a first variance.

    The variance is ``START_VARIANCE``, less where the regression finds more noise than signal: from there a
    kernel of labels that are noise would be learned as a rough one, which fits them as well as none does.
    """
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
    (found, [noise], _), _ = climb(problem, evaluate, start, START_STEPS, {}, _unsaved)
    assert isinstance(noise, Gaussian)
    signal = float(np.mean(found.diagonal(rows.inputs)))
    return replace(found, variance=START_VARIANCE * min(1.0, signal / noise.noise))  # type: ignore[type-var]


def learn_from(problem: Problem, lesson: Lesson, steps: int, learned: Learned) -> Learned:
    """Kernel and likelihoods after so many steps uphill, by the criterion that the likelihood asks for."""
    way = _by_regression if is_gaussian(learned.likelihoods) else _by_propagation
    with side_by_side(lesson.workers) as over:
        return way(problem, lesson, steps, learned, over)


def score(problem: Problem, lesson: Lesson, learned: Learned) -> float:
    """Real targets: the left-one-out density, calibrated; else the EP evidence. In nats a row of a lesson.

    Calibrated, because the model will be: a rough kernel of too little noise may have the better means.
    """
    if is_gaussian(learned.likelihoods):
        near, _ = _of_regression(problem, lesson)
        [noise] = learned.likelihoods
        assert isinstance(noise, Gaussian)
        with side_by_side(lesson.workers) as over:
            left_out = left_out_rows(learned.kernel, noise, lesson.inducing, near, over)
        targets = np.concatenate([one.targets for one in near])
        return calibrate_noise(targets, *left_out, noise.noise)[0].log_density
    with side_by_side(lesson.workers) as over:
        found = [
            blocks_evidence(learned.kernel, likelihood, sets, tolerance=TOLERANCE, over=over).evidence.value
            for likelihood, sets in zip(learned.likelihoods, _of_propagation(problem, lesson), strict=True)
        ]
    return sum(found) / (len(found) * sum(len(one.targets) for one in (*lesson.near, *lesson.far)))


def _by_regression(problem: Problem, lesson: Lesson, steps: int, learned: Learned, over: Map) -> Learned:
    """Uphill in the density left out of near rows and the evidence of far ones."""
    near, far = _of_regression(problem, lesson)
    rows = sum(len(one.targets) for one in (*near, far))

    def evaluate(parameters: Parameters, memory: Memory) -> tuple[float, FloatArray, Memory]:
        [likelihood] = parameters.likelihoods
        assert isinstance(likelihood, Gaussian)
        try:
            mean = half_and_half(parameters.kernel, likelihood, parameters.inducing, near, far, over)
        except LinAlgError:
            return refused(parameters, False)
        total = Evidence(
            rows * mean.value, rows * mean.kernel_gradient, rows * mean.likelihood_gradient, None
        )
        return *_penalised(parameters, [total]), {}

    [noise] = learned.likelihoods
    assert isinstance(noise, Gaussian)
    start = Parameters(learned.kernel, (Gaussian(max(noise.noise, LEAST_START_NOISE)),), lesson.inducing)
    (kernel, [likelihood], _), _ = climb(problem, evaluate, start, steps, {}, _unsaved)
    assert isinstance(likelihood, Gaussian)
    sums = left_out_sums(kernel, likelihood, lesson.inducing, near, over)
    least = LEAST_NOISE_SHARE * sums.squared_error / sums.rows
    return Learned(kernel, (Gaussian(max(likelihood.noise, least)),))


def _by_propagation(problem: Problem, lesson: Lesson, steps: int, learned: Learned, over: Map) -> Learned:
    """Uphill in the EP evidence of near sets and far ones, each evaluation from the sites of the best one.

    Likelihoods of classes stay as they are: their bias is that of the class's share.
    """
    sets = _of_propagation(problem, lesson)
    borders = np.cumsum([len(one.targets) for one in sets[0]])[:-1]

    def evaluate(parameters: Parameters, memory: Memory) -> tuple[float, FloatArray, Memory]:
        found, reached = [], []
        try:
            for place, likelihood in enumerate(parameters.likelihoods):
                start = None
                if "sites" in memory:
                    parts = np.split(memory["sites"][place], borders, axis=1)
                    start = tuple(Sites(*part) for part in parts)
                evidence, sites, _ = blocks_evidence(
                    parameters.kernel, likelihood, sets[place], start, tolerance=TOLERANCE, over=over
                )
                found.append(evidence)
                reached.append(np.concatenate([np.array(one) for one in sites], axis=1))
        except LinAlgError:
            return refused(parameters, False)
        value, gradient = _penalised(parameters, found)
        if problem.is_classification:
            # A learned bias stands in for a large variance, and is wrong where rows are unlike the sample.
            gradient[len(parameters.kernel.parameter_names) :] = 0.0
        return value, gradient, {"sites": np.array(reached)}

    start = Parameters(*learned, lesson.inducing)
    found, _ = climb(problem, evaluate, start, steps, {}, _unsaved)
    return Learned(found.kernel, found.likelihoods)


def _of_regression(problem: Problem, lesson: Lesson) -> tuple[tuple[Examples, ...], Examples]:
    """Near sets and the far one, with real targets; the far one stands for near ones where there are none."""
    near, [far] = (_of_head(problem, sets, 0) for sets in (lesson.near, lesson.far))
    return near or (far,), far


def _of_propagation(problem: Problem, lesson: Lesson) -> list[tuple[Examples, ...]]:
    """All sets, with the targets of each head that takes part."""
    return [_of_head(problem, lesson.near + lesson.far, head) for head in judged_heads(problem)]


def _penalised(parameters: Parameters, found: Sequence[Slopes]) -> tuple[float, FloatArray]:
    """Minus the log evidence and wide log hyperpriors, and its gradient.

    log θ ~ N(μ, 3²) for each parameter of the kernel: μ = log 10 for variances under classes, else 0.
    """
    kernel, likelihoods, _ = parameters
    logs = kernel.log_parameters
    centre = 0.0 if is_gaussian(likelihoods) else np.log(START_VARIANCE)
    is_variance = np.array([name.endswith("variance") for name in kernel.parameter_names])
    distance = (logs - np.where(is_variance, centre, 0.0)) / PRIOR_SPREAD
    prior = -0.5 * float(distance @ distance), -distance / PRIOR_SPREAD
    return minus_log_posterior(prior, likelihoods, found)


def _of_head(problem: Problem, sets: tuple[Examples, ...], head: int) -> tuple[Examples, ...]:
    """The same rows with what a head has to learn of them."""
    return tuple(Examples(one.inputs, problem.head_targets(one.targets, head)) for one in sets)


def is_gaussian(likelihoods: tuple[Likelihood, ...]) -> bool:
    """Whether there is one head, of Gaussian noise: what needs no sites."""
    return len(likelihoods) == 1 and isinstance(likelihoods[0], Gaussian)


def _unsaved(evaluations: dict[str, FloatArray]) -> None:
    """A course takes seconds: one that is interrupted is begun again."""
