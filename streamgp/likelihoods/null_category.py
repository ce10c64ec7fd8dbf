"""Two classes and rows without a label, which are forced not to lie between them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from streamgp.arrays import FloatArray
from streamgp.errors import ParameterError
from streamgp.likelihoods.base import Likelihood, TiltedMoments, TiltedSites, as_rows
from streamgp.likelihoods.closed_form import swept_moments, swept_sites
from streamgp.likelihoods.parameters import BIAS, Parameter, checked_number
from streamgp.likelihoods.probit import Probit
from streamgp.numerics.moments import PROBIT
from streamgp.numerics.normal import normal_terms_array


@dataclass(frozen=True)
class NullCategory(Likelihood):
    """The null category noise model: a class on either side of a zone in which no row without a label lies.

    p(y|f) = Φ(y (f + bias) − ½ width) for y in {−1, +1};  p(no label|f) ∝ p(+1|f) + p(−1|f), target 0
    What is left of 1, the null category, is never seen: the fewer rows lie where the latent function passes
    through zero, the better. Width is in units of the noise, and is not learned. New rows have one of the two
    classes: P(+1) = Φ(f + bias), and so have labelled rows where they judge or calibrate.
    ``missing`` is the target that means "no label" in the data, such as −1 or "unknown". By default it is NaN
    in numbers, the empty string in strings, None, NA and masked values in arrays of objects.
    ``bias`` None: from the classes' shares among the labelled rows where a fit starts.
    Source: [NCNM2005]; [IVM2006] section 5.

    Examples
    --------
    >>> NullCategory(width=2.0).tilted_moments([0.0], [0.5], [1.0]).log_z_slope.round(4).tolist()
    [0.206]
    """

    width: float = 2.0
    bias: float | None = None
    missing: Any = None
    is_classification = True
    takes_unlabelled = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", checked_number("NullCategory", "width", self.width, positive=True))
        if self.bias is not None:
            object.__setattr__(self, "bias", checked_number("NullCategory", "bias", self.bias))
        missing = self.missing.item() if isinstance(self.missing, np.generic) else self.missing
        if missing is not None and not isinstance(missing, str | int | float):
            raise ParameterError(
                f"missing of NullCategory is {missing!r}; it must be a number or a string, or None for NaN "
                f"and the empty string"
            )
        is_nan = isinstance(missing, float) and math.isnan(missing)
        object.__setattr__(self, "missing", None if is_nan else missing)

    @property
    def _shift(self) -> float:
        return 0.0 if self.bias is None else self.bias

    @property
    def of_labels(self) -> Probit:
        """The likelihood of rows that do have a label: the side of zero that they lie on."""
        return Probit(self._shift)

    @property
    def parameter_table(self) -> tuple[tuple[Parameter, float], ...]:
        """The bias."""
        return ((BIAS, self._shift),)

    def started(self, targets: FloatArray) -> NullCategory:
        """With the bias of the labelled rows' shares, unless one was given."""
        labels = targets[targets != 0.0]
        if self.bias is not None or not labels.size:
            return self
        # One row of each class more: a class that the sample does not show is not impossible.
        return replace(self, bias=float(ndtri((np.sum(labels > 0.0) + 1.0) / (labels.size + 2.0))))

    def _sides(self, mean: FloatArray, variance: FloatArray) -> _Sides:
        scale = np.sqrt(1.0 + np.maximum(variance, 0.0))
        terms = [
            normal_terms_array((sign * (mean + self._shift) - 0.5 * self.width) / scale)
            for sign in (1.0, -1.0)
        ]
        log_z = np.logaddexp(terms[0][0], terms[1][0])
        shares = [np.exp(term[0] - log_z) for term in terms]
        return _Sides(scale, log_z, terms, shares)

    def _by_sign(self, sweep: Any, columns: tuple[FloatArray, ...], found: FloatArray) -> None:
        """Fill in what the probit with a shifted bias gives for each class."""
        for sign in (-1.0, 1.0):
            here = np.flatnonzero(columns[0] == sign)
            if here.size:
                own = tuple(np.ascontiguousarray(column[here]) for column in columns)
                found[:, here] = sweep(PROBIT, self._shift - 0.5 * sign * self.width, own)

    def tilted_moments(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> TiltedMoments:
        """Closed form of log Z, slope, curvature; without a label the curvature can be negative.

        No label: Z = Φ(u₊) + Φ(u₋),  u± = (±(h + bias) − ½ width)/√(1+a),  r± = Φ(u±)/Z
        α = (r₊ λ₊ − r₋ λ₋)/√(1+a),  ν = (r₊ w₊ + r₋ w₋ − r₊ r₋ (λ₊ + λ₋)²)/(1+a)
        λ, w of :func:`~streamgp.numerics.normal.normal_terms`
        """
        columns = self._columns(targets, latent_mean, latent_variance, power)
        found = np.empty((3, columns[0].size))
        self._by_sign(swept_moments, columns, found)
        free = np.flatnonzero(columns[0] == 0.0)
        if free.size:
            sides = self._sides(columns[1][free], columns[2][free])
            found[:, free] = sides.log_z, sides.slope, sides.curvature
        return TiltedMoments(*found)

    def tilted_sites(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> TiltedSites:
        """Closed form of log Z and site; flat where a row without a label would only be less certain.

        1 − aν = (r₊ (1 + aκ₊) + r₋ (1 + aκ₋) + a r₊ r₋ (λ₊ + λ₋)²)/(1+a),  κ = 1 − w: no term is negative.
        """
        columns = self._columns(targets, latent_mean, latent_variance, power)
        found = np.empty((3, columns[0].size))
        self._by_sign(swept_sites, columns, found)
        free = np.flatnonzero(columns[0] == 0.0)
        if free.size:
            mean, variance = columns[1][free], np.maximum(columns[2][free], 0.0)
            sides = self._sides(mean, variance)
            shrinkage, is_sharp = sides.shrinkage(variance), sides.curvature > 0.0
            precision = np.where(is_sharp, sides.curvature / shrinkage, 0.0)
            precision_mean = np.where(is_sharp, (sides.slope + sides.curvature * mean) / shrinkage, 0.0)
            found[:, free] = sides.log_z, precision, precision_mean
        return TiltedSites(*found)

    def _columns(self, *columns_and_power: Any) -> tuple[FloatArray, ...]:
        *columns, power = columns_and_power
        if power != 1.0:
            raise ParameterError("NullCategory has no moments of a power other than 1")
        return as_rows(*columns)

    def parameter_gradient(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> FloatArray:
        """Gradient d log Z/d bias, which is the slope.  Shape: (1, c)."""
        return self.tilted_moments(targets, latent_mean, latent_variance, power=power).log_z_slope[None, :]

    def workspace_bytes(self, rows: int, *, power: float = 1.0) -> int:
        """Results, copies of the input, and the terms of both sides."""
        return 8 * 24 * rows

    def to_json(self) -> dict[str, Any]:
        """Plain values for :func:`streamgp.likelihoods.likelihood_from_json`."""
        return {"kind": "NullCategory", "width": self.width, "bias": self.bias, "missing": self.missing}


@dataclass(frozen=True, eq=False)
class _Sides:
    """Both sides of the zone for rows without a label; of each (log Φ, λ, w, κ) and its share r of Z."""

    scale: FloatArray
    log_z: FloatArray
    terms: list[tuple[FloatArray, FloatArray, FloatArray, FloatArray]]
    shares: list[FloatArray]

    @property
    def slope(self) -> FloatArray:
        (_, above, _, _), (_, below, _, _) = self.terms
        return np.asarray((self.shares[0] * above - self.shares[1] * below) / self.scale)

    @property
    def _apart(self) -> FloatArray:
        """How much the two sides disagree: r₊ r₋ (λ₊ + λ₋)²."""
        hazards = self.terms[0][1] + self.terms[1][1]
        # One share is zero where the other side's hazard is large: shares first, so that nothing overflows.
        return np.asarray((self.shares[0] * hazards) * (self.shares[1] * hazards))

    @property
    def curvature(self) -> FloatArray:
        own = self.shares[0] * self.terms[0][2] + self.shares[1] * self.terms[1][2]
        return np.asarray((own - self._apart) / self.scale**2)

    def shrinkage(self, variance: FloatArray) -> FloatArray:
        """One minus variance times curvature, without cancellation."""
        own = sum(
            share * (1.0 + variance * term[3]) for share, term in zip(self.shares, self.terms, strict=True)
        )
        return np.asarray((own + variance * self._apart) / self.scale**2)
