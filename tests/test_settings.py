"""Settings act or are refused, survive save and load, and can be reached by a grid search."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import streamgp
from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.errors import ParameterError
from streamgp.kernels import RBF, Linear
from streamgp.likelihoods import Logit, Probit
from streamgp.settings import ADF, EP, FITC, FPASS, IVM, PASS, EvidenceGain, Kmeans, Random


@pytest.fixture
def rows(generator):
    X = generator.standard_normal((150, 2))
    return X, np.where(X[:, 0] + X[:, 1] ** 2 > 0.5, "in", "out")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (
            {"selection": "kmeans", "inference": "adf"},
            r"selection=Kmeans\(...\) goes only with inference='fitc'",
        ),
        ({"selection": "gain", "inference": "ep"}, r"selection=EvidenceGain\(...\) .* inference='fitc'"),
        (
            {"selection": "fpass", "inference": "adf"},
            r"selection=FPASS\(...\) .* inference='ep', 'fitc' or 'local'",
        ),
        ({"selection": "ivm", "scratch": "somewhere"}, "scratch goes only with inference='fitc'"),
        (
            {"selection": "ivm", "learn_hyperparameters": "passes"},
            "learn_hyperparameters='passes' .* inference='fitc'",
        ),
        (
            {"inference": "fitc", "multiclass": "per_class"},
            "multiclass='per_class' .* inference='adf' or 'ep'",
        ),
        (
            {"inference": FITC(learn_inducing=True), "learn_hyperparameters": "constant"},
            "learn_inducing=True .* learn_hyperparameters=True, 'evidence' or 'passes'",
        ),
        (
            {"inference": FITC(learn_inducing=True), "learn_hyperparameters": False},
            "learn_inducing=True .* learn_hyperparameters",
        ),
        (
            {"selection": PASS(update_every=2), "learn_hyperparameters": False},
            r"PASS\(update_every=...\) .* not False",
        ),
        (
            {"selection": FPASS(update_every=2), "learn_hyperparameters": "hybrid"},
            r"FPASS\(update_every=...\) .* not 'hybrid'",
        ),
        ({"max_seconds": -1}, "max_seconds must be None or a number of at least 0, not -1"),
        ({"max_seconds": np.inf}, "max_seconds"),
        ({"n_active": 0}, "n_active must be an integer of at least 1, not 0"),
        ({"n_active": 2.5}, "n_active must be an integer of at least 1, not 2.5"),
        ({"learn_hyperparameters": "often"}, "learn_hyperparameters must be one of True, False"),
        ({"multiclass": "many"}, "multiclass must be one of 'auto'"),
        ({"selection": "best"}, r"selection='best' is not known; use 'ivm'.* IVM\(...\)"),
        (
            {"inference": 3},
            r"inference=3 is not known; use 'adf', 'ep', 'fitc', 'local', or settings: ADF\(...\)",
        ),
        ({"precision": "half"}, "precision must be"),
    ],
)
def test_what_cannot_act_is_refused_with_both_named(rows, settings, named):
    with pytest.raises(ParameterError, match=named):
        StreamGPClassifier(**settings).fit(*rows)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"residual": 2.0}, "residual is 2.0; it must be within 0 and 1"),
        ({"power": 0.0}, "power is 0.0; it must be above 0"),
        ({"power": "x"}, "power must be 'auto' or a number, not 'x'"),
        ({"learn_inducing": 3}, "learn_inducing must be True, False or 'auto', not 3"),
        ({"tolerance": 0.0}, "tolerance must be above 0"),
        ({"most_sweeps": 0}, "most_sweeps at least 1"),
    ],
)
def test_settings_check_themselves(wrong, named):
    with pytest.raises(ParameterError, match=named):
        FITC(**wrong)


@pytest.mark.parametrize("name", [{"multiclass": "shared"}, {"class_weight": {1: 2.0}, "inference": "fitc"}])
def test_what_only_classes_have_is_refused_for_real_targets_before_the_fit(generator, name):
    X = generator.standard_normal((100, 2))
    with pytest.raises(
        ParameterError, match=f"{next(iter(name))}=.* is for classes, but the targets are real"
    ):
        streamgp.fit_stream((X, X[:, 0]), n_active=5, learn_hyperparameters=False, **name)
    model = streamgp.fit_stream((X, X[:, 0]), n_active=5, learn_hyperparameters=False, multiclass="auto")
    assert isinstance(model, StreamGPRegressor)


@pytest.mark.parametrize(
    ("selection", "inference", "recipe"),
    [
        ("ivm", "auto", "learn: start -> learn: criterion -> select: ivm -> calibrate"),
        ("ivm", ADF(calibrate=False), "learn: start -> learn: criterion -> select: ivm"),
        ("random", "ep", "learn: start -> learn: criterion -> select: random -> infer: ep -> calibrate"),
        (
            "fpass",
            "auto",
            "learn: evidence -> learn: refine -> select: draw -> select: exchange -> infer: ep -> calibrate",
        ),
        (
            "kmeans",
            "auto",
            "learn: evidence -> select: kmeans -> learn: refine -> infer: approximation -> infer: all rows",
        ),
    ],
)
def test_a_model_tells_its_recipe(rows, tmp_path, selection, inference, recipe):
    model = StreamGPClassifier(10, selection=selection, inference=inference, random_state=0).fit(*rows)
    assert model.recipe_ == recipe
    told = [entry["stage"] for entry in model.history_]
    assert list(dict.fromkeys(told)) == recipe.split(" -> ")
    model.save(tmp_path / "model.zip")
    assert streamgp.load(tmp_path / "model.zip").recipe_ == recipe


def test_predicting_takes_nothing_from_a_random_state(rows):
    X, y = rows
    state = np.random.RandomState(3)
    model = StreamGPClassifier(10, learn_hyperparameters=False, random_state=state, selection="ivm").fit(X, y)
    before = state.get_state()[1].copy()
    model.predict(X)
    model.predict_proba(X)
    np.testing.assert_array_equal(state.get_state()[1], before)


def test_predicting_needs_no_settings_of_the_fit(rows):
    X, y = rows
    model = StreamGPClassifier(10, learn_hyperparameters=False, random_state=0, selection="ivm").fit(X, y)
    expected = model.predict_proba(X)
    model.set_params(selection="none of them", n_active=-1)
    np.testing.assert_array_equal(model.predict_proba(X), expected)


@pytest.mark.parametrize(
    "selection",
    [IVM(delay=8), PASS(p_inc=0.6), FPASS(p_exc=0.1), Random(), Kmeans(steps=3), EvidenceGain(rows=90)],
)
def test_settings_survive_save_and_load(rows, tmp_path, selection):
    parameters = {
        "selection": selection,
        "inference": FITC(residual=0.5, power=1.0, learn_inducing=False),
        "kernel": RBF(2.0, (1.0, 3.0)) + Linear(0.5),
        "likelihood": Logit(0.25),
        "class_weight": {"in": 2.0},
        "learn_hyperparameters": False,
        "max_seconds": 1e5,  # far from any fit here, on any machine
    }
    model = StreamGPClassifier(12, random_state=0, **parameters).fit(*rows)
    model.save(tmp_path / "model.zip")
    again = streamgp.load(tmp_path / "model.zip")
    assert again.get_params(deep=False) == model.get_params(deep=False)


def test_fields_of_kernels_and_settings_are_parameters():
    model = StreamGPClassifier(
        kernel=RBF(2.0, 1.5) + Linear(0.5), likelihood=Probit(0.1), selection=FPASS(p_exc=0.1), inference=EP()
    )
    names = model.get_params(deep=True)
    assert names["kernel__0__lengthscale"] == 1.5
    assert names["likelihood__bias"] == 0.1
    assert names["selection__p_exc"] == 0.1
    assert names["inference__calibrate"] is True
    changed = clone(model).set_params(kernel__0__lengthscale=3.0, selection__p_exc=0.2, n_active=7)
    assert changed.kernel == RBF(2.0, 3.0) + Linear(0.5)
    assert changed.selection == FPASS(p_exc=0.2)
    assert changed.n_active == 7
    assert model.kernel == RBF(2.0, 1.5) + Linear(0.5)  # values are frozen: the original keeps its own
    with pytest.raises(ParameterError, match=r"kernel__scale is not known: .* these parameters: 0, 1"):
        model.set_params(kernel__scale=1.0)
    with pytest.raises(ParameterError, match="'cernel' is no parameter"):
        model.set_params(cernel__scale=1.0)


def test_a_grid_search_reaches_the_lengthscale(rows):
    X, y = rows
    model = StreamGPClassifier(
        30, kernel=RBF(5.0, 1.0), learn_hyperparameters=False, random_state=0, selection="ivm"
    )
    search = GridSearchCV(model, {"kernel__lengthscale": [1e-3, 1.0]}, cv=2).fit(X, y)
    assert search.best_params_ == {"kernel__lengthscale": 1.0}


def test_the_criterion_is_learned_where_it_is_asked_for(generator):
    X = generator.standard_normal((200, 2))
    settings = {"n_active": 10, "selection": "fpass", "random_state": 0}
    asked = streamgp.fit_stream((X, np.sin(X[:, 0])), learn_hyperparameters="constant", **settings)
    assert asked.recipe_.startswith("learn: start -> learn: criterion -> select: draw")
    auto = streamgp.fit_stream((X, np.sin(X[:, 0])), **settings)
    assert auto.recipe_.startswith("select: draw -> select: exchange")


@pytest.mark.filterwarnings("ignore::streamgp.errors.NumericsWarning")
@pytest.mark.parametrize("learning", [True, "passes"])
def test_a_time_limit_ends_every_stage_with_its_step(generator, learning):
    X = generator.standard_normal((600, 2))
    model = streamgp.fit_stream(
        (X, X[:, 0] > 0),
        n_active=15,
        inference="fitc",
        max_seconds=0.0,
        learn_hyperparameters=learning,
        random_state=0,
    )
    stages = [entry["stage"] for entry in model.history_]
    assert len(stages) == len(set(stages)) == len(model.recipe_.split(" -> "))
    [chosen] = [entry for entry in model.history_ if entry["stage"] == "infer: approximation"]
    assert chosen["left_out"] == [[1.0, 0.5], [1.0, 0.1], [0.0, 1.0]]
    assert np.isfinite(model.predict_proba(X)).all()
