"""What a likelihood is: a frozen value that turns latent marginals into log Z and its derivatives."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from streamgp.arrays import FloatArray
from streamgp.errors import ParameterError

# Standard deviation 5 of the prior on the bias: N(0, 25) in [IVM2006] section 6.1.
BIAS_PRIOR_VARIANCE = 25.0


class TiltedMoments(NamedTuple):
    """Log Z and its derivatives in the latent mean h: log Z, d log Z/dh, −d² log Z/dh²; each (c,)."""

    log_z: FloatArray
    log_z_slope: FloatArray
    log_z_curvature: FloatArray


class TiltedSites(NamedTuple):
    """Log Z and the site that matches the tilted moments: precision π and b = π × site mean; each (c,)."""

    log_z: FloatArray
    site_precision: FloatArray
    site_precision_mean: FloatArray


class Parameter(NamedTuple):
    """A parameter that can be learned: as its logarithm if it is positive, else as it is."""

    name: str
    positive: bool
    lower: float
    upper: float
    prior_variance: float | None = None


BIAS = Parameter("bias", positive=False, lower=-30.0, upper=30.0, prior_variance=BIAS_PRIOR_VARIANCE)


def checked_number(owner: str, name: str, value: object, *, positive: bool = False) -> float:
    """The value as a finite float, above zero if it has to be; anything else raises and names it."""
    allowed = "a finite number above zero" if positive else "a finite number"
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or (positive and number <= 0.0):
        raise ParameterError(f"{name} of {owner} is {value!r}; it must be {allowed}.")
    return number


def as_rows(*columns: npt.ArrayLike) -> tuple[FloatArray, ...]:
    """The columns broadcast to one length, contiguous and in float64."""
    arrays = [np.atleast_1d(np.asarray(column, dtype=np.float64)) for column in columns]
    first = arrays[0].shape
    if len(first) == 1 and all(array.shape == first and array.flags.c_contiguous for array in arrays):
        return tuple(arrays)  # the usual case: greedy selection asks a thousand times a second
    try:
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        shape = ()
    if len(shape) != 1:
        found = ", ".join(str(array.shape) for array in arrays)
        raise ParameterError(
            f"Targets, latent means and variances have shapes {found}; all must be (c,) or scalars."
        )
    return tuple(np.ascontiguousarray(np.broadcast_to(array, shape)) for array in arrays)


class Likelihood(ABC):
    """p(y|f), the distribution of one target given its latent value.

    Guaranteed for finite input: finite moments with 0 ≤ curvature < 1/variance, also at variance 0, where
    they are log p and its derivatives at the mean, and at 1e12. A negative variance (rounding) counts as 0.
    Targets of two-class likelihoods are −1 and +1; that is checked once, where the data come in, not here.
    ``power`` raises p to a power, as power EP does.
    """

    is_classification = False
    family: int | None = None
    """Code by which compiled loops know this likelihood (``streamgp.numerics.moments``), or None."""

    @property
    @abstractmethod
    def parameter_table(self) -> tuple[tuple[Parameter, float], ...]:
        """The parameters that can be learned, and their values."""

    @abstractmethod
    def with_values(self, values: dict[str, float]) -> Self:
        """The same likelihood with other values of the parameters of :attr:`parameter_table`."""

    @abstractmethod
    def tilted_moments(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> TiltedMoments:
        """Log Z = log ∫ N(f; h, a) p(y|f) df, its slope d log Z/dh and curvature −d² log Z/dh².

        Shapes: (c,) each.  Source: [IVM2006] B.1.
        """

    @abstractmethod
    def tilted_sites(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> TiltedSites:
        """Log Z and the site after an EP update: π = ν/(1 − aν), b = (α + νh)/(1 − aν), without cancellation.

        h, a are cavity moments.  Shapes: (c,) each.  Source: [IVM2006] B.1.
        """

    @abstractmethod
    def parameter_gradient(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> FloatArray:
        """Gradient d log Z/dθ for each entry θ of :attr:`parameters`: E[∂ log p/∂θ] under the tilted density.

        Shapes: (n_parameters, c).  Source: [IVM2006] eq. 12, 13.
        """

    def predictive_mean(self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike) -> FloatArray:
        """Mean of a new target, (c,): of two classes P(+1) − P(−1); for real targets it is overridden."""
        positive, negative = self._log_probabilities(latent_mean, latent_variance)
        return np.asarray(np.exp(positive) - np.exp(negative))

    def predictive_variance(self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike) -> FloatArray:
        """Variance of a new target, noise included, (c,): of two classes 4 P(+1) P(−1)."""
        positive, negative = self._log_probabilities(latent_mean, latent_variance)
        return np.asarray(4.0 * np.exp(positive + negative))

    def _log_probabilities(
        self, mean: npt.ArrayLike, variance: npt.ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        """Log P(+1) and log P(−1) of each row."""
        positive, negative = (self.log_predictive_density(sign, mean, variance) for sign in (1.0, -1.0))
        return positive, negative

    @abstractmethod
    def workspace_bytes(self, rows: int, *, power: float = 1.0) -> int:
        """Upper bound of the bytes that tilted_moments of so many rows takes, its result included."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Plain values for :func:`streamgp.likelihoods.likelihood_from_json`."""

    def log_predictive_density(
        self, targets: npt.ArrayLike, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike
    ) -> FloatArray:
        """Log density, or log probability, of each target under its own marginal: log Z, (c,)."""
        return self.tilted_moments(targets, latent_mean, latent_variance).log_z

    def positive_probability(self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike) -> FloatArray:
        """P(y = +1) of each row, (c,); only for likelihoods of two classes."""
        if not self.is_classification:
            raise ParameterError(f"{self!r} is not a likelihood of two classes: it has no probability of +1.")
        return np.exp(np.minimum(self.log_predictive_density(1.0, latent_mean, latent_variance), 0.0))

    # Learned parameters -----------------------------------------------------------------------

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the entries of :attr:`parameters`; positive ones stand there as logarithms."""
        return tuple(f"log_{p.name}" if p.positive else p.name for p, _ in self.parameter_table)

    @property
    def parameters(self) -> FloatArray:
        """The learned parameters, unconstrained: logarithms of positive ones, others as they are."""
        return np.array([math.log(value) if p.positive else value for p, value in self.parameter_table])

    @property
    def bounds(self) -> FloatArray:
        """Lower and upper bound of each entry of :attr:`parameters` in learning, (n_parameters, 2)."""
        pairs = [(p.lower, p.upper) for p, _ in self.parameter_table]
        return np.array(pairs, dtype=np.float64).reshape(-1, 2)

    def with_parameters(self, vector: npt.ArrayLike) -> Self:
        """The same likelihood with another vector of :attr:`parameters`."""
        values = np.asarray(vector, dtype=np.float64)
        table = self.parameter_table
        if values.shape != (len(table),) or not np.all(np.isfinite(values)):
            raise ParameterError(
                f"{type(self).__name__} takes {len(table)} finite parameters {self.parameter_names}; "
                f"found {vector!r}."
            )
        pairs = zip(table, values, strict=True)
        return self.with_values({p.name: math.exp(v) if p.positive else float(v) for (p, _), v in pairs})

    def log_prior(self) -> tuple[float, FloatArray]:
        """Log hyperprior of :attr:`parameters` and its gradient: N(0, 25) on a bias, flat on all else.

        Source: [IVM2006] section 6.1.
        """
        total, gradient = 0.0, np.zeros(len(self.parameter_table))
        for i, (parameter, value) in enumerate(self.parameter_table):
            if parameter.prior_variance is not None:
                variance = parameter.prior_variance
                total -= 0.5 * (value**2 / variance + math.log(2.0 * math.pi * variance))
                gradient[i] = -value / variance
        return total, gradient
