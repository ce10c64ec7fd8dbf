"""Likelihoods p(y|f): frozen values, a family and its parameters.

Each gives, for a chunk of rows with latent marginals N(h, a): log Z and its first two derivatives in h, the
site of an EP update, the gradient in its own parameters, and density, mean and variance of a new target.
"""

from __future__ import annotations

from streamgp.likelihoods.base import Likelihood, TiltedMoments, TiltedSites
from streamgp.likelihoods.custom import Custom
from streamgp.likelihoods.gaussian import Gaussian
from streamgp.likelihoods.logit import Logit
from streamgp.likelihoods.probit import Probit
from streamgp.likelihoods.registry import register_likelihood
from streamgp.likelihoods.serialization import likelihood_from_json

__all__ = [
    "Custom",
    "Gaussian",
    "Likelihood",
    "Logit",
    "Probit",
    "TiltedMoments",
    "TiltedSites",
    "likelihood_from_json",
    "register_likelihood",
]
