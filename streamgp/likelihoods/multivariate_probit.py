"""Several classes through normal noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamgp.likelihoods.base import ModeTerms
from streamgp.likelihoods.joint import JointLikelihood
from streamgp.numerics.noise import NORMAL


@dataclass(frozen=True)
class MultivariateProbit(JointLikelihood):
    """P(y|f) = P(f_y + bias_y + e_y is the largest of all f_c + bias_c + e_c), e independent N(0, 1).

    Of two classes: Φ((f_1 + bias_1 − f_0 − bias_0)/√2).
    Log-concave.  Source: [IVM2006] section 4.2, appendix D.

    Examples
    --------
    >>> import numpy as np
    >>> likelihood = MultivariateProbit(biases=(0.5, 0.0, 0.0))
    >>> np.exp(likelihood.log_probabilities([[0.0, 0.0, 2.0]], [[1.0, 1.0, 1.0]])).round(4).tolist()
    [[0.1917, 0.1136, 0.6947]]
    """

    noise = NORMAL

    def mode_terms(self, codes: npt.ArrayLike, latent: npt.ArrayLike) -> ModeTerms:
        """Log P(y|f), gradient and curvature: the tilted moments without variance, one integral over e_y."""
        points = np.asarray(latent, dtype=np.float64)
        return ModeTerms(*self.tilted_moments(codes, points, np.zeros(points.shape)))
