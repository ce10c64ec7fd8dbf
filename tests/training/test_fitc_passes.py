"""The evidence of all rows and its gradient, in passes over a store, and learning by it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

import streamgp
from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.data import open_rows
from streamgp.errors import ParameterError
from streamgp.inference.inducing.basis import make_basis
from streamgp.inference.inducing.fit import converged_evidence
from streamgp.inference.inducing.in_memory import Rows
from streamgp.kernels import RBF, Linear
from streamgp.likelihoods import Gaussian, Probit
from streamgp.passes.scratch import scratch_space
from streamgp.settings import FITC, fit_settings
from streamgp.training import fit as fitting
from streamgp.training.learn import all_rows
from streamgp.training.learn.all_rows import evidence_of_all_rows
from streamgp.training.learn.climb import Parameters, penalised
from tests.reference.kernels_dense import derivative
from tests.training.test_fitc import same_bits

KERNEL = RBF(3.0, (1.2, 2.0)) + Linear(0.3)
SETTINGS = {
    "inference": "fitc",
    "selection": "random",
    "kernel": KERNEL,
    "standardize": False,
    "validation": False,
    "random_state": 0,
}


@contextmanager
def fit_under_way(estimator, store, scratch):
    """The problem of a fit that is under way."""
    task = "regression" if isinstance(estimator, StreamGPRegressor) else "classification"
    settings = fit_settings(estimator.get_params(deep=False), seed=0)
    problem, _, _ = fitting.begin(open_rows(store), task, settings)
    with scratch_space(scratch, None, 0, None) as place:
        yield replace(problem, scratch=place)


def classes(generator, n=700):
    X = generator.standard_normal((n, 2))
    return X, np.sign(X[:, 0] * X[:, 1] + 0.3 * generator.standard_normal(n)).astype(int)


@pytest.mark.parametrize(("is_real", "hyperpriors"), [(False, True), (True, True), (False, False)])
def test_evidence_in_passes_is_that_of_rows_in_memory(generator, make_store, tmp_path, is_real, hyperpriors):
    X, y = classes(generator)
    if is_real:
        y = np.sin(2.0 * X[:, 0]) + 0.1 * generator.standard_normal(len(X))
        y = (y - y.mean()) / y.std()
    likelihood = Gaussian(0.1) if is_real else Probit(0.2)
    kind = StreamGPRegressor if is_real else StreamGPClassifier
    inducing = X[:15] + 0.1
    parameters = Parameters(KERNEL, (likelihood,), inducing)
    settings = {**SETTINGS, "inference": FITC(hyperpriors=hyperpriors), "likelihood": likelihood}
    estimator = kind(15, learn_hyperparameters="passes", **settings)
    with fit_under_way(estimator, make_store(X, y, chunk_rows=130), tmp_path) as problem:

        def along(direction, t, memory):
            moved = start + t * direction
            kernel = KERNEL.with_log_parameters(moved[:k])
            likelihoods = (likelihood.with_parameters(moved[k : k + 1]),)
            point = Parameters(kernel, likelihoods, moved[k + 1 :].reshape(inducing.shape))
            return evidence_of_all_rows(problem, True, 60, point, memory)

        k = len(KERNEL.log_parameters)
        start = np.concatenate([KERNEL.log_parameters, likelihood.parameters, inducing.ravel()])
        value, gradient, memory = along(np.zeros_like(start), 0.0, {})
        expected, _ = converged_evidence(
            make_basis(KERNEL, inducing), likelihood, Rows(X, y.astype(float)), inputs=True, tolerance=1e-7
        )
        wanted, slope = penalised(parameters, [expected], True, hyperpriors)
        assert hyperpriors or wanted == -expected.value
        assert value == pytest.approx(wanted, abs=1e-5)
        np.testing.assert_allclose(gradient, slope, rtol=1e-5, atol=1e-4)
        # Full re-convergence, from the moments of a neighbour.
        directions = np.zeros((k + 3, len(start)))
        directions[: k + 1, : k + 1] = np.eye(k + 1)
        directions[k + 1 :, k + 1 :] = generator.standard_normal((2, inducing.size))
        differences = [derivative(lambda t, e=e: along(e, t, memory)[0], 1e-3) for e in directions]
        np.testing.assert_allclose(directions @ gradient, differences, rtol=1e-5, atol=2e-3)


def test_steps_by_all_rows_raise_their_evidence(generator, make_store, client):
    X, y = classes(generator, 1500)
    store = make_store(X, y, chunk_rows=250)
    settings = {**SETTINGS, "kernel": RBF(1.0, 3.0), "inference": FITC(1.0, 1.0, learn_inducing=False)}
    model = streamgp.fit_stream(store, n_active=30, learn_hyperparameters="passes", client=client, **settings)
    [entry] = [entry for entry in model.history_ if entry["stage"] == "learn: all rows"]
    assert entry["rows"] == 1500
    before = streamgp.fit_stream(store, n_active=30, learn_hyperparameters=False, **settings)
    assert model.history_[-1]["log_evidence"] > before.history_[-1]["log_evidence"] + 10.0


def test_interrupted_between_evaluations_is_the_same_model(generator, make_store, tmp_path, monkeypatch):
    X, y = classes(generator, 600)
    store = make_store(X, y, chunk_rows=200)
    settings = {**SETTINGS, "n_active": 15, "learn_hyperparameters": "passes", "inference": FITC(1.0, 1.0)}
    whole = streamgp.fit_stream(store, **settings)
    original, calls = all_rows._slopes, []

    def failing(*arguments):
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(all_rows, "_slopes", failing)
    with pytest.raises(KeyboardInterrupt):
        streamgp.fit_stream(store, checkpoint=tmp_path / "checkpoint", **settings)
    same_bits(whole, streamgp.fit_stream(store, checkpoint=tmp_path / "checkpoint", **settings))


def test_passes_need_inference_over_all_rows(generator):
    with pytest.raises(ParameterError, match="inference='fitc'"):
        StreamGPClassifier(10, selection="ivm", learn_hyperparameters="passes").fit(*classes(generator))
