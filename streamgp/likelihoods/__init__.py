"""Likelihoods p(y|f): frozen values, a family and its parameters.

Each gives, for a chunk of rows with latent marginals N(h, a): log Z and its first two derivatives in h, the
site of an EP update, the gradient in its own parameters, and density, mean and variance of a new target.
Joint likelihoods do the same for one label and several latent functions, and give what finding a mode needs.
"""

from __future__ import annotations

from streamgp.likelihoods.base import Domain, Likelihood, ModeTerms, TiltedMoments, TiltedSites
from streamgp.likelihoods.custom import Custom
from streamgp.likelihoods.gaussian import Gaussian
from streamgp.likelihoods.joint import JointLikelihood
from streamgp.likelihoods.laplace import Laplace
from streamgp.likelihoods.logit import Logit
from streamgp.likelihoods.multivariate_probit import MultivariateProbit
from streamgp.likelihoods.null_category import NullCategory
from streamgp.likelihoods.ordinal import Ordinal
from streamgp.likelihoods.poisson import Poisson
from streamgp.likelihoods.probit import Probit
from streamgp.likelihoods.registry import register_likelihood
from streamgp.likelihoods.serialization import NAMED_LIKELIHOODS, likelihood_from_json
from streamgp.likelihoods.softmax import Softmax
from streamgp.likelihoods.student import StudentT

__all__ = [
    "NAMED_LIKELIHOODS",
    "Custom",
    "Domain",
    "Gaussian",
    "JointLikelihood",
    "Laplace",
    "Likelihood",
    "Logit",
    "ModeTerms",
    "MultivariateProbit",
    "NullCategory",
    "Ordinal",
    "Poisson",
    "Probit",
    "Softmax",
    "StudentT",
    "TiltedMoments",
    "TiltedSites",
    "likelihood_from_json",
    "register_likelihood",
]
