"""The noise by which a latent value becomes a class: codes of its distribution for compiled loops."""

from __future__ import annotations

import math

from streamgp.numerics.compilation import compiled
from streamgp.numerics.exponential import exp_double
from streamgp.numerics.logarithm import fast_log

LOGISTIC, NORMAL, GUMBEL = 0, 1, 2
"""Two classes: LOGISTIC (logit), NORMAL (probit); several: GUMBEL (softmax), NORMAL (multivariate probit)."""


@compiled(inline=True)
def logistic_terms(x: float) -> tuple[float, float, float]:
    """Log σ(x), its derivative σ(−x), and minus its second derivative σ(x) σ(−x); as straight arithmetic.

    Hazard: log σ has an absolute error of 1e-16, σ(−x) is 0 above x = 708.
    """
    decay = exp_double(-math.fabs(x))
    share = 1.0 / (1.0 + decay)
    small = decay * share
    negative = x < 0.0
    log_share = -fast_log(1.0 + decay)
    lower = log_share + x
    return lower if negative else log_share, share if negative else small, small * share
