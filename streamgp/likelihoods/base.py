"""What a likelihood is: a frozen value that turns latent marginals into log Z and its derivatives."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from streamgp.arrays import FloatArray
from streamgp.errors import ParameterError
from streamgp.likelihoods.parameters import Parametric


class Domain(NamedTuple):
    """Targets that a likelihood is for: from ``lowest`` to ``highest``, ``whole`` numbers only or all."""

    lowest: float = -math.inf
    highest: float = math.inf
    whole: bool = False


class TiltedMoments(NamedTuple):
    """Log Z and its derivatives in the latent mean h: log Z, d log Z/dh, −d² log Z/dh²; each (c,)."""

    log_z: FloatArray
    log_z_slope: FloatArray
    log_z_curvature: FloatArray


class ModeTerms(NamedTuple):
    """Log p(y|f) (n,), its gradient by k latent values f (n, k), the diagonal of minus its Hessian (n, k)."""

    log_density: FloatArray
    gradient: FloatArray
    curvature: FloatArray


class TiltedSites(NamedTuple):
    """Log Z and the site that matches the tilted moments: precision π and b = π × site mean; each (c,)."""

    log_z: FloatArray
    site_precision: FloatArray
    site_precision_mean: FloatArray


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


class Likelihood(Parametric):
    """p(y|f), the distribution of one target given its latent value.

    Guaranteed for finite input: finite moments with 0 ≤ curvature < 1/variance, also at variance 0, where
    they are log p and its derivatives at the mean, and at 1e12. A negative variance (rounding) counts as 0.
    Targets of two-class likelihoods are −1 and +1; that is checked once, where the data come in, not here.
    ``power`` raises p to a power, as power EP does.
    """

    is_classification = False
    scales_targets = True
    """Whether real targets may be shifted to mean 0 and scaled to variance 1; counts and categories may not.
    A likelihood that takes targets as they are has the constant of the latent function among its parameters.
    """
    expects_outliers = False
    """Whether targets far from all others are noise, not news."""
    takes_unlabelled = False
    """Whether a row may have no label, which is target 0; ``missing`` then is what says so in the data."""
    family: int | None = None
    """Code by which compiled loops know this likelihood (``streamgp.numerics.moments``), or None."""

    @property
    def domain(self) -> Domain:
        """Targets that it is for: all real numbers, unless said otherwise."""
        return Domain()

    @property
    def of_labels(self) -> Likelihood:
        """The likelihood of rows with a label, by which models are judged, calibrated, and predict."""
        return self

    def started(self, targets: FloatArray) -> Self:
        """The likelihood that learning starts from: what was left open is chosen by some targets, (c,)."""
        return self

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

    def mode_terms(self, targets: npt.ArrayLike, latent: FloatArray) -> ModeTerms:
        """Log p(y|f) at a point, its gradient and minus its second derivative: moments without variance.

        Shapes: targets (n,), latent f (n, 1).
        """
        log_density, slope, curvature = self.tilted_moments(targets, latent[:, 0], np.zeros(len(latent)))
        return ModeTerms(log_density, slope[:, None], curvature[:, None])

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

    def log_predictive_density(
        self, targets: npt.ArrayLike, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike
    ) -> FloatArray:
        """Log density, or log probability, of each target under its own marginal: log Z, (c,)."""
        return self.of_labels.tilted_moments(targets, latent_mean, latent_variance).log_z

    def mass_below(
        self, targets: npt.ArrayLike, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike
    ) -> FloatArray:
        """Share of each row's predictive distribution below a real target, (c,).

        That of the normal with the predictive mean and variance, where a likelihood knows no better.
        """
        target, mean, variance = as_rows(targets, latent_mean, latent_variance)
        deviations = np.sqrt(self.predictive_variance(mean, variance))
        return np.asarray(ndtr((target - self.predictive_mean(mean, variance)) / deviations))

    def positive_probability(self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike) -> FloatArray:
        """P(y = +1) of each row, (c,); only for likelihoods of two classes."""
        if not self.is_classification:
            raise ParameterError(f"{self!r} is not a likelihood of two classes: it has no probability of +1.")
        return np.exp(np.minimum(self.log_predictive_density(1.0, latent_mean, latent_variance), 0.0))
