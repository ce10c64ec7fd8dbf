"""From latent marginals to statements about targets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from streamgp.arrays import BoolArray, FloatArray, IntArray
from streamgp.data import RealTargets
from streamgp.likelihoods import Gaussian, JointLikelihood, Likelihood, Logit, Probit
from streamgp.posterior.calibration import Calibration
from streamgp.posterior.snapshot import Marginals


@dataclass(frozen=True)
class ClassPredictive:
    """Class probabilities: of two classes by one head, of k > 2 by one head each, against the rest.

    log p(class j) = log P(y = +1 | head j) − log Σ_i P(y = +1 | head i)   [IVM2003 section 4, normalised]
    with a combination: log p(class j) = s z_j + o_j − log Σ_i exp(s z_i + o_i),  z the log odds of each head
    One likelihood per head: biases differ from class to class. ``combination`` has s and o of each.
    """

    likelihoods: tuple[Any, ...]
    combination: tuple[Calibration, ...] = ()

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return max(2, len(self.likelihoods))

    @property
    def decides_by_mean(self) -> bool:
        """Whether the sign of the latent mean (plus bias) decides: two classes, a symmetric likelihood."""
        return len(self.likelihoods) == 1 and isinstance(self.likelihoods[0].of_labels, Probit | Logit)

    def is_positive(self, marginals: Marginals) -> BoolArray:
        """Whether each row belongs to the second of two classes, by its mean.  Shapes: (c, 1) → (c,)."""
        likelihood = self.likelihoods[0].of_labels
        assert isinstance(likelihood, Probit | Logit)
        positive: BoolArray = marginals.mean[:, 0] + likelihood.bias > 0.0
        return positive

    def decided(self, marginals: Marginals, log_probabilities: FloatArray) -> IntArray:
        """Number of the class that is predicted for each row, the first of equals.

        Of two classes the sign of the mean decides: their probabilities can be equal when rounded.
        Shapes: marginals (c, heads), log_probabilities (c, classes) → (c,).
        """
        if self.decides_by_mean:
            return self.is_positive(marginals).astype(np.int64)
        largest: IntArray = np.argmax(log_probabilities, axis=1)
        return largest

    def log_probabilities(self, marginals: Marginals) -> FloatArray:
        """Log probability of every class.  Shapes: marginals (c, heads) → (c, classes)."""
        mean, variance = marginals
        assert variance is not None
        joint = self._log_heads(1.0, mean, variance)
        if joint.shape[1] == 1:
            return np.column_stack([self._log_heads(-1.0, mean, variance), joint])
        if self.combination:
            scales, offsets, *_ = np.array(self.combination).T
            joint = scales * (joint - self._log_heads(-1.0, mean, variance)) + offsets
        normalised: FloatArray = joint - logsumexp(joint, axis=1, keepdims=True)
        return normalised

    def log_odds(self, marginals: Marginals) -> FloatArray:
        """Log odds of every class against the rest.  Shapes: marginals (c, heads) → (c, heads)."""
        mean, variance = marginals
        assert variance is not None
        return self._log_heads(1.0, mean, variance) - self._log_heads(-1.0, mean, variance)

    def _log_heads(self, sign: float, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Log P(y = sign) by each head, (c, heads)."""
        signs = np.full(len(mean), sign)
        columns = [
            likelihood.log_predictive_density(signs, mean[:, head], variance[:, head])
            for head, likelihood in enumerate(self.likelihoods)
        ]
        return np.column_stack(columns)


@dataclass(frozen=True)
class JointPredictive(ClassPredictive):
    """Class probabilities by one likelihood of all latent functions together."""

    classes: int = 2

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


def class_predictive(
    likelihoods: tuple[Any, ...], n_classes: int, combination: tuple[Calibration, ...] = ()
) -> ClassPredictive:
    """The predictive of one joint likelihood, or of one likelihood for each latent function."""
    if isinstance(likelihoods[0], JointLikelihood):
        return JointPredictive(likelihoods, classes=n_classes)
    return ClassPredictive(likelihoods, combination)


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

    def mass_below(self, encoded: FloatArray, marginals: Marginals) -> FloatArray:
        """Distribution function at encoded targets, (c,): that of :meth:`log_density`."""
        mean, variance = marginals
        assert variance is not None
        return self.likelihood.mass_below(encoded, mean[:, 0], variance[:, 0])

    def log_density(self, encoded: FloatArray, marginals: Marginals) -> FloatArray:
        """Log density of encoded targets, in the target's own units."""
        latent_mean, latent_variance = marginals
        assert latent_variance is not None
        standard = self.likelihood.log_predictive_density(encoded, latent_mean[:, 0], latent_variance[:, 0])
        return standard - math.log(self.targets.scale)
