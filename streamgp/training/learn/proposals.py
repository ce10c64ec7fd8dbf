"""Kernels for held-out rows to judge: of one common lengthscale, what lies near, what is richer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from streamgp.arrays import FloatArray
from streamgp.kernels import RBF, Kernel, Laplacian, Linear, Matern12, Matern32, Matern52, Polynomial
from streamgp.training.problem import Problem
from streamgp.training.regress import by_regression, labels_as_numbers
from streamgp.training.starts import Starts

Stationary = RBF | Matern12 | Matern32 | Matern52 | Laplacian
LABEL_ROWS = 1000
LABEL_STEPS = 15
ROUGHEST = 2.0
FACTORS: dict[type[Stationary], float] = {RBF: 0.5, Matern52: 0.7, Matern32: 1.0, Matern12: ROUGHEST}
"""Lengthscales that families start from, as shares of the median distance: rough ones like longer ones."""
NEAR = (0.7, 1.4, 0.5, 2.0)
DEGREE, OFFSET = 5, 0.3
"""Of polynomials of pixels."""
SPREAD = 1.5
"""Ratio of the largest to the smallest scale of columns from which standardising them is in question."""

Richer = Callable[[Kernel], Iterator[Kernel]]


class Proposals(NamedTuple):
    """What to judge first; what to judge near the best of it; what has more parameters, step by step."""

    simple: Sequence[Kernel]
    near: Callable[[Kernel], Iterator[Kernel]]
    richer: Sequence[Richer]


def propose(problem: Problem, inputs: FloatArray, encoded: FloatArray, default: Starts) -> Proposals:
    """Kernels for these rows. Features of one scale (pixels, counts) have polynomials of their cosine too."""
    median = float(np.median(np.atleast_1d(_first(default.default(problem)).lengthscale)))
    simple: list[Kernel] = [kind(1.0, factor * median) for kind, factor in FACTORS.items()]
    if problem.n_features > 1:
        # A sum of p differences is √p times as large as their distance.
        simple.append(Laplacian(1.0, ROUGHEST * math.sqrt(problem.n_features) * median))
    if default.with_polynomials:
        # Where features are counts of ink, an angle is one between amounts, not between differences.
        standardizer, lowest = problem.prepared.standardizer, float(problem.prepared.summary.lowest.min())
        origin = (lowest - float(standardizer.shift[0])) / float(standardizer.scale[0])
        # Of pixels no family is as rough as the others.
        simple = [Polynomial(DEGREE, 1.0, OFFSET, normalize=True, origin=origin), *simple[:2]]
    richer: list[Richer] = [lambda best: _not_standardised(problem, best)]
    if default.per_feature:
        richer.append(lambda best: _per_feature(problem, inputs, encoded, best))
    richer.append(lambda best: _with_linear(best, problem.n_features))
    return Proposals(simple, _near, richer)


def _first(kernel: Kernel) -> Stationary:
    [found] = [atom for _, atom in kernel._atoms() if isinstance(atom, Stationary)]
    return found


def _near(best: Kernel) -> Iterator[Kernel]:
    """Other lengthscales. Of polynomials only rougher ones: all rows tell more details than a sample does."""
    if isinstance(best, Polynomial):
        yield replace(best, degree=best.degree + 2)
        yield replace(best, offset=best.offset / 3.0)
    elif isinstance(best, Stationary):
        for factor in NEAR:
            yield replace(best, lengthscale=factor * best.lengthscale)  # type: ignore[operator]


def _not_standardised(problem: Problem, best: Kernel) -> Iterator[Kernel]:
    """The same kernel of columns as they are stored: by lengthscales, as the rows stay standardised."""
    standardizer = problem.prepared.standardizer
    scale = standardizer.scale
    if isinstance(best, Stationary) and standardizer.bend is None and np.ptp(np.log(scale)) > np.log(SPREAD):
        relative = np.sqrt(np.mean(scale**2)) / scale
        for factor in (1.0, 0.6):
            yield replace(best, lengthscale=tuple((factor * best.lengthscale * relative).tolist()))  # type: ignore[operator]


def _per_feature(problem: Problem, inputs: FloatArray, encoded: FloatArray, best: Kernel) -> Iterator[Kernel]:
    """A lengthscale for each feature, by regression on labels; as found, and all longer or shorter."""
    if not isinstance(best, Stationary):
        return
    lengthscales = np.broadcast_to(np.asarray(best.lengthscale, np.float64), inputs.shape[1])
    start = replace(best, variance=0.1, lengthscale=tuple(lengthscales.tolist()))
    labels = labels_as_numbers(encoded[:LABEL_ROWS], problem.n_heads)
    found, _ = by_regression(start, inputs[:LABEL_ROWS], labels, LABEL_STEPS, problem.is_late)
    assert isinstance(found, Stationary)
    for factor in (1.0, 0.6, 1.6):
        yield replace(found, lengthscale=tuple(factor * np.asarray(found.lengthscale)))


def _with_linear(best: Kernel, n_features: int) -> Iterator[Kernel]:
    """Linear functions too, as large as those of the kernel or a tenth."""
    [variance] = [atom.variance for _, atom in best._atoms()]  # type: ignore[attr-defined]
    for share in (1.0, 0.1):
        yield best + Linear(share * variance / n_features)
