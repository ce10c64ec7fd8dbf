"""Two classes through the logistic function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from streamgp.arrays import FloatArray
from streamgp.likelihoods.base import ModeTerms, as_rows
from streamgp.likelihoods.integrand import Density
from streamgp.likelihoods.integrated import IntegratedLikelihood
from streamgp.likelihoods.parameters import BIAS, Parameter, checked_number
from streamgp.likelihoods.quadrature import workspace_bytes
from streamgp.likelihoods.sigmoid import sigmoid_rows
from streamgp.numerics.noise import LOGISTIC
from streamgp.numerics.sigmoid import logistic_points


@dataclass(frozen=True)
class Logit(IntegratedLikelihood):
    """p(y|f) = 1/(1 + exp(−y (f + bias))) for y in {−1, +1}.

    Moments by quadrature; see :func:`streamgp.numerics.sigmoid.sigmoid_sweep`.

    Examples
    --------
    >>> Logit(bias=0.5).positive_probability([0.0, 2.0], [1.0, 1.0]).round(4).tolist()
    [0.602, 0.8946]
    """

    bias: float = 0.0
    is_classification = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "bias", checked_number("Logit", "bias", self.bias))

    @property
    def parameter_table(self) -> tuple[tuple[Parameter, float], ...]:
        """The bias."""
        return ((BIAS, self.bias),)

    def _density(self, power: float) -> Density:
        def margin(targets: FloatArray, latent: FloatArray) -> FloatArray:
            return targets * (latent + self.bias)

        def log_density(targets: FloatArray, latent: FloatArray) -> FloatArray:
            m = margin(targets, latent)
            # log1p(exp(−|m|)) never overflows; logaddexp does the same four times slower.
            return np.asarray(np.minimum(m, 0.0) - np.log1p(np.exp(-np.abs(m))))

        def score_derivative(targets: FloatArray, latent: FloatArray) -> FloatArray:
            m = margin(targets, latent)
            return np.asarray(-expit(m) * expit(-m))

        def score(targets: FloatArray, latent: FloatArray) -> FloatArray:
            return np.asarray(targets * expit(-margin(targets, latent)))

        return Density("Logit", log_density, score, score_derivative).raised(power)

    def _moments(
        self, targets: FloatArray, mean: FloatArray, variance: FloatArray, power: float
    ) -> FloatArray:
        """By a compiled rule, above variance 1e4 by adaptive quadrature.  Shape: (4, c)."""
        return sigmoid_rows(LOGISTIC, self._density(power), self.bias, power, (targets, mean, variance))

    def mode_terms(self, targets: npt.ArrayLike, latent: FloatArray) -> ModeTerms:
        """Log σ, its gradient and curvature at a point: no rule, as there is no variance; latent f (n, 1)."""
        labels, points = as_rows(targets, latent[:, 0])
        terms = np.empty((3, labels.size))
        logistic_points(self.bias, labels, points, terms)
        return ModeTerms(terms[0], terms[1][:, None], terms[2][:, None])

    def parameter_gradient(
        self,
        targets: npt.ArrayLike,
        latent_mean: npt.ArrayLike,
        latent_variance: npt.ArrayLike,
        *,
        power: float = 1.0,
    ) -> FloatArray:
        """Gradient d log Z/d bias, which is the slope: bias and latent mean enter as a sum.  Shape: (1, c).

        Source: [IVM2006] eq. 13.
        """
        return self.tilted_moments(targets, latent_mean, latent_variance, power=power).log_z_slope[None, :]

    def workspace_bytes(self, rows: int, *, power: float = 1.0) -> int:
        """Result, float64 copies of the input, and the nodes of one block of rows."""
        return 8 * 6 * rows + workspace_bytes(rows)

    def to_json(self) -> dict[str, Any]:
        """Plain values for :func:`streamgp.likelihoods.likelihood_from_json`."""
        return {"kind": "Logit", "bias": self.bias}
