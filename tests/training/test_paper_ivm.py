"""The papers' IVM as printed: selection and criterion against naive versions, learning, resuming."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import streamgp
from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.errors import ParameterError
from streamgp.inference import filter_sites
from streamgp.inference.active_set import ActiveSet
from streamgp.inference.criterion import criterion
from streamgp.kernels import RBF, Constant
from streamgp.likelihoods import Gaussian, Probit
from streamgp.selection import IVM, IVM2003, IVM2006
from streamgp.settings import SELECTIONS, fit_settings
from streamgp.training.fit import begin
from streamgp.training.learn.printed import criterion_of_all_rows
from streamgp.training.printed import Grown, Labelled, grow_printed
from tests.reference import criterion_dense, ivm_dense, ivm_printed_dense, kernels_dense

KERNEL = RBF(4.0, 1.0)


def moments(target, mean, variance):
    z = target * mean / np.sqrt(1 + variance)
    slope = target * np.exp(norm.logpdf(z) - norm.logcdf(z)) / np.sqrt(1 + variance)
    return slope, slope * (slope + mean / (1 + variance))


def rings(rows, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((rows, 2))
    return X, np.where(np.hypot(*X.T) + 0.2 * generator.standard_normal(rows) > 1.2, 1, 0)


RULES = [
    (IVM.paper2003(n_full=18, candidates=30), {"random": 2, "full": 18, "m": 30, "tau": 0.5}),
    (
        IVM.paper2003(n_random=1, n_full=0, candidates=7, retained=0.3),
        {"random": 1, "full": 0, "m": 7, "tau": 0.3},
    ),
    (IVM.paper2006(entries=2000, block=8), {"B": 2000, "k": 8, "rho": 0.5}),
    (IVM.paper2006(entries=2500, block=10, retained=0.8), {"B": 2500, "k": 10, "rho": 0.8}),
    (IVM.paper2006(), {"B": 36_000_000, "k": 100, "rho": 0.5}),
]


def test_the_first_lengthscale_is_that_of_the_papers_first_w():
    X, y = rings(120)
    X = X * [1.0, 7.0]
    model = StreamGPClassifier(
        10, selection=IVM.paper2006(), learn_hyperparameters=False, standardize=False, random_state=0
    ).fit(X, y)
    assert model.kernel_.variance == 10.0
    # w/(2p) = 1/(2 lengthscale²), and w is one over the mean variance of the features.
    assert model.kernel_.lengthscale == pytest.approx(np.sqrt(2 * X.var(axis=0).mean()), rel=1e-6)


@pytest.mark.parametrize(("selection", "rule"), RULES)
def test_the_selection_is_that_of_a_naive_version(selection, rule):
    X, y = rings(160)
    signs = np.where(y == 1, 1.0, -1.0)
    choice = Labelled(np.arange(160), X, signs, np.ones(160))
    begun = Grown(ActiveSet.empty(0, 2), np.arange(160))
    found = grow_printed(selection, KERNEL, Probit(), choice, begun, 60, np.random.default_rng(3))
    score = getattr(ivm_dense, selection.score)
    gram = kernels_dense.gram(KERNEL, X)
    expected, J = ivm_printed_dense.select(gram, signs, moments, score, 60, rule, np.random.default_rng(3))
    assert found.active.rows[:60].tolist() == expected
    assert found.places.tolist() == sorted(J)


def test_a_fit_is_the_naive_version_with_a_constant_in_the_kernel():
    X, y = rings(150)
    model = StreamGPClassifier(
        40,
        selection=IVM.paper2003(n_full=10, candidates=25),
        kernel=KERNEL,
        learn_hyperparameters=False,
        likelihood=Probit(),
        standardize=False,
        random_state=0,
    ).fit(X, y)
    signs = np.where(y == 1, 1.0, -1.0)
    expected, _ = ivm_printed_dense.select(
        kernels_dense.gram(KERNEL + Constant(0.1), X),
        signs,
        moments,
        ivm_dense.entropy_reduction,
        40,
        {"random": 2, "full": 10, "m": 25, "tau": 0.5},
        np.random.default_rng([0, 1, 0]),
    )
    assert model.active_rows_.tolist() == expected
    assert "calibrate" not in model.recipe_
    assert repr(model.kernel_) == repr(KERNEL + Constant(0.1))


def test_the_bias_is_that_of_the_share():
    X, y = rings(200)
    model = StreamGPClassifier(20, selection="ivm2003", learn_hyperparameters=False, random_state=0).fit(X, y)
    assert model.likelihood_[0].bias == pytest.approx(norm.ppf(y.mean()))


def test_j_never_holds_more_entries_than_the_budget():
    selection = IVM.paper2006(entries=500, block=5)
    X, y = rings(200)
    choice = Labelled(np.arange(200), X, np.where(y == 1, 1.0, -1.0), np.ones(200))
    grown = Grown(ActiveSet.empty(0, 2), np.arange(200))
    for until in range(5, 50, 5):
        grown = grow_printed(selection, KERNEL, Probit(), choice, grown, until, np.random.default_rng(0))
        assert len(grown.places) * (until + 5) <= 500


@pytest.mark.parametrize("chunk_rows", [50, 300])
def test_the_criterion_as_a_pass_is_the_criterion_in_memory(make_store, chunk_rows):
    X, y = rings(300)
    store = make_store(X, y, chunk_rows=chunk_rows)
    likelihood, signs = Probit(0.3), np.where(y == 1, 1.0, -1.0)
    estimator = StreamGPClassifier(
        20, selection="ivm2006", standardize=False, validation=[5, 7, 290], kernel=KERNEL
    )
    problem, _, _ = begin(
        streamgp.data.open_rows(store), "classification", fit_settings(estimator.get_params(), 0)
    )
    active = np.array([3, 250, 11, 77])
    rest = np.setdiff1d(np.arange(300), np.append(active, [5, 7, 290]))
    sites = filter_sites(KERNEL.gram(X[active]), signs[active], likelihood)
    flat = ActiveSet.empty(4, 2)
    flat.rows[:], flat.inputs[:], flat.targets[:] = active, X[active], signs[active]
    inside = ActiveSet(**{**vars(flat), "count": 4})
    found = criterion_of_all_rows(problem, KERNEL, likelihood, inside, sites)
    data = (X[active], signs[active], sites, X[rest], signs[rest])
    expected = criterion(KERNEL, likelihood, *data)
    assert found.value == pytest.approx(expected.value, rel=1e-12)
    np.testing.assert_allclose(found.kernel_gradient, expected.kernel_gradient, rtol=1e-9)
    np.testing.assert_allclose(found.likelihood_gradient, expected.likelihood_gradient, rtol=1e-9)
    assert found.value == pytest.approx(criterion_dense.criterion(KERNEL, likelihood, *data), rel=1e-9)


@pytest.mark.parametrize("strategy", ["constant", "hybrid", "exact"])
def test_learning_descends_in_the_criterion_of_all_rows(strategy):
    X, y = rings(250)
    model = StreamGPClassifier(
        30,
        selection=IVM.paper2006(rounds=3, minor_steps=3),
        kernel=RBF(10.0, 10.0),
        learn_hyperparameters=strategy,
        random_state=0,
    ).fit(X, y)
    rounds = [entry for entry in model.history_ if entry["stage"] == "learn: criterion of all rows"]
    values = [entry["criterion"] for entry in rounds]
    assert values[-1] < values[0]
    assert {entry["strategy"] for entry in rounds} == {strategy}
    assert model.kernel_.lengthscale < 5.0
    assert model.score(X, y) > 0.6


def test_the_strategies_differ_on_a_sample_too():
    X, y = rings(300)
    kernels = set()
    for strategy in ("constant", "hybrid", "exact"):
        model = StreamGPClassifier(20, selection="ivm", learn_hyperparameters=strategy, random_state=0)
        kernels.add(repr(model.fit(X, y).kernel_))
    assert len(kernels) == 3


def test_errors_of_rows_held_out_choose_the_kernel():
    X, y = rings(500)
    model = StreamGPClassifier(
        40, selection=IVM.paper2003(n_full=20, candidates=40), validation=0.3, random_state=0
    ).fit(X, y)
    tried = [entry for entry in model.history_ if entry["stage"] == "learn: errors"]
    assert len(tried) == 9
    best = tried[int(np.argmin([entry["error"] for entry in tried]))]
    assert repr(model.kernel_).startswith(best["kernel"])


def test_regression_has_a_lengthscale_for_each_feature():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((200, 3))
    y = np.sin(2 * X[:, 0]) + 0.05 * generator.standard_normal(200)
    model = StreamGPRegressor(40, selection=IVM.paper2006(rounds=6), likelihood=Gaussian(0.1), random_state=0)
    lengthscales = model.fit(X, y).kernel_.lengthscale
    assert len(lengthscales) == 3
    assert lengthscales[0] < 0.5 * min(lengthscales[1:])


def test_steps_resume_with_the_same_result(tmp_path, monkeypatch):
    X, y = rings(200)
    parameters = {
        "n_active": 60,
        "selection": IVM.paper2003(n_full=8, candidates=20),
        "kernel": KERNEL,
        "learn_hyperparameters": False,
        "random_state": 0,
    }
    monkeypatch.setattr("streamgp.training.select.printed.STEP", 20)
    whole = StreamGPClassifier(**parameters).fit(X, y)
    stop_after_two_steps(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        StreamGPClassifier(**parameters, checkpoint=tmp_path / "fit").fit(X, y)
    monkeypatch.undo()
    monkeypatch.setattr("streamgp.training.select.printed.STEP", 20)
    resumed = StreamGPClassifier(**parameters, checkpoint=tmp_path / "fit").fit(X, y)
    assert resumed.active_rows_.tolist() == whole.active_rows_.tolist()
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))


def stop_after_two_steps(monkeypatch):
    import streamgp.training.select.printed as module

    calls, real = [], module.grow_printed

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(module, "grow_printed", interrupted)


@pytest.mark.parametrize("name", ["ivm2003", "ivm2006"])
def test_every_class_has_its_own_parameters(name, make_store):
    X, _ = rings(240)
    y = np.digitize(np.hypot(*X.T), [0.8, 1.4])
    model = StreamGPClassifier(30, selection=name, random_state=0).fit(X, y)
    assert model.recipe_.startswith("each class: (learn: ")
    learned = [entry["class"] for entry in model.history_ if entry["inner"].startswith("learn: ")]
    assert sorted(set(learned)) == [0, 1, 2]
    assert len({repr(kernel) for kernel in model.kernel_}) > (name == "ivm2006")
    assert len(model.active_rows_) == 90
    assert model.score(X, y) > 0.6
    streamed = streamgp.fit_stream(
        make_store(X, y, chunk_rows=70), n_active=30, selection=name, random_state=0
    )
    np.testing.assert_array_equal(streamed.active_rows_, model.active_rows_)


def test_what_the_papers_cannot_do_is_refused():
    X, y = rings(60)
    assert SELECTIONS["ivm2003"] is IVM2003
    assert SELECTIONS["ivm2006"] is IVM2006
    with pytest.raises(ParameterError, match="goes only with inference='adf'"):
        StreamGPClassifier(10, selection="ivm2006", inference="fitc").fit(X, y)
    with pytest.raises(ParameterError, match="kernels are chosen by errors"):
        StreamGPClassifier(10, selection="ivm2003", learn_hyperparameters="constant").fit(X, y)
    with pytest.raises(ParameterError, match="targets are real numbers"):
        StreamGPRegressor(10, selection="ivm2003").fit(X, X[:, 0])
    with pytest.raises(ParameterError, match="learns by the criterion"):
        StreamGPClassifier(10, selection="ivm2006", learn_hyperparameters="evidence").fit(X, y)
    for bad in ({"retained": 2.0}, {"n_random": 0}, {"bias_variance": 0.0}, {"score": "best"}):
        with pytest.raises(ParameterError):
            IVM.paper2003(**bad)
    for bad in ({"retained": -1.0}, {"entries": 0}, {"block": 0}):
        with pytest.raises(ParameterError):
            IVM.paper2006(**bad)
