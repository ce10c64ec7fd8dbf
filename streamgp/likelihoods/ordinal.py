"""Ordered categories."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from streamgp.arrays import FloatArray
from streamgp.errors import ParameterError
from streamgp.likelihoods.base import Domain, as_rows
from streamgp.likelihoods.integrand import Density
from streamgp.likelihoods.integrated import IntegratedLikelihood
from streamgp.likelihoods.parameters import BIAS_PRIOR_VARIANCE, Parameter, checked_number
from streamgp.likelihoods.quadrature import tilted_quadrature
from streamgp.numerics.moments import CURVATURE_MARGIN
from streamgp.numerics.normal import normal_terms_array

FIRST = Parameter("first", positive=False, lower=-30.0, upper=30.0, prior_variance=BIAS_PRIOR_VARIANCE)
_FAR = 1e10
"""Stands for the ends of the first and last category."""


@dataclass(frozen=True)
class Ordinal(IntegratedLikelihood):
    """Ordered categories 0 … K − 1: P(y ≤ j | f) = Φ(t_j − f), thresholds t_0 < … < t_{K−2}.

    Targets are the numbers of categories, as they are. The latent function needs no constant: thresholds
    can move together. None, the default, are thresholds by the categories' shares where a fit starts.
    Closed form; with a power other than 1 by adaptive quadrature.  Source: [IVM2006] section 5.

    Examples
    --------
    >>> Ordinal(3, thresholds=(-1.0, 1.0)).category_probabilities([0.0], [0.0]).round(4).tolist()
    [[0.1587, 0.6827, 0.1587]]
    """

    categories: int
    thresholds: tuple[float, ...] | None = None
    scales_targets = False

    def __post_init__(self) -> None:
        count = self.categories
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 2:
            raise ParameterError(f"categories of Ordinal is {count!r}; it must be an integer of at least 2.")
        object.__setattr__(self, "categories", int(count))
        if self.thresholds is not None:
            values = tuple(checked_number("Ordinal", "thresholds", value) for value in self.thresholds)
            if len(values) != count - 1 or any(low >= high for low, high in pairwise(values)):
                raise ParameterError(
                    f"thresholds of Ordinal are {self.thresholds!r}; {count} categories need {count - 1} of "
                    f"them, ascending."
                )
            object.__setattr__(self, "thresholds", values)

    @property
    def domain(self) -> Domain:
        """Whole numbers from 0 to K − 1."""
        return Domain(0.0, self.categories - 1.0, whole=True)

    @property
    def _cuts(self) -> FloatArray:
        """The thresholds; as if all categories were equally frequent, where none are known yet."""
        if self.thresholds is not None:
            return np.array(self.thresholds)
        return np.asarray(math.sqrt(2.0) * ndtri(np.arange(1, self.categories) / self.categories))

    @property
    def parameter_table(self) -> tuple[tuple[Parameter, float], ...]:
        """The first threshold, and the gaps between neighbours."""
        cuts = self._cuts
        gaps = tuple(
            (Parameter(f"gap[{j}]", positive=True, lower=math.log(1e-3), upper=math.log(100.0)), float(gap))
            for j, gap in enumerate(np.diff(cuts))
        )
        return (FIRST, float(cuts[0])), *gaps

    def with_values(self, values: dict[str, float]) -> Ordinal:
        """The same likelihood with other thresholds."""
        known = {parameter.name: value for parameter, value in self.parameter_table} | values
        return replace(self, thresholds=tuple(np.cumsum(list(known.values())).tolist()))

    def started(self, targets: FloatArray) -> Ordinal:
        """With thresholds by the shares of categories (each as if met once more), unless they were given."""
        if self.thresholds is not None:
            return self
        counts = 1.0 + np.bincount(targets.astype(np.intp), minlength=self.categories)
        below = np.cumsum(counts)[:-1] / counts.sum()
        # Latent values vary about as much as the noise does.
        return replace(self, thresholds=tuple((math.sqrt(2.0) * ndtri(below)).tolist()))

    def _ends(self, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end of each target's category."""
        edges = np.concatenate([[-_FAR], self._cuts, [_FAR]])
        codes = targets.astype(np.intp)
        return edges[codes], edges[codes + 1]

    def _moments(
        self, targets: FloatArray, mean: FloatArray, variance: FloatArray, power: float
    ) -> FloatArray:
        if power != 1.0:
            return np.stack(tilted_quadrature(self._density().raised(power), targets, mean, variance)[:4])
        variance = np.maximum(variance, 0.0)
        total = 1.0 + variance
        root = np.sqrt(total)
        low, high = self._ends(targets)
        log_z, below, above, bend = _interval((low - mean) / root, (high - mean) / root)
        # ν = w/(1 + a), 1 − aν = (1 + a (1 − w))/(1 + a)
        curvature = np.minimum(bend / total, (1.0 - CURVATURE_MARGIN) / np.maximum(variance, 1e-300))
        shrinkage = (1.0 + variance * (1.0 - bend)) / total
        return np.stack([log_z, (below - above) / root, curvature, shrinkage, below / root, above / root])

    def _density(self) -> Density:
        def terms(targets: FloatArray, latent: FloatArray) -> tuple[FloatArray, ...]:
            low, high = self._ends(targets)
            return _interval(low - latent, high - latent)

        return Density(
            "Ordinal",
            lambda targets, latent: terms(targets, latent)[0],
            lambda targets, latent: np.subtract(*terms(targets, latent)[1:3]),
            lambda targets, latent: -terms(targets, latent)[3],
        )

    def parameter_gradient(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> FloatArray:
        """Gradients by the first threshold and the log gaps; a gap moves all thresholds above it.

        d log Z/d t = N(z)/(Z √(1+a)) at the upper end of a category, minus that at its lower end.
        Shapes: (K − 1, c).
        """
        target, mean, variance = as_rows(targets, latent_mean, latent_variance)
        if power == 1.0:
            below, above = self._moments(target, mean, variance, power)[4:]
        else:
            below, above = self._ends_expected(target, mean, variance, power)
        codes, places = target.astype(np.intp), np.arange(self.categories - 1)[:, None]
        by_threshold = np.where(codes == places, above, 0.0) - np.where(codes == places + 1, below, 0.0)
        moved = np.cumsum(by_threshold[::-1], axis=0)[::-1]
        moved[1:] *= np.diff(self._cuts)[:, None]
        return moved

    def _ends_expected(
        self, targets: FloatArray, mean: FloatArray, variance: FloatArray, power: float
    ) -> tuple[FloatArray, FloatArray]:
        """What both ends of a target's category add to d log Z, under a power: tilted expectations."""

        def at(end: int, targets: FloatArray, latent: FloatArray) -> FloatArray:
            low, high = self._ends(targets)
            return _interval(low - latent, high - latent)[end]

        functions = (lambda y, f: at(1, y, f), lambda y, f: at(2, y, f))
        density = self._density().raised(power)
        below, above = tilted_quadrature(density, targets, mean, variance, functions).expectations
        return power * below, power * above

    def category_probabilities(
        self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike
    ) -> FloatArray:
        """P(y = j) of every category j.  Shapes: (c,), (c,) → (c, K)."""
        mean, variance = as_rows(latent_mean, latent_variance)
        columns = [
            np.exp(self.log_predictive_density(float(j), mean, variance)) for j in range(self.categories)
        ]
        return np.stack(columns, axis=1)

    def predictive_mean(self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike) -> FloatArray:
        """The expected number of the category, (c,)."""
        probabilities = self.category_probabilities(latent_mean, latent_variance)
        mean: FloatArray = probabilities @ np.arange(self.categories)
        return mean

    def predictive_variance(self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike) -> FloatArray:
        """The variance of that number, (c,)."""
        probabilities = self.category_probabilities(latent_mean, latent_variance)
        numbers = np.arange(self.categories)
        centred = numbers - (probabilities @ numbers)[:, None]
        variance: FloatArray = np.einsum("ij,ij->i", probabilities, centred**2)
        return variance

    def to_json(self) -> dict[str, Any]:
        """Plain values for :func:`streamgp.likelihoods.likelihood_from_json`."""
        thresholds = None if self.thresholds is None else list(self.thresholds)
        return {"kind": "Ordinal", "categories": self.categories, "thresholds": thresholds}


def _interval(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Log P, N(low)/P, N(high)/P, and w = −d² log P/dx² for P = Φ(high − x) − Φ(low − x) at x = 0.

    P = Φ(v) (1 − e^{log Φ(u) − log Φ(v)}), where u < v are the ends, or minus the ends if both are above 0
    w = (λ_v − λ_u)² + v λ_v − u λ_u,  λ_u = N(u)/P, λ_v = N(v)/P;  within 0 and 1
    Hazard: w cancels in an interval far out (its digits are those of v² less); it is clipped.
    Shapes: any, equal.
    """
    flipped = low + high > 0.0
    u, v = np.where(flipped, -high, low), np.where(flipped, -low, high)
    log_u, hazard_u = normal_terms_array(u)[:2]
    log_v, hazard_v, drop_v, _ = normal_terms_array(v)
    gap = np.minimum(log_u - log_v, -1e-300)
    share = -np.expm1(gap)
    by_v = hazard_v / share
    by_u = hazard_u * np.exp(gap) / share
    between = (by_v - by_u) * (by_v - by_u + v) + by_u * (v - u)
    bend = np.clip(np.where(gap < -700.0, drop_v, between), 0.0, 1.0)
    lower, upper = np.where(flipped, by_v, by_u), np.where(flipped, by_u, by_v)
    return log_v + np.log(share), lower, upper, bend
