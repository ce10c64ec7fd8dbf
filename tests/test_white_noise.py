"""White noise is in every row's own variance, training or test, and nowhere else: every consequence."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp
from streamgp.errors import ParameterError
from streamgp.inference.active_set import ActiveSet, Candidates, catch_up, left_out_marginals, refresh_factor
from streamgp.kernels import RBF, White
from streamgp.likelihoods import Gaussian, Probit
from streamgp.selection.predictive import PredictiveScores
from streamgp.settings import EP, FITC
from streamgp.training.select.offer import _fits
from tests.reference import ep_dense, gp_dense, kernels_dense

KERNEL = RBF(4.0, 1.0) + White(1.5)


@pytest.fixture
def problem():
    """Active rows with converged sites, and other rows, some with the features of active ones."""
    generator = np.random.default_rng(3)
    X = generator.standard_normal((40, 2))
    X[30:] = X[:10]
    y = np.where(X[:, 0] + 0.3 * generator.standard_normal(40) > 0, 1.0, -1.0)
    found = ep_dense.propagate(kernels_dense.gram(KERNEL, X[:20]), y[:20], Probit())
    active = ActiveSet.empty(20, 2)
    active.rows[:], active.inputs[:], active.targets[:] = np.arange(20), X[:20], y[:20]
    active.precision[:], active.precision_mean[:] = found.precision, found.precision_mean
    active = ActiveSet(**{**vars(active), "count": 20})
    refresh_factor(active, KERNEL)
    return X, y, active


def without(active, i, new):
    """Marginal of a new row by the textbook, with one active row left out (None: with all)."""
    kept = np.arange(20) != i
    X = active.inputs[kept]
    return gp_dense.posterior_marginals(
        kernels_dense.gram(KERNEL, X),
        kernels_dense.block(KERNEL, new, X),
        np.diag(kernels_dense.gram(KERNEL, new)),
        active.precision[kept],
        active.precision_mean[kept],
    )


def test_an_active_row_left_out_has_its_own_noise(problem):
    X, _, active = problem
    garbage = np.full(20, np.nan)
    mean, variance = left_out_marginals(active, KERNEL, np.arange(20), garbage, garbage)
    expected = [without(active, i, X[i : i + 1]) for i in range(20)]
    np.testing.assert_allclose(mean, [float(m[0]) for m, _ in expected], rtol=1e-8)
    np.testing.assert_allclose(variance, [float(v[0]) for _, v in expected], rtol=1e-8)


def test_other_rows_have_noise_of_their_own_even_with_the_features_of_active_ones(problem):
    X, _, active = problem
    mean, variance = without(active, None, X[20:])
    found = active.snapshot(KERNEL).marginals(X[20:])
    np.testing.assert_allclose(found.mean[:, 0], mean, rtol=1e-8)
    np.testing.assert_allclose(found.variance[:, 0], variance, rtol=1e-8)


def test_candidates_in_memory_and_rows_of_a_pass_have_the_same_scores(problem):
    X, y, active = problem
    in_pass = active.snapshot(KERNEL).marginals(X[20:])
    candidates = Candidates.new(np.arange(20, 40), X[20:], y[20:], KERNEL, 20)
    catch_up(active, candidates, KERNEL, since=0)
    np.testing.assert_allclose(candidates.variance, in_pass.variance[:, 0], rtol=1e-10)
    offered, _ = _fits(KERNEL, [Probit()], [active], X[20:], [y[20:]])
    targets = streamgp.data.ClassTargets(np.array([0, 1]))
    scores = PredictiveScores(targets, (Probit(),), 0.0)(np.arange(20, 40), (y[20:] + 1) / 2, in_pass)
    np.testing.assert_allclose(scores[:, 0], offered.weight, rtol=1e-8)


def test_the_evidence_of_all_rows_is_that_of_the_textbook(make_store):
    generator = np.random.default_rng(0)
    X = generator.standard_normal((300, 2))
    y = np.where(np.hypot(*X.T) + 0.3 * generator.standard_normal(300) > 1.2, 1, 0)
    model = streamgp.fit_stream(
        make_store(X, y, chunk_rows=70),
        n_active=30,
        selection="fpass",
        kernel=KERNEL,
        likelihood=Probit(),
        learn_hyperparameters=False,
        inference=EP(calibrate=False),
        validation=False,
        standardize=False,
    )
    signs, chosen = np.where(y == 1, 1.0, -1.0), model.active_rows_
    rest = np.setdiff1d(np.arange(300), chosen)
    gram = kernels_dense.gram(KERNEL, X[chosen])
    found = ep_dense.propagate(gram, signs[chosen], Probit())
    cross, prior = kernels_dense.block(KERNEL, X[rest], X[chosen]), kernels_dense.gram(KERNEL, X[rest])
    mean, variance = gp_dense.posterior_marginals(
        gram, cross, np.diag(prior), found.precision, found.precision_mean
    )
    expected = found.log_evidence + Probit().log_predictive_density(signs[rest], mean, variance).sum()
    (told,) = [entry for entry in model.history_ if entry["stage"] == "infer: ep"]
    assert told["log_evidence_all"] == pytest.approx([expected], abs=1e-3)


@pytest.mark.parametrize("inference", ["adf", "ep", "fitc"])
def test_noise_of_a_regression_can_be_that_of_the_kernel(inference):
    """RBF + White with next to no noise of the likelihood: learned, and 95 % intervals cover 95 %."""
    generator = np.random.default_rng(1)
    X = generator.uniform(-3, 3, (1600, 1))
    y = np.sin(2 * X[:, 0]) + 0.5 * generator.standard_normal(1600)
    model = streamgp.StreamGPRegressor(
        n_active=40,
        selection="ivm",
        inference=inference,
        kernel=RBF(1.0, 1.0) + White(0.01),
        likelihood=Gaussian(1e-3),
        random_state=0,
    ).fit(X[:800], y[:800])
    mean, deviation = model.predict(X[800:], return_std=True)
    covered = np.mean(np.abs(y[800:] - mean) < 1.96 * deviation)
    assert 0.92 <= covered <= 0.98
    assert np.sqrt(np.mean((mean - np.sin(2 * X[800:, 0])) ** 2)) < 0.15


def test_much_noise_does_not_spoil_what_calibration_learns_from_rows_left_out():
    generator = np.random.default_rng(2)
    X = generator.standard_normal((1500, 2))
    y = np.where(np.hypot(*X.T) > 1.2, 1, 0)
    losses = []
    for kernel in (RBF(30.0, 1.0), RBF(30.0, 1.0) + White(3.0)):
        model = streamgp.StreamGPClassifier(
            n_active=100, selection="fpass", kernel=kernel, learn_hyperparameters=False, random_state=0
        ).fit(X[:1000], y[:1000])
        probabilities = model.predict_proba(X[1000:])[np.arange(500), y[1000:]]
        losses.append(-np.mean(np.log(probabilities)))
    assert losses[1] < 1.3 * losses[0]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"inference": FITC(residual=0.0)}, "residual above 0"),
        ({"multiclass": "joint"}, "multiclass='joint'"),
    ],
)
def test_where_white_noise_would_have_no_effect_it_is_refused(settings, named):
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((60, 2)), np.arange(60) % 3
    settings = {"inference": "fitc", **settings}
    with pytest.raises(ParameterError, match=named):
        streamgp.fit_stream((X, y), n_active=5, selection="random", kernel=KERNEL, **settings)
