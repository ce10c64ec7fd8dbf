"""Kernel parameters: what is allowed, and how likely each is before any data are seen."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from streamgp.errors import ParameterError

LOWER, UPPER = 1e-6, 1e6
"""Bounds of every learned parameter during optimisation; a kernel may be constructed outside of them."""


def positive(name: str, value: Any) -> float:
    """The value as a float; an error names it unless it is finite and above zero."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (0.0 < number < math.inf):
        raise ParameterError(f"{name} is {value!r}; it must be a finite number above zero")
    return number


def positive_or_many(name: str, value: Any) -> float | tuple[float, ...]:
    """One positive number, or one for each feature."""
    if isinstance(value, str) or not isinstance(value, Iterable) or getattr(value, "ndim", 1) == 0:
        return positive(name, value)
    values = tuple(positive(f"{name}[{q}]", element) for q, element in enumerate(value))
    if not values:
        raise ParameterError(f"{name} is empty; give one number, or one for each feature")
    return values


def log_normal_prior(log_value: float, mean: float = -1.0) -> tuple[float, float]:
    """Log density, over the logarithm of a parameter, of a normal with the given mean and variance 1.

    log p(t) = −½ (t − mean)² − ½ log 2π,  t = log_value;  returned with its derivative by t.
    Source: [IVM2006] section 6.1, where log v ~ N(−1, 1).
    """
    distance = log_value - mean
    return -0.5 * distance * distance - 0.5 * math.log(2.0 * math.pi), -distance


def common_lengthscale_prior(log_lengthscale: float, n_features: int) -> tuple[float, float]:
    """Log density, over the logarithm of a common lengthscale, of the Gamma prior on its inverse weight.

    u = 1/w = l²/n_features ~ Gamma with mean 1 and 1 degree of freedom (shape ½, rate ½); over log l
    log p = ½ log u − ½ u − ½ log 2π + log 2;  returned with its derivative by log l, which is 1 − u.
    Hazard: the density is over log l, so its mode is u = 1; over u itself it would grow without bound at 0.
    Source: [IVM2006] section 6.1, eq. 9.
    """
    value, slope = _log_gamma(2.0 * log_lengthscale - math.log(n_features))
    return value, slope


def feature_lengthscale_prior(log_lengthscale: float) -> tuple[float, float]:
    """Log density, over the logarithm of one feature's lengthscale, of the same Gamma prior on its weight.

    w = 1/l² ~ Gamma with mean 1 and 1 degree of freedom; returned with its derivative by log l: w − 1.
    A feature without influence wants l → ∞: on 1/w, as for a common lengthscale, the prior would forbid that
    at the rate of −½ l², and relevance could not be learned (pumadyn-32nm: no split of ten succeeds).
    Source: ours; [IVM2006] section 6.3 states no hyperprior for eq. 10.
    """
    value, slope = _log_gamma(-2.0 * log_lengthscale)
    return value, -slope


def _log_gamma(log_u: float) -> tuple[float, float]:
    """Log density over ½ log u of u ~ Gamma(½, rate ½), and its derivative by ½ log u."""
    u = math.exp(log_u)
    return 0.5 * log_u - 0.5 * u - 0.5 * math.log(2.0 * math.pi) + math.log(2.0), 1.0 - u
