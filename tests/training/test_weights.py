"""Rows that count more than once, or less."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.errors import TargetError
from streamgp.inference import expectation_propagation, filter_sites
from streamgp.kernels import RBF
from streamgp.likelihoods import Gaussian, Probit
from streamgp.selection import FPASS, IVM, PASS
from streamgp.selection.predictive import Fit

FIXED = {"kernel": RBF(4.0, 1.0), "learn_hyperparameters": False, "random_state": 0}


@pytest.fixture(scope="module")
def rows():
    generator = np.random.default_rng(5)
    X = generator.standard_normal((300, 2))
    return X, np.where(X[:, 0] + 0.5 * generator.standard_normal(300) > 0, 1, -1)


@pytest.mark.parametrize("likelihood", [Probit(0.3), Gaussian(0.4)], ids=["probit", "gaussian"])
@pytest.mark.parametrize("parallel_sweeps", [100, 0])
def test_a_weight_is_a_number_of_equal_rows_for_expectation_propagation(rows, likelihood, parallel_sweeps):
    X, y = rows[0][:12], rows[1][:12].astype(float)
    weights = np.arange(12) % 3 + 1.0
    options = {"tolerance": 1e-10, "parallel_sweeps": parallel_sweeps, "sequential_sweeps": 200}
    found = expectation_propagation(RBF().gram(X), y, likelihood, None, weights, **options)
    copies = np.repeat(np.arange(12), weights.astype(int))
    wanted = expectation_propagation(RBF().gram(X)[np.ix_(copies, copies)], y[copies], likelihood, **options)
    np.testing.assert_allclose(found.marginals.mean[copies], wanted.marginals.mean, atol=1e-7)
    np.testing.assert_allclose(found.marginals.variance[copies], wanted.marginals.variance, atol=1e-7)
    assert found.log_evidence == pytest.approx(wanted.log_evidence, abs=1e-6)


def test_small_weights_make_flat_sites(rows):
    X, y = rows[0][:40], rows[1][:40].astype(float)
    gram = RBF(30.0, 1.0).gram(X)
    for weight in (1e-4, 0.3):
        found = expectation_propagation(gram, y, Probit(), None, np.full(40, weight), tolerance=1e-9)
        assert found.converged
        tilted = Probit().tilted_sites(y, found.marginals.cavity_mean, found.marginals.cavity_variance)
        np.testing.assert_allclose(found.sites.precision, weight * tilted.site_precision, rtol=1e-5)
        once = filter_sites(gram, y, Probit(), np.full(40, weight))
        assert once.precision[0] == pytest.approx(weight * filter_sites(gram, y, Probit()).precision[0])


WAYS = {
    "auto": {},
    "adf": {"inference": "adf"},
    "ep": {"inference": "ep"},
    "random": {"selection": "random"},
    "pass": {"selection": PASS(block_rows=60, n_pass=1, n_init=30)},
    "fpass": {"selection": FPASS(block_rows=60, n_pass=1)},
    "fitc": {"inference": "fitc"},
    "mode": {"inference": "fitc", "multiclass": "joint"},
    "local": {"inference": "local"},
}


@pytest.mark.parametrize(
    "way",
    [
        {},
        {"inference": "ep"},
        {"selection": "random"},
        {"multiclass": "shared"},
        WAYS["pass"],
        WAYS["fpass"],
    ],
)
def test_rows_of_no_weight_are_not_learned_from(rows, way, make_store):
    X, y = rows
    counts = np.arange(300) % 2 == 0
    store = make_store(X, y, chunk_rows=70)
    settings = FIXED | {"validation": False} | way
    model = StreamGPClassifier(40, **settings)
    model.fit_stream(store, sample_weight=counts.astype(float))
    assert np.all(model.active_rows_ % 2 == 0)
    if "selection" not in way:  # what is drawn depends on row numbers
        alone = StreamGPClassifier(40, standardize=False, **settings).fit(X[counts], y[counts])
        again = StreamGPClassifier(40, standardize=False, **settings)
        again.fit(X, y, sample_weight=counts.astype(float))
        assert np.mean(np.abs(again.predict_proba(X) - alone.predict_proba(X))) < 0.05


def test_weights_of_rows_act_in_passes_too(rows, make_store):
    X, y = rows
    weights = np.where(y > 0, 20.0, 0.05)
    settings = FIXED | {"n_active": 30, "memory_budget": "20MiB"}
    store = make_store(X, y, chunk_rows=50)
    shares = []
    for given in (None, weights):
        model = StreamGPClassifier(selection=IVM(candidates=60), **settings)
        shares.append(np.mean(model.fit_stream(store, sample_weight=given).predict(X) > 0))
    assert shares[1] > shares[0] + 0.1


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_weights_of_classes_move_the_boundary(rows, way):
    X, y = rows
    shares = [
        np.mean(StreamGPClassifier(40, class_weight={1: weight}, **FIXED, **way).fit(X, y).predict(X) == 1)
        for weight in (0.02, 1.0, 50.0)
    ]
    assert shares[0] < shares[1] - 0.05 < shares[1] + 0.05 < shares[2]


def test_a_weight_of_real_targets_is_a_number_of_observations(rows):
    X, _ = rows
    y = np.where(np.arange(300) % 2 == 0, np.sin(X[:, 0]), 3.0)
    weights = np.where(np.arange(300) % 2 == 0, 1.0, 1e-3)
    model = StreamGPRegressor(100, **FIXED).fit(X, y, sample_weight=weights)
    assert np.mean(np.abs(model.predict(X) - np.sin(X[:, 0]))) < 0.2


@pytest.mark.parametrize("selection", [PASS, FPASS])
def test_rows_of_weight_compete_in_passes_by_probability(rows, selection, make_store):
    X, y = rows
    weights = np.where(y > 0, 20.0, 0.05)
    settings = FIXED | {"n_active": 30, "memory_budget": "8MiB", "validation": False}
    store = make_store(np.tile(X, (20, 1)), np.tile(y, 20), chunk_rows=500)
    found = []
    for given in (None, np.tile(weights, 20)):
        model = StreamGPClassifier(selection=selection(block_rows=100, n_pass=1), **settings)
        model.fit_stream(store, sample_weight=given)
        assert any(entry.get("from_disk") for entry in model.history_)
        found.append(np.mean(model.predict(X) > 0))
    assert found[1] > found[0] + 0.1


def test_a_count_is_a_power_of_the_probability_but_not_of_what_is_contradicted():
    fit = Fit(np.array([0.05, 0.2, 0.8, 0.8, 0.8]), -np.log([0.05, 0.2, 0.8, 0.8, 0.8]))
    counted = fit.counted(np.array([2.0, 3.0, 2.0, 1.0, 0.0]), p_min=0.1)
    np.testing.assert_allclose(counted.probability, [0.05, 0.1, 0.64, 0.8, 1.0])
    np.testing.assert_allclose(counted.weight, np.array([2.0, 3.0, 2.0, 1.0, 0.0]) * fit.weight)
    even = fit.counted(np.ones(5), p_min=0.1)
    assert even.probability.tolist() == fit.probability.tolist()


def test_classes_of_the_multiway_ivm_can_weigh_more():
    X = np.random.default_rng(1).standard_normal((240, 2))
    y = np.digitize(X[:, 0] + 0.5 * np.random.default_rng(2).standard_normal(240), [-0.4, 0.4])
    ways = FIXED | {"selection": "ivm", "multiclass": "joint"}
    shares = [
        np.mean(StreamGPClassifier(15, class_weight={1: weight}, **ways).fit(X, y).predict(X) == 1)
        for weight in (0.05, 1.0, 20.0)
    ]
    assert shares[0] < shares[1] - 0.05 < shares[1] + 0.05 < shares[2]


def test_the_trial_knows_classes_by_their_weight(rows):
    X, y = rows
    y = np.where(y > 0, "up", np.where(X[:, 1] > 0, "left", "right"))
    model = StreamGPClassifier(20, class_weight={"up": 30.0}, random_state=0).fit(X, y)
    assert "held-out log loss" in model.recipe_
    assert np.mean(model.predict(X) == "up") > np.mean(y == "up") + 0.02


def test_one_class_of_positive_weight_is_refused(rows):
    X, y = rows
    with pytest.raises(TargetError, match="two classes"):
        StreamGPClassifier(10, **FIXED).fit(X, y, sample_weight=(y > 0).astype(float))
