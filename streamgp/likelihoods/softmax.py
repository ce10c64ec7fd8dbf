"""Several classes through exponentials: the multinomial logit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from streamgp.arrays import FloatArray
from streamgp.likelihoods.base import ModeTerms
from streamgp.likelihoods.joint import JointLikelihood
from streamgp.numerics.noise import GUMBEL
from streamgp.numerics.softmax import softmax_sweep


@dataclass(frozen=True)
class Softmax(JointLikelihood):
    """P(y|f) = exp(f_y + bias_y)/Σ_c exp(f_c + bias_c): the largest of f_c + bias_c + e_c, e Gumbel noise.

    That second form is what makes its moments integrals in one dimension: :mod:`streamgp.numerics.gumbel`.
    Log-concave.

    Examples
    --------
    >>> import numpy as np
    >>> likelihood = Softmax(biases=(0.5, 0.0, 0.0))
    >>> np.exp(likelihood.log_probabilities([[0.0, 0.0, 2.0]], [[1.0, 1.0, 1.0]])).round(4).tolist()
    [[0.2092, 0.1375, 0.6533]]
    """

    noise = GUMBEL

    def of_shares(self, shares: npt.ArrayLike) -> Self:
        """As for every joint likelihood; in closed form, log share_c without its mean."""
        if self.biases is not None:
            return self
        logs = np.log(np.asarray(shares, dtype=np.float64))
        return replace(self, biases=tuple((logs - logs.mean()).tolist()))

    def log_probabilities(self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike) -> FloatArray:
        """Log P(y = c) of every row and class, (n, C); in closed form where no latent value is uncertain."""
        mean, variance = self._checked_marginals(latent_mean, latent_variance)
        if variance.any():
            return super().log_probabilities(mean, variance)
        return np.asarray(log_softmax(mean + self._bias_vector(mean.shape[1]), axis=1))

    def mode_terms(self, codes: npt.ArrayLike, latent: npt.ArrayLike) -> ModeTerms:
        """Log p_y, gradient 1[c = y] − p_c, curvature p_c (1 − p_c), p the probabilities at f."""
        labels, points, _ = self._checked(codes, latent, latent)
        log_density, gradient, curvature = (
            np.empty(labels.size),
            np.empty(points.shape),
            np.empty(points.shape),
        )
        softmax_sweep(labels, self._bias_vector(points.shape[1]), points, log_density, gradient, curvature)
        return ModeTerms(log_density, gradient, curvature)
