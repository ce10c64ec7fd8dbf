"""Generalized FITC as its paper prints it: learning climbs the evidence, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import streamgp
from streamgp import StreamGPClassifier
from streamgp.errors import ParameterError
from streamgp.kernels import RBF
from streamgp.settings import FITC
from tests.reference import fitc_dense

JITTER = 1e-10


@pytest.fixture
def rows(generator):
    """One feature, a boundary, and every fifth label wrong: a small variance is right."""
    X = np.sort(generator.uniform(-2.0, 2.0, (90, 1)), axis=0)
    return X, np.where((np.arange(90) % 5 == 0) ^ (X[:, 0] > 0.3), 1, -1)


def fitted(rows, inference):
    settings = {"kernel": RBF(10.0, 1.0), "validation": False, "standardize": False, "random_state": 0}
    return StreamGPClassifier(3, selection="random", inference=inference, **settings).fit(*rows)


def dense_evidence(model, rows, kernel=None):
    """Log evidence of all rows, by covariances of all rows."""
    X, y = rows
    explained, residual = fitc_dense.prior(kernel or model.kernel_, model.active_inputs_, X, JITTER)
    covariance = explained + np.diag(residual)
    return fitc_dense.full_ep(covariance, model.likelihood_[0], y.astype(float), tolerance=1e-10).evidence


def test_learning_ends_at_an_optimum_of_the_evidence_alone(rows):
    literal, usual = fitted(rows, FITC.paper()), fitted(rows, FITC.paper(hyperpriors=True))
    best = dense_evidence(literal, rows)
    assert best > dense_evidence(usual, rows) + 0.02
    assert literal.kernel_.variance < 0.8 * usual.kernel_.variance  # its prior asks for e²
    for name in ("variance", "lengthscale"):
        for factor in (0.8, 1.25):
            near = replace(literal.kernel_, **{name: factor * getattr(literal.kernel_, name)})
            assert dense_evidence(literal, rows, near) < best + 1e-3


def test_the_paper_mode_is_settings_that_a_model_keeps(rows, tmp_path):
    assert FITC.paper() == FITC(residual=1.0, power=1.0, learn_inducing=True, hyperpriors=False)
    assert FITC.paper(power=0.5).power == 0.5
    fitted(rows, FITC.paper()).save(tmp_path / "model")
    assert streamgp.load(tmp_path / "model").inference == FITC.paper()


def test_without_learning_there_is_nothing_to_have_priors(rows):
    model = StreamGPClassifier(
        3,
        inference=FITC(residual=1.0, power=1.0, hyperpriors=False),
        kernel=RBF(1.0, 1.0),
        learn_hyperparameters=False,
    )
    with pytest.raises(ParameterError, match=r"hyperpriors=False .* the evidence"):
        model.fit(*rows)
