"""What a joint likelihood of several classes is: one label, C latent functions, factorised marginals."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from streamgp.arrays import FloatArray, IntArray
from streamgp.errors import ParameterError
from streamgp.likelihoods.base import ModeTerms, TiltedMoments, TiltedSites
from streamgp.likelihoods.parameters import BIAS, Parameter, Parametric, checked_number
from streamgp.likelihoods.quadrature import sites_by_shrinkage
from streamgp.numerics.joint import joint_sweep
from streamgp.numerics.joint_factors import table_bytes
from streamgp.numerics.joint_probabilities import SHARED_NODES, joint_probabilities_sweep


def _checked_biases(owner: str, biases: Sequence[float] | None) -> tuple[float, ...] | None:
    if biases is None:
        return None
    checked = tuple(checked_number(owner, f"biases[{c}]", bias) for c, bias in enumerate(biases))
    if len(checked) < 2:
        raise ParameterError(
            f"{owner} has {len(checked)} biases; one for each of two or more classes is needed."
        )
    return checked


@dataclass(frozen=True)
class JointLikelihood(Parametric):
    """P(y|f_1 … f_C): the class whose f_c + bias_c + noise_c is largest; the noise is the family's.

    Everywhere ``codes`` (n,) are the classes of n rows, from 0 to C − 1, and ``latent_mean`` h and
    ``latent_variance`` a (n, C) the marginals N(f_c; h_c, a_c), independent between classes.
    Guaranteed for |h| up to 1e7 and a up to 1e10, beyond which they are clipped: finite results, with
    0 ≤ curvature < 1/a. A negative variance (rounding) counts as 0; there moments are log P(y|f) and its
    derivatives.

    Parameters
    ----------
    biases
        One number for each class; None for any number of classes, without biases; the multi-way IVM then
        sets them by the shares of the classes, see :meth:`of_shares`.
    """

    biases: tuple[float, ...] | None = None

    noise: ClassVar[int]
    """Code of the noise's distribution (``streamgp.numerics.noise``)."""
    is_classification: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "biases", _checked_biases(type(self).__name__, self.biases))

    def tilted_moments(
        self, codes: npt.ArrayLike, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike
    ) -> TiltedMoments:
        """Log Z = log ∫ Π_c N(f_c; h_c, a_c) P(y|f) df, slope d log Z/dh_c, curvature −d² log Z/dh_c².

        Shapes: (n,), (n, C), (n, C).
        Cost and accuracy: :func:`streamgp.numerics.joint.joint_sweep`.  Source: [IVM2006] eq. 6, appendix D.
        """
        log_z, (slope, curvature, _), _ = self._tilted(codes, latent_mean, latent_variance)
        return TiltedMoments(log_z, slope, curvature)

    def tilted_sites(
        self, codes: npt.ArrayLike, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike
    ) -> TiltedSites:
        """Log Z (n,) and the sites after an EP update: π = ν/(1 − aν), b = (α + νh)/(1 − aν), (n, C) each.

        h, a are cavity moments.  A precision that is not above zero is none: then both numbers are 0, as a
        flat site carries no mean.  Source: [IVM2006] eq. 7.
        """
        log_z, (slope, curvature, shrinkage), mean = self._tilted(codes, latent_mean, latent_variance)
        sites = sites_by_shrinkage(log_z, slope, curvature, shrinkage, mean)
        return sites._replace(
            site_precision_mean=np.where(sites.site_precision > 0.0, sites.site_precision_mean, 0.0)
        )

    def log_probabilities(self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike) -> FloatArray:
        """Log P(y = c) of every row and class, (n, C); each row's probabilities sum to 1.

        Cost and accuracy: :func:`streamgp.numerics.joint_probabilities.joint_probabilities_sweep`.
        """
        mean, variance = self._checked_marginals(latent_mean, latent_variance)
        result = np.empty(mean.shape)
        joint_probabilities_sweep(self.noise, self._bias_vector(mean.shape[1]), mean, variance, result)
        return result

    @abstractmethod
    def mode_terms(self, codes: npt.ArrayLike, latent: npt.ArrayLike) -> ModeTerms:
        """Log P(y|f) at a point, its gradient, and the diagonal of minus its Hessian; latent f (n, C)."""

    def parameter_gradient(
        self, codes: npt.ArrayLike, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike
    ) -> FloatArray:
        """Gradient d log Z/d bias_c, which is the slope: bias and latent mean enter as a sum.

        Shape: (C, n), or (0, n) without biases.  Source: [IVM2006] eq. 13.
        """
        if self.biases is None:
            return np.zeros((0, self._checked(codes, latent_mean, latent_variance)[0].size))
        return np.ascontiguousarray(self.tilted_moments(codes, latent_mean, latent_variance).log_z_slope.T)

    def of_shares(self, shares: npt.ArrayLike) -> Self:
        """With biases for which classes have these shares (C,) where all functions are 0, unless it has some.

        The minimum of −Σ_c share_c log P(c|0), which is convex in the biases; their sum, which has no effect,
        is 0.  Shares are above 0.  Source: [IVM2006] section 4.2, where biases are parameters of the model.
        """
        if self.biases is not None:
            return self
        wanted = np.asarray(shares, dtype=np.float64)
        classes, flat = np.arange(wanted.size), np.zeros((wanted.size, wanted.size))

        def loss(biases: FloatArray) -> tuple[float, FloatArray]:
            log_shares, slope, _ = self.tilted_moments(classes, flat + biases, flat)
            return -float(wanted @ log_shares), -(wanted @ slope)

        first = np.log(wanted) - np.log(wanted).mean()
        found = minimize(loss, first, jac=True, method="L-BFGS-B", options={"ftol": 0.0, "gtol": 1e-9}).x
        return replace(self, biases=tuple((found - found.mean()).tolist()))

    def workspace_bytes(self, rows: int, n_classes: int) -> int:
        """Upper bound of the bytes that any method takes for so many rows, its result included."""
        return 8 * rows * (12 * n_classes + 4) + 2 * table_bytes(n_classes, SHARED_NODES)

    # Parameters -------------------------------------------------------------------------------

    @property
    def parameter_table(self) -> tuple[tuple[Parameter, float], ...]:
        """The biases."""
        return tuple((BIAS._replace(name=f"bias[{c}]"), bias) for c, bias in enumerate(self.biases or ()))

    def with_values(self, values: dict[str, float]) -> Self:
        """The same likelihood with other biases, by their names ``bias[0]`` and so on."""
        if self.biases is None:
            return self
        return replace(self, biases=tuple(values[parameter.name] for parameter, _ in self.parameter_table))

    def to_json(self) -> dict[str, Any]:
        """Plain values for :func:`streamgp.likelihoods.likelihood_from_json`."""
        return {
            "kind": type(self).__name__,
            "biases": None if self.biases is None else list(self.biases),
        }

    # Input ------------------------------------------------------------------------------------

    def _tilted(
        self, codes: npt.ArrayLike, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Log Z (n,), then slope, curvature and 1 − aν (3, n, C), and the latent mean as an array."""
        labels, mean, variance = self._checked(codes, latent_mean, latent_variance)
        log_z, moments = np.empty(labels.size), np.empty((3, *mean.shape))
        joint_sweep(self.noise, labels, self._bias_vector(mean.shape[1]), mean, variance, log_z, moments)
        return log_z, moments, mean

    def _bias_vector(self, n_classes: int) -> FloatArray:
        if self.biases is None:
            return np.zeros(n_classes)
        if len(self.biases) != n_classes:
            raise ParameterError(
                f"{type(self).__name__} has {len(self.biases)} biases, but the rows have {n_classes} classes."
            )
        return np.array(self.biases)

    def _checked(
        self, codes: npt.ArrayLike, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        mean, variance = self._checked_marginals(latent_mean, latent_variance)
        labels = np.ascontiguousarray(codes, dtype=np.int64)
        if labels.shape != mean.shape[:1]:
            raise ParameterError(
                f"codes have shape {labels.shape}; {mean.shape[:1]} is needed, one for each row."
            )
        if labels.size and not 0 <= labels.min() <= labels.max() < mean.shape[1]:
            raise ParameterError(
                f"codes run from {labels.min()} to {labels.max()}; of {mean.shape[1]} classes they must be "
                f"0 to {mean.shape[1] - 1}."
            )
        return labels, mean, variance

    def _checked_marginals(
        self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        mean = np.ascontiguousarray(latent_mean, dtype=np.float64)
        variance = np.ascontiguousarray(latent_variance, dtype=np.float64)
        if mean.ndim != 2 or mean.shape[1] < 2 or variance.shape != mean.shape:
            raise ParameterError(
                f"Latent means and variances have shapes {mean.shape} and {variance.shape}; both must be "
                "(rows, classes), of two classes or more."
            )
        return mean, variance
