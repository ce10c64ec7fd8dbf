from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import brier_score_loss, log_loss, precision_recall_curve, roc_auc_score, roc_curve

from streamgp.data import ClassTargets, RealTargets, Standardizer, open_rows
from streamgp.inference import Sites, head_from_sites
from streamgp.kernels import RBF
from streamgp.likelihoods import Gaussian, Probit
from streamgp.passes import ClassEvaluation, PassSettings, Reading, RealEvaluation, run_pass
from streamgp.posterior import Snapshot
from streamgp.posterior.predictive import ClassPredictive, RealPredictive


@pytest.fixture
def rows_and_snapshot(generator):
    kernel = RBF(4.0, 1.0)
    inputs = generator.standard_normal((30, 2))
    gram = kernel.gram(inputs)
    heads = tuple(
        head_from_sites(gram.copy(), Sites(np.full(30, 2.0), 3 * generator.standard_normal(30)))
        for _ in range(3)
    )
    return generator.standard_normal((700, 2)), Snapshot(kernel, inputs, heads)


def evaluate(visitor, X, y, targets, snapshot, span_rows, client=None):
    reading = Reading(Standardizer(np.zeros(2), np.ones(2)), targets, np.dtype(float))
    rows = open_rows((X, y)).cut(span_rows)
    return run_pass(rows, visitor, PassSettings(64, 2, client), reading=reading, snapshot=snapshot)


@pytest.mark.parametrize("span_rows", [50, 700])
def test_two_classes_agree_with_scikit_learn(rows_and_snapshot, generator, span_rows, client):
    X, snapshot = rows_and_snapshot
    snapshot = Snapshot(snapshot.kernel, snapshot.active_inputs, snapshot.heads[:1])
    mean, variance = (column[:, 0] for column in snapshot.marginals(X))
    p = norm.cdf((mean + 0.3) / np.sqrt(1 + variance))
    y = np.where(generator.random(700) < p, "up", "down")
    visitor = ClassEvaluation(ClassPredictive((Probit(bias=0.3),)), ("down", "up"))
    score = evaluate(visitor, X, y, ClassTargets(np.array(["down", "up"])), snapshot, span_rows, client)
    assert score.rows == 700
    assert score.error == pytest.approx(np.mean((p > 0.5) != (y == "up")))
    assert score.log_loss == pytest.approx(log_loss(y == "up", p))
    assert score.brier == pytest.approx(2 * brier_score_loss(y == "up", p))
    confidence, correct, rows = score.calibration(10).T
    chosen = (np.maximum(p, 1 - p) >= 0.7) & (np.maximum(p, 1 - p) < 0.8)
    assert rows[7] == chosen.sum()
    assert confidence[7] == pytest.approx(np.maximum(p, 1 - p)[chosen].mean())
    assert correct[7] == pytest.approx(np.mean((p > 0.5)[chosen] == (y == "up")[chosen]))
    assert 0 <= score.calibration_error < 0.15
    assert score.auc == pytest.approx(roc_auc_score(y == "up", p), abs=1e-4)
    false, true = score.roc().T
    np.testing.assert_allclose(
        np.interp([0.1, 0.5], false, true), np.interp([0.1, 0.5], *roc_curve(y == "up", p)[:2]), atol=0.01
    )
    recall, precision = score.precision_recall().T
    exact_precision, exact_recall, _ = precision_recall_curve(y == "up", p)
    assert np.interp(0.5, recall, precision) == pytest.approx(
        np.interp(0.5, exact_recall[::-1], exact_precision[::-1]), abs=0.01
    )
    share = np.mean(y == "up")
    assert score.baseline.error == pytest.approx(min(share, 1 - share))
    assert score.baseline.log_loss == pytest.approx(log_loss(y == "up", np.full(700, share)))
    down, up = score.by_class()
    assert up["class"] == "up"
    assert up["recall"] == pytest.approx(np.mean(p[y == "up"] > 0.5))
    assert down["precision"] == pytest.approx(np.mean(y[p <= 0.5] == "down"))


def test_rejecting_uncertain_rows_lowers_the_error(rows_and_snapshot, generator):
    X, snapshot = rows_and_snapshot
    predictive = ClassPredictive((Probit(), Probit(), Probit()))
    p = np.exp(predictive.log_probabilities(snapshot.marginals(X)))
    np.testing.assert_allclose(p.sum(axis=1), 1)
    y = np.array([generator.choice(3, p=row / row.sum()) for row in p])
    score = evaluate(ClassEvaluation(predictive), X, y, ClassTargets(np.arange(3)), snapshot, 100)
    assert score.log_loss == pytest.approx(log_loss(y, p))
    assert score.auc == pytest.approx(roc_auc_score(y, p, multi_class="ovr"), abs=1e-3)
    assert score.confusion.sum() == 700
    assert score.confusion[1, 2] == np.sum((y == 1) & (p.argmax(axis=1) == 2))
    rejected, error = score.rejection().T
    assert rejected[0] == 0
    assert error[0] == pytest.approx(score.error)
    assert np.all(np.diff(rejected) > 0)
    half = np.argsort(p.max(axis=1))[350:]
    assert np.interp(0.5, rejected, error) == pytest.approx(
        np.mean(p[half].argmax(axis=1) != y[half]), abs=0.01
    )


def test_real_targets_are_scored_in_their_own_units(rows_and_snapshot, generator):
    X, snapshot = rows_and_snapshot
    snapshot = Snapshot(snapshot.kernel, snapshot.active_inputs, snapshot.heads[:1])
    mean, variance = (column[:, 0] for column in snapshot.marginals(X))
    spread = np.sqrt(variance + 0.25)
    y = 100 + 7 * (mean + spread * generator.standard_normal(700))
    visitor = RealEvaluation(RealPredictive(Gaussian(noise=0.25), RealTargets(100.0, 7.0)))
    score = evaluate(visitor, X, y, RealTargets(100.0, 7.0), snapshot, 90)
    assert score.rmse == pytest.approx(np.sqrt(np.mean((y - 100 - 7 * mean) ** 2)))
    assert score.log_loss == pytest.approx(-norm.logpdf(y, 100 + 7 * mean, 7 * spread).mean())
    for mass, share in score.coverage().items():
        assert share == pytest.approx(mass, abs=0.06)
        inside = np.abs(y - 100 - 7 * mean) <= norm.ppf(0.5 + mass / 2) * 7 * spread
        assert share == pytest.approx(inside.mean())
    assert score.baseline.error == pytest.approx(y.std())
    assert score.baseline.log_loss == pytest.approx(-norm.logpdf(y, y.mean(), y.std()).mean())
    assert score.r2 == pytest.approx(1 - score.rmse**2 / y.var())
    assert score.plane.sum() == 700
    assert (score.shift, score.scale) == (100.0, 7.0)


def test_scores_are_told_in_plain_values(rows_and_snapshot, generator):
    X, snapshot = rows_and_snapshot
    one = Snapshot(snapshot.kernel, snapshot.active_inputs, snapshot.heads[:1])
    y = generator.integers(2, size=700)
    visitor = ClassEvaluation(ClassPredictive((Probit(),)), tuple(np.array([3, 7])))
    classes = evaluate(visitor, X, y, ClassTargets(np.arange(2)), one, 90)
    told = json.loads(json.dumps(classes.to_dict()))
    assert [row["class"] for row in told["classes"]] == [3, 7]
    assert told["baseline"].keys() == {"error", "log_loss"}
    assert {"error", "log_loss", "auc", "brier", "calibration_error"} <= told.keys()
    assert "AUC" in repr(classes)
    real = RealEvaluation(RealPredictive(Gaussian(noise=0.25), RealTargets(0.0, 1.0)))
    numbers = evaluate(real, X, 1.0 * y, RealTargets(0.0, 1.0), one, 90)
    told = json.loads(json.dumps(numbers.to_dict()))
    assert told["rmse"] == told["error"] == pytest.approx(numbers.rmse)
    assert len(repr(numbers)) < 300


def test_rows_of_one_class_have_no_ranking(rows_and_snapshot):
    X, snapshot = rows_and_snapshot
    one = Snapshot(snapshot.kernel, snapshot.active_inputs, snapshot.heads[:1])
    visitor = ClassEvaluation(ClassPredictive((Probit(),)))
    score = evaluate(visitor, X, np.ones(700, int), ClassTargets(np.arange(2)), one, 700)
    assert np.isnan(score.auc)
    assert score.to_dict()["auc"] is None
    assert score.baseline == (0.0, 0.0)


def test_rows_whose_probabilities_are_equal_are_decided_as_predict_does(generator):
    """A mean of 1e-20 leaves both probabilities at one half, but has a sign, which is what predict asks."""
    kernel, inputs = RBF(4.0, 1.0), generator.standard_normal((30, 2))
    sites = Sites(np.full(30, 2.0), 1e-20 * generator.standard_normal(30))
    snapshot = Snapshot(kernel, inputs, (head_from_sites(kernel.gram(inputs), sites),))
    X, predictive = generator.standard_normal((200, 2)), ClassPredictive((Probit(),))
    marginals = snapshot.marginals(X)
    log_p = predictive.log_probabilities(marginals)
    assert np.mean(log_p[:, 0] == log_p[:, 1]) > 0.9
    labels = predictive.is_positive(marginals).astype(int)
    assert 0 < labels.sum() < 200
    score = evaluate(ClassEvaluation(predictive, (0, 1)), X, labels, ClassTargets(np.arange(2)), snapshot, 70)
    assert score.error == 0.0
