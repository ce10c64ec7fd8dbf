"""Rows that judge a mode: what it says about them if it has not learned them."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

import streamgp
from streamgp.data import open_rows
from streamgp.inference.inducing.basis import make_basis, whiten
from streamgp.settings import fit_settings
from streamgp.training.fit import begin
from streamgp.training.heads import inducing_of
from streamgp.training.left_out_points import ENOUGH_JUDGES, PARTS, left_out_points
from streamgp.training.stage import run
from tests.training.test_joint import FIXED, sectors


def dense_mode(features, codes, classes):
    """Whitened weights of the softmax's mode, from the obvious objective."""
    truth = np.eye(classes)[codes]

    def minus_log_posterior(vector):
        u = vector.reshape(-1, classes)
        log_p = log_softmax(features @ u, axis=1)
        return 0.5 * vector @ vector - np.sum(truth * log_p), (
            u - features.T @ (truth - np.exp(log_p))
        ).ravel()

    start = np.zeros(features.shape[1] * classes)
    found = minimize(
        minus_log_posterior, start, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-14}
    )
    return found.x.reshape(-1, classes)


def test_rows_left_out_are_seen_by_the_mode_of_all_others():
    X, y = sectors(500)
    estimator = streamgp.StreamGPClassifier(
        30, inference="fitc", likelihood=streamgp.likelihoods.Softmax(), **FIXED
    )
    settings = fit_settings(estimator.get_params(deep=False), seed=0)
    problem, recipe, draft = begin(open_rows((X, y)), "classification", settings)
    draft, _ = run(recipe[:-1], problem, draft, None)
    points = left_out_points(problem, draft)
    held_out, sample = problem.held_out, problem.sample
    assert len(points.targets) == len(y)  # too few for a choice: every row judges
    basis = make_basis(draft.kernel, inducing_of(draft))
    features = whiten(basis, problem.inputs(sample.features)).features
    order, begun = problem.sample_order(), len(held_out.rows)
    for part in range(PARTS):
        judges = np.sort(order[part::PARTS])
        teachers = np.setdiff1d(order, judges)
        expected = features[judges] @ dense_mode(features[teachers], sample.targets[teachers].astype(int), 4)
        found = points.latent[begun : begun + len(judges)]
        np.testing.assert_allclose(found, expected, atol=0.02 * np.abs(expected).max())
        np.testing.assert_array_equal(points.targets[begun : begun + len(judges)], sample.targets[judges])
        begun += len(judges)


def test_hardly_any_error_makes_no_mode_oversure():
    """One row in 200 has a label of chance: the few rows held out show one of them or none."""
    generator = np.random.default_rng(0)
    X, y = sectors(4000)
    y = np.where(generator.random(len(y)) < 0.005, generator.integers(0, 4, len(y)), y)
    losses = []
    for seed in range(3):
        model = streamgp.StreamGPClassifier(40, inference="fitc", **{**FIXED, "random_state": seed})
        model.fit(X[:2000], y[:2000])
        [entry] = [entry for entry in model.history_ if entry["stage"] == "calibrate"]
        assert ENOUGH_JUDGES - 2000 // PARTS <= entry["rows"] <= 2000
        p = model.predict_proba(X[2000:])[np.arange(2000), y[2000:]]
        losses.append(-np.log(p).mean())
    assert np.ptp(losses) < 0.02
