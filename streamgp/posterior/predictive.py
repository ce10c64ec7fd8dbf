"""From latent marginals to statements about targets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from streamgp.arrays import BoolArray, FloatArray
from streamgp.data import RealTargets
from streamgp.likelihoods import Gaussian, JointLikelihood, Likelihood, Logit, Probit
from streamgp.posterior.snapshot import Marginals


@dataclass(frozen=True)
class ClassPredictive:
    """Class probabilities: of two classes by one head, of k > 2 by one head each, against the rest.

    log p(class j) = log P(y = +1 | head j) − log Σ_i P(y = +1 | head i)   [IVM2003 section 4, normalised]
    One likelihood per head: biases differ from class to class.
    """

    likelihoods: tuple[Any, ...]

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return max(2, len(self.likelihoods))

    @property
    def decides_by_mean(self) -> bool:
        """Whether the sign of the latent mean (plus bias) decides: two classes, a symmetric likelihood."""
        return len(self.likelihoods) == 1 and isinstance(self.likelihoods[0], Probit | Logit)

    def is_positive(self, marginals: Marginals) -> BoolArray:
        """Whether each row belongs to the second of two classes, by its mean.  Shapes: (c, 1) → (c,)."""
        likelihood = self.likelihoods[0]
        assert isinstance(likelihood, Probit | Logit)
        positive: BoolArray = marginals.mean[:, 0] + likelihood.bias > 0.0
        return positive

    def log_probabilities(self, marginals: Marginals) -> FloatArray:
        """Log probability of every class.  Shapes: marginals (c, heads) → (c, classes)."""
        mean, variance = marginals
        assert variance is not None
        positive = np.ones(len(mean))
        columns = [
            likelihood.log_predictive_density(positive, mean[:, head], variance[:, head])
            for head, likelihood in enumerate(self.likelihoods)
        ]
        if len(columns) == 1:
            negative = self.likelihoods[0].log_predictive_density(-positive, mean[:, 0], variance[:, 0])
            return np.column_stack([negative, columns[0]])
        joint = np.column_stack(columns)
        normalised: FloatArray = joint - logsumexp(joint, axis=1, keepdims=True)
        return normalised


@dataclass(frozen=True)
class JointPredictive(ClassPredictive):
    """Class probabilities by one likelihood of all latent functions together."""

    classes: int

    @property
    def n_classes(self) -> int:
        """Number of classes, one latent function each."""
        return self.classes

    @property
    def decides_by_mean(self) -> bool:
        """No: the variances of different classes differ."""
        return False

    def log_probabilities(self, marginals: Marginals) -> FloatArray:
        """Log probability of every class.  Shapes: marginals (c, classes) → (c, classes)."""
        mean, variance = marginals
        assert variance is not None
        [likelihood] = self.likelihoods
        assert isinstance(likelihood, JointLikelihood)
        return likelihood.log_probabilities(mean, variance)


def class_predictive(likelihoods: tuple[Any, ...], n_classes: int) -> ClassPredictive:
    """The predictive of one joint likelihood, or of one likelihood for each latent function."""
    if isinstance(likelihoods[0], JointLikelihood):
        return JointPredictive(likelihoods, n_classes)
    return ClassPredictive(likelihoods)


class RealPrediction(NamedTuple):
    """Mean, and variance of a new observation, in the target's own units: (c,) each."""

    mean: FloatArray
    variance: FloatArray


@dataclass(frozen=True)
class RealPredictive:
    """The predictive distribution of a real target, mapped back to its own units."""

    likelihood: Likelihood
    targets: RealTargets

    @property
    def likelihoods(self) -> tuple[Likelihood, ...]:
        """The one that there is."""
        return (self.likelihood,)

    @property
    def mean_is_latent(self) -> bool:
        """Whether the predictive mean is the latent mean, so that no variance is needed for it."""
        return isinstance(self.likelihood, Gaussian)

    def latent_mean(self, marginals: Marginals) -> FloatArray:
        """The latent mean in the target's units.  Shapes: (c, 1) → (c,)."""
        return self.targets.shift + self.targets.scale * marginals.mean[:, 0]

    def predict(self, marginals: Marginals) -> RealPrediction:
        """Predictive mean and variance."""
        latent_mean, latent_variance = marginals
        assert latent_variance is not None
        mean = self.likelihood.predictive_mean(latent_mean[:, 0], latent_variance[:, 0])
        variance = self.likelihood.predictive_variance(latent_mean[:, 0], latent_variance[:, 0])
        return RealPrediction(
            self.targets.shift + self.targets.scale * mean, self.targets.scale**2 * variance
        )

    def log_density(self, encoded: FloatArray, marginals: Marginals) -> FloatArray:
        """Log density of encoded targets, in the target's own units."""
        latent_mean, latent_variance = marginals
        assert latent_variance is not None
        standard = self.likelihood.log_predictive_density(encoded, latent_mean[:, 0], latent_variance[:, 0])
        return standard - math.log(self.targets.scale)
