"""Kernels to start from, where none is given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import pdist

from streamgp.kernels import RBF, Kernel, Linear, Matern32, Polynomial, White
from streamgp.kernels.composite import Sum
from streamgp.training.problem import Problem

LENGTHSCALES = (0.5, 1.0, 2.0)
"""Of the median distance."""
WHITE_SHARE = 0.01
"""White noise that learning starts from, as a share of the variance, where a kernel is to have some."""


@dataclass(frozen=True)
class Starts:
    """Which kernels to start from: an RBF of the median distance among (at most 1000) rows, and variations.

    ``per_feature``: one lengthscale for each feature. ``with_linear``: a little of a linear kernel is added.
    ``variances`` are those that learning tries, ``variance`` is the default's. ``with_polynomials``: learning
    also tries polynomials of the cosine between two images, which are products of a few pixels at a time.
    ``with_white``: white noise is added, and nothing else. ``from_variances``: in the place of the median
    distance the root of the features' summed variance, 1/w of [IVM2006] section 6.1 in units of ours.
    """

    variance: float
    variances: tuple[float, ...]
    per_feature: bool
    with_linear: bool
    with_polynomials: bool
    with_white: bool = False
    from_variances: bool = False

    def default(self, problem: Problem) -> Kernel:
        """The kernel of a fit that does not learn, or before it has learned."""
        length = _root_variance(problem) if self.from_variances else _median_distance(problem)
        return self._start(problem, length, self.variance)

    def kernels(self, problem: Problem) -> list[Kernel]:
        """What learning chooses its start from: lengthscales and variances around the default kernel's."""
        median = _median_distance(problem)
        starts = [
            self._start(problem, factor * median, variance)
            for factor in LENGTHSCALES
            for variance in self.variances
        ]
        if self.with_polynomials:
            starts += [Polynomial(5, variance, offset=0.5, normalize=True) for variance in self.variances]
        return starts

    def _start(self, problem: Problem, lengthscale: float, variance: float) -> Kernel:
        p = problem.n_features
        rbf = RBF(variance, (lengthscale,) * p if self.per_feature else lengthscale)
        if self.with_white:
            return rbf + White(WHITE_SHARE * variance)
        return rbf + Linear(0.1 * variance / p) if self.with_linear else rbf


def rough_twin(kernel: Kernel) -> Kernel | None:
    """The kernel with every RBF replaced by a Matern, None where there is none.

    Evidence tells smooth functions from rough ones: protein is rough, kin40k smooth.
    """
    terms = kernel.terms if isinstance(kernel, Sum) else (kernel,)
    if not any(isinstance(term, RBF) for term in terms):
        return None
    rough = tuple(
        Matern32(term.variance, term.lengthscale) if isinstance(term, RBF) else term for term in terms
    )
    return Sum(rough) if len(rough) > 1 else rough[0]


def _root_variance(problem: Problem) -> float:
    """The root of all features' variances together, as the model sees them."""
    prepared = problem.prepared
    return float(np.sqrt(np.sum(prepared.summary.features.variance / prepared.standardizer.scale**2)))


def _median_distance(problem: Problem) -> float:
    stored = problem.sample.features
    sample = problem.inputs(stored[:: max(1, len(stored) // 1000)][:1000])
    median = float(np.median(pdist(sample))) if len(sample) > 1 else 0.0
    return median if np.isfinite(median) and median > 0 else float(np.sqrt(sample.shape[1]))
