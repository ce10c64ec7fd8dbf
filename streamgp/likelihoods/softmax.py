"""Several classes through exponentials: the multinomial logit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from streamgp.arrays import FloatArray
from streamgp.likelihoods.joint import JointLikelihood, ModeTerms
from streamgp.numerics.noise import GUMBEL


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

    def log_probabilities(self, latent_mean: npt.ArrayLike, latent_variance: npt.ArrayLike) -> FloatArray:
        """Log P(y = c) of every row and class, (n, C); in closed form where no latent value is uncertain."""
        mean, variance = self._checked_marginals(latent_mean, latent_variance)
        if variance.any():
            return super().log_probabilities(mean, variance)
        return np.asarray(log_softmax(mean + self._bias_vector(mean.shape[1]), axis=1))

    def mode_terms(self, codes: npt.ArrayLike, latent: npt.ArrayLike) -> ModeTerms:
        """Log p_y, gradient 1[c = y] − p_c, curvature p_c (1 − p_c), p the probabilities at f.

        Hazard: 1 − p_c of the largest class is the sum of the others, which keeps its digits.
        """
        labels, points, _ = self._checked(codes, latent, latent)
        rows = np.arange(labels.size)
        shifted = points + self._bias_vector(points.shape[1])
        largest = np.argmax(shifted, axis=1)
        shifted -= shifted[rows, largest, None]
        shares = np.exp(shifted)
        shares[rows, largest] = 0.0
        others = shares.sum(axis=1)
        shares[rows, largest] = 1.0
        total = 1.0 + others[:, None]
        rest = total - shares
        rest[rows, largest] = others
        gradient = -shares / total
        gradient[rows, labels] = rest[rows, labels] / total[:, 0]
        return ModeTerms(shifted[rows, labels] - np.log1p(others), gradient, shares * rest / total**2)
