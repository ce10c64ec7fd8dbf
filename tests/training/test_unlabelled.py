"""Rows without a label: what they are told by, what they are good for, and that they are never a class."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

import streamgp
from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.errors import NonFiniteDataError, ParameterError, TargetError
from streamgp.kernels import RBF
from streamgp.likelihoods import NullCategory
from streamgp.selection import IVM

FIXED = {"kernel": RBF(10.0, 0.4), "learn_hyperparameters": False, "random_state": 0}


def moons(rows, seed):
    """Two half circles, each a class: (rows, 2), (rows,)."""
    generator = np.random.default_rng(seed)
    angle, moon = np.pi * generator.random(rows), generator.integers(0, 2, rows)
    x = np.where(moon, 1 - np.cos(angle), np.cos(angle))
    y = np.where(moon, 0.5 - np.sin(angle), np.sin(angle))
    return np.column_stack([x, y]) + 0.1 * generator.standard_normal((rows, 2)), moon


def few_labels(moon, each=5):
    """NaN for all but the first rows of each class."""
    y = np.full(len(moon), np.nan)
    for label in np.unique(moon):
        y[np.flatnonzero(moon == label)[:each]] = label
    return y


def fitted(X, y, n_active=150, **parameters):
    likelihood = parameters.pop("likelihood", NullCategory())
    return StreamGPClassifier(n_active, likelihood=likelihood, **FIXED | parameters).fit(X, y)


def test_unlabelled_rows_halve_the_error_and_more():
    errors = []
    for seed in range(6):
        X, moon = moons(400, seed)
        X_new, moon_new = moons(1000, 100 + seed)
        y = few_labels(moon, each=3)
        labelled = ~np.isnan(y)
        without = StreamGPClassifier(6, selection="ivm", **FIXED).fit(X[labelled], y[labelled])
        found = [np.mean(model.predict(X_new) != moon_new) for model in (without, fitted(X, y))]
        errors.append(found)
    without, beside = np.mean(errors, axis=0)
    assert beside < 0.5 * without, errors
    assert without > 0.08, errors


def test_selection_takes_them_and_prediction_knows_the_classes_only():
    X, moon = moons(300, 0)
    y = few_labels(moon)
    model = fitted(X, y)
    assert model.recipe_.startswith("select: ivm")
    assert np.isnan(y[model.active_rows_]).sum() > 100
    assert model.classes_.tolist() == [0.0, 1.0]
    assert model.about_["unlabelled_rows"] == 290
    assert model.about_["class_rows"] == [5, 5]
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (300, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X), np.argmax(probabilities, axis=1))


def masked(y):
    return np.ma.array(np.nan_to_num(y).astype(int), mask=np.isnan(y))


def object_labels(y, names):
    return np.array([None if np.isnan(value) else names[int(value)] for value in y], dtype=object)


FORMS = {
    "-1": lambda y: (np.where(np.isnan(y), -1, y).astype(int), NullCategory(missing=-1)),
    "None": lambda y: (object_labels(y, [0, 1]), NullCategory()),
    "None among strings": lambda y: (object_labels(y, "ab"), NullCategory()),
    "named string": lambda y: (
        np.where(np.isnan(y), "?", np.where(y > 0, "b", "a")),
        NullCategory(missing="?"),
    ),
    "masked": lambda y: (masked(y), NullCategory()),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_way_to_say_that_there_is_no_label_gives_the_same_model(form):
    X, moon = moons(120, 1)
    y = few_labels(moon)
    labels, likelihood = FORMS[form](y)
    model, other = fitted(X, y, 40), fitted(X, labels, 40, likelihood=likelihood)
    np.testing.assert_array_equal(model.active_rows_, other.active_rows_)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X), rtol=1e-9)
    assert len(other.classes_) == 2


def test_pandas_na_is_no_label():
    pandas = pytest.importorskip("pandas")
    X, moon = moons(120, 1)
    y = few_labels(moon)
    nullable = pandas.array([None if np.isnan(value) else int(value) for value in y], dtype="Int64")
    model, other = fitted(X, y, 40), fitted(X, pandas.Series(nullable), 40)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X), rtol=1e-9)


def written(path, X, y, chunk=64):
    group = zarr.open_group(path, mode="w")
    group.create_array("X", data=X, chunks=(chunk, X.shape[1]))
    fill = {} if y.dtype.kind != "f" else {"fill_value": np.nan}
    array = group.create_array("y", shape=y.shape, dtype=y.dtype, chunks=(chunk,), **fill)
    array[:] = y
    return path


def test_a_store_gives_the_model_of_memory_and_is_scored_by_its_labels(tmp_path):
    X, moon = moons(400, 2)
    order = np.argsort(moon, kind="stable")  # whole chunks without a label, which Zarr does not write
    X, moon = X[order], moon[order]
    y = few_labels(moon)
    path = written(tmp_path / "train.zarr", X, y)
    in_memory = fitted(X, y, 60)
    with pytest.warns(streamgp.errors.DataWarning, match="chunks that are not stored"):
        streamed = StreamGPClassifier(60, likelihood=NullCategory(), **FIXED).fit_stream(path)
    np.testing.assert_array_equal(streamed.active_rows_, in_memory.active_rows_)
    np.testing.assert_allclose(streamed.predict_proba(X), in_memory.predict_proba(X), rtol=1e-9)
    streamed.save(tmp_path / "model")
    loaded = streamgp.load(tmp_path / "model")
    with pytest.warns(streamgp.errors.DataWarning, match="chunks that are not stored"):
        score = loaded.evaluate_stream(path)
    assert score.rows == 10
    labelled = ~np.isnan(y)
    assert score.error == np.mean(loaded.predict(X[labelled]) != y[labelled])


def test_a_killed_fit_goes_on_with_the_same_result(tmp_path, monkeypatch):
    X, moon = moons(200, 3)
    y = few_labels(moon)
    settings = {"kernel": None, "learn_hyperparameters": True, "n_active": 20}
    whole = fitted(X, y, **settings)

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(streamgp.training.calibrate, "left_out", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fitted(X, y, checkpoint=tmp_path / "fit", **settings)
    monkeypatch.undo()
    resumed = fitted(X, y, checkpoint=tmp_path / "fit", **settings)
    np.testing.assert_array_equal(resumed.active_rows_, whole.active_rows_)
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))


def test_several_classes_leave_them_out_everywhere(tmp_path):
    generator = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
    truth = generator.integers(0, 3, 900)
    X = centres[truth] + 0.5 * generator.standard_normal((900, 2))
    y = np.where(generator.random(900) < 0.6, truth, -1)
    model = StreamGPClassifier(
        30, likelihood=NullCategory(missing=-1), validation=0.2, class_weight="balanced", random_state=0
    ).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert np.mean(model.predict(X) == truth) > 0.97
    assert model.about_["held_out_rows"] <= 0.2 * np.sum(y >= 0) + 3
    assert model.recipe_.startswith("learn: start -> learn: criterion -> select: ivm")
    streamed = StreamGPClassifier(
        30,
        selection=IVM(candidates=100),
        likelihood=NullCategory(missing=-1),
        random_state=0,
        memory_budget="64MiB",
    ).fit_stream(written(tmp_path / "s.zarr", X, y))
    assert np.mean(streamed.predict(X) == truth) > 0.95
    model.report(tmp_path / "report.html", (X, y))


def test_the_default_refuses_them_and_names_what_does_not():
    X, moon = moons(60, 0)
    y = few_labels(moon)
    with pytest.raises(NonFiniteDataError, match=r"the target.*likelihood=NullCategory\(\)"):
        StreamGPClassifier(10, **FIXED).fit_stream((X, y))
    with pytest.raises(TargetError, match="NullCategory"):
        StreamGPClassifier(10, **FIXED).fit(X, object_labels(y, "ab"))
    with pytest.raises(TargetError, match="has no label"):
        StreamGPClassifier(10, **FIXED).fit(X, masked(y))
    with pytest.raises(TargetError, match="has no label"):
        StreamGPRegressor(10, random_state=0).fit(X, masked(y))


@pytest.mark.parametrize(
    "parameters",
    [
        {"inference": "fitc"},
        {"inference": "local"},
        {"selection": "pass"},
        {"selection": "ivm", "inference": "ep"},
        {"selection": "ivm", "multiclass": "joint"},
        {"selection": "ivm", "learn_hyperparameters": "evidence"},
    ],
)
def test_methods_that_cannot_learn_from_them_are_refused(parameters):
    X, moon = moons(60, 0)
    with pytest.raises(ParameterError, match="NullCategory"):
        fitted(X, few_labels(moon), 10, **parameters)


def test_nothing_but_unlabelled_rows_or_one_class_is_refused():
    X, moon = moons(60, 0)
    with pytest.raises(TargetError, match="no row has a label"):
        fitted(X, np.full(60, np.nan))
    with pytest.raises(TargetError, match=r"all labels are 1\.0"):
        fitted(X, np.where(moon, 1.0, np.nan))
    with pytest.raises(ParameterError, match="partial_fit"):
        StreamGPClassifier(10, likelihood=NullCategory()).partial_fit(X, moon, classes=[0, 1])
