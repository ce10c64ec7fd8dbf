"""An average of posteriors: what it says about targets is the weighted sum of what its members say."""

import numpy as np
import pytest
from scipy import stats

from streamgp.data import RealTargets
from streamgp.likelihoods import Gaussian, Logit, Probit, Softmax
from streamgp.posterior import Marginals
from streamgp.posterior.mixture import MixedClasses, MixedReals, beside
from streamgp.posterior.predictive import RealPredictive, class_predictive

WEIGHTS = (0.7, 0.3)


def marginals(generator, heads):
    return Marginals(generator.standard_normal((40, heads)), generator.uniform(0.1, 2.0, (40, heads)))


def test_real_targets_have_the_moments_density_and_distribution_of_the_mixture(generator):
    targets = RealTargets(3.0, 2.0)
    members = tuple(RealPredictive(Gaussian(noise), targets) for noise in (0.1, 0.5))
    mixed = MixedReals(members[0].likelihood, targets, members, WEIGHTS)
    parts = [marginals(generator, 1) for _ in members]
    encoded = generator.standard_normal(40)
    y = 3.0 + 2.0 * encoded
    normals = [
        stats.norm(3.0 + 2.0 * part.mean[:, 0], 2.0 * np.sqrt(part.variance[:, 0] + noise))
        for part, noise in zip(parts, (0.1, 0.5), strict=True)
    ]
    both = beside(parts)
    density = sum(weight * normal.pdf(y) for weight, normal in zip(WEIGHTS, normals, strict=True))
    np.testing.assert_allclose(mixed.log_density(encoded, both), np.log(density))
    mass = sum(weight * normal.cdf(y) for weight, normal in zip(WEIGHTS, normals, strict=True))
    np.testing.assert_allclose(mixed.mass_below(encoded, both), mass)
    draws = np.where(
        generator.random((200_000, 1)) < WEIGHTS[0],
        *(normal.rvs((200_000, 40), random_state=generator) for normal in normals),
    )
    mean, variance = mixed.predict(both)
    np.testing.assert_allclose(mean, draws.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(variance, draws.var(axis=0), rtol=0.05)


@pytest.mark.parametrize("classes", [2, 3])
def test_class_probabilities_are_averaged(generator, classes):
    heads = 1 if classes == 2 else classes
    others = (Logit(0.2),) if classes == 2 else (Softmax(),)
    members = (class_predictive((Probit(0.1),) * heads, classes), class_predictive(others, classes))
    mixed = MixedClasses(members[0].likelihoods, members=members, weights=WEIGHTS)
    parts = [marginals(generator, heads) for _ in members]
    wanted = sum(
        weight * np.exp(member.log_probabilities(part))
        for weight, member, part in zip(WEIGHTS, members, parts, strict=True)
    )
    found = np.exp(mixed.log_probabilities(beside(parts)))
    np.testing.assert_allclose(found, wanted)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert mixed.n_classes == classes
    assert not mixed.decides_by_mean
