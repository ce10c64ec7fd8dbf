"""Calibration of points, and heads of one class against the rest combined to probabilities of classes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax

from streamgp.likelihoods import Logit, Probit, Softmax
from streamgp.posterior import Marginals
from streamgp.posterior.calibration import Calibration, calibrate_points
from streamgp.posterior.predictive import ClassPredictive


@pytest.mark.parametrize("n_functions", [1, 4])
def test_scale_and_offsets_that_generated_the_labels_are_found(generator, n_functions):
    latent = 3.0 * generator.standard_normal((20_000, n_functions))
    offsets = np.linspace(-1.0, 1.0, n_functions) if n_functions > 1 else np.array([0.7])
    true = 0.5 * latent + offsets
    if n_functions == 1:
        likelihood, targets = Logit(), np.where(true[:, 0] + generator.logistic(size=20_000) > 0, 1.0, -1.0)
    else:
        likelihood, targets = Softmax(), np.argmax(true + generator.gumbel(size=true.shape), axis=1) * 1.0
    found = calibrate_points(likelihood, targets, latent, np.ones(20_000), with_offsets=True)
    assert [one.mean_scale for one in found] == pytest.approx([0.5] * n_functions, rel=0.05)
    shifts = np.array([one.mean_offset for one in found])
    np.testing.assert_allclose(shifts, offsets, atol=0.1)
    plain = calibrate_points(likelihood, targets, latent, np.ones(20_000), with_offsets=False)
    assert all(one.mean_offset == 0.0 for one in plain)
    assert plain[0].log_density < found[0].log_density


def test_a_combination_is_the_softmax_of_stretched_log_odds(generator):
    marginals = Marginals(generator.standard_normal((50, 3)), generator.random((50, 3)))
    heads = (Probit(0.3), Probit(-0.2), Probit())
    combination = tuple(Calibration(1.7, offset) for offset in (0.1, -0.4, 0.0))
    odds = ClassPredictive(heads).log_odds(marginals)
    first = heads[0].positive_probability(marginals.mean[:, 0], marginals.variance[:, 0])
    np.testing.assert_allclose(odds[:, 0], np.log(first / (1.0 - first)), rtol=1e-6)
    np.testing.assert_allclose(
        ClassPredictive(heads, combination).log_probabilities(marginals),
        log_softmax(1.7 * odds + [0.1, -0.4, 0.0], axis=1),
    )
