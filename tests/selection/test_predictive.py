"""The rules of predictive selection: what they rank by, who enters, who leaves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgp.data.targets import ClassTargets
from streamgp.errors import ParameterError
from streamgp.inference.ep import expectation_propagation
from streamgp.kernels import RBF
from streamgp.likelihoods import Gaussian, Logit, Probit
from streamgp.posterior import Marginals
from streamgp.selection import FPASS, PASS
from streamgp.selection.predictive import Fit, PredictiveScores, predictive_fit


def fit(*probabilities):
    values = np.array(probabilities, np.float64)
    return Fit(values, -np.log(values))


def test_the_predicted_weight_of_a_new_row_is_the_weight_that_it_gets():
    """Exact for regression: the representer weight (y − h)/(σ² + a) of the row once it is active."""
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((30, 2)), generator.standard_normal(30)
    gram, likelihood = RBF(1.5, 1.0).gram(X), Gaussian(0.2)
    old, new = np.arange(29), 29
    before = expectation_propagation(gram[np.ix_(old, old)], y[old], likelihood)
    cross = gram[new, old]
    noisy = gram[np.ix_(old, old)] + 0.2 * np.eye(29)
    mean = cross @ before.marginals.weights
    variance = gram[new, new] - cross @ np.linalg.solve(noisy, cross)
    predicted = predictive_fit(likelihood, y[[new]], np.array([mean]), np.array([variance]))
    after = expectation_propagation(gram, y, likelihood)
    assert predicted.weight[0] == pytest.approx(abs(after.marginals.weights[new]), rel=1e-9)
    # And an active row's weight is that of its cavity.
    cavity = predictive_fit(likelihood, y, after.marginals.cavity_mean, after.marginals.cavity_variance)
    np.testing.assert_allclose(cavity.weight, np.abs(after.marginals.weights), rtol=1e-8)


@given(mean=st.floats(-8, 8), other=st.floats(-8, 8), variance=st.floats(0.0, 50.0))
@pytest.mark.parametrize("likelihood", [Probit(0.3), Logit()])
def test_a_less_probable_label_has_the_larger_weight(likelihood, mean, other, variance):
    pair = np.array([mean, other])
    probability, rank = predictive_fit(likelihood, np.ones(2), pair, np.full(2, variance))
    weight = np.abs(likelihood.tilted_moments(np.ones(2), pair, np.full(2, variance)).log_z_slope)
    assert np.all((probability > 0) & (probability <= 1))
    if abs(mean - other) > 1e-3:
        assert (probability[0] < probability[1]) == (mean < other)
        assert (rank[0] > rank[1]) == (mean < other)
        assert (weight[0] >= weight[1]) == (mean < other)


def test_thresholds_decide_as_long_as_there_is_room():
    rule = PASS(p_inc=0.6, p_del=0.99)
    found = rule.exchange(fit(0.59, 0.61, 0.2, 0.999), fit(0.5, 0.995, 0.98, 0.9), capacity=10)
    assert found.enter.tolist() == [0, 2]
    assert found.leave.tolist() == [1]
    assert not found.is_full


def test_at_most_a_quarter_leaves_at_once_the_surest_first():
    active = fit(0.991, 0.999, 0.995, 0.992, 0.5, 0.5, 0.5, 0.5)
    assert PASS(p_del=0.99).exchange(fit(0.9), active, capacity=10).leave.tolist() == [1, 2]


def test_a_full_set_exchanges_the_worst_for_the_surest():
    rule = PASS(p_inc=0.6, p_del=0.99, p_exc=0.5)
    found = rule.exchange(fit(0.5, 0.1, 0.3), fit(0.9, 0.2, 0.7, 0.8), capacity=4)
    assert found.is_full
    assert found.enter.tolist() == [1, 2]
    assert found.leave.tolist() == [0, 3]
    # Rows that would weigh less than any active one stay outside.
    none = rule.exchange(fit(0.5, 0.55), fit(0.1, 0.2, 0.3, 0.4), capacity=4)
    assert none.enter.size == none.leave.size == 0


@given(st.integers(0, 1000), st.integers(1, 30), st.integers(0, 40), st.floats(0.01, 1.0))
def test_a_fixed_size_is_kept(seed, active, candidates, share):
    generator = np.random.default_rng(seed)
    inside, outside = (fit(*generator.uniform(1e-6, 1, size)) for size in (active, candidates))
    found = FPASS(p_exc=share).exchange(outside, inside, capacity=active)
    assert len(found.enter) == len(found.leave) <= max(1, round(share * active))
    if found.enter.size:
        assert outside.probability[found.enter].max() < inside.probability[found.leave].min()
    kept = PASS(p_exc=share).exchange(outside, inside, capacity=active)
    assert active - len(kept.leave) + len(kept.enter) <= active


def test_room_is_filled_first():
    found = FPASS(p_exc=0.1).exchange(fit(0.9, 0.5, 0.2), fit(0.3, 0.99), capacity=4)
    assert found.enter.tolist() == [0, 1, 2] or found.enter.tolist() == [1, 2]
    assert len(found.enter) - len(found.leave) == 2


def test_only_sure_rows_are_given_away():
    found = FPASS(p_exc=1.0).exchange(fit(0.1, 0.2, 0.3), fit(0.6, 0.8, 0.95), capacity=3)
    assert found.leave.tolist() == [1, 2]
    assert found.enter.tolist() == [0, 1]
    surer = FPASS(p_exc=1.0, p_del=0.9).exchange(fit(0.1, 0.2, 0.3), fit(0.6, 0.8, 0.95), capacity=3)
    assert surer.leave.tolist() == [2]
    assert surer.enter.tolist() == [0]


def test_contradicted_rows_stay_outside_on_demand():
    outside, inside = fit(0.01, 0.2, 0.3), fit(0.6, 0.8, 0.95)
    found = FPASS(p_exc=1.0, p_min=0.1).exchange(outside, inside, capacity=3)
    assert found.enter.tolist() == [1, 2]
    assert FPASS(p_exc=1.0).exchange(outside, inside, capacity=3).enter.tolist() == [0, 1]
    assert PASS(p_min=0.1).exchange(outside, inside, capacity=9).enter.tolist() == [1, 2]


def test_contradicted_rows_do_not_crowd_out_others_where_a_pass_picks_rows():
    marginals = Marginals(np.array([[-3.0], [-0.5], [2.0]]), np.zeros((3, 1)))
    encoded, labels = np.ones(3), ClassTargets(np.array([0, 1]))
    scores, paper = (
        PredictiveScores(labels, (Probit(),), p_min)(np.arange(3), encoded, marginals) for p_min in (0.1, 0.0)
    )
    assert scores[:, 0].argmax() == 1
    assert paper[:, 0].argmax() == 0
    np.testing.assert_array_equal(scores[1:], paper[1:])


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: PASS(p_inc=0.0), "p_inc"),
        (lambda: PASS(p_del=1.5), "p_del"),
        (lambda: PASS(n_init=0), "n_init"),
        (lambda: FPASS(p_exc=0.0), "p_exc"),
        (lambda: FPASS(p_del=1.5), "p_del"),
        (lambda: FPASS(p_min=0.7), "p_min"),
        (lambda: FPASS(n_pass=0), "n_pass"),
    ],
)
def test_settings_out_of_range_are_named(make, name):
    with pytest.raises(ParameterError, match=name):
        make()
