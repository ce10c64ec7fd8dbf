"""Few rows: the fit is an average of all candidates, by what each said about rows it had not seen."""

import pickle

import numpy as np
import pytest
import zarr
from scipy.optimize import minimize

import streamgp
from streamgp import StreamGPClassifier
from streamgp.errors import ModelFileError, NothingLearnedWarning
from streamgp.posterior.model import Model
from streamgp.training.average import PRIOR, averaged_log_loss, averaging_weights


def densities(generator, n=60):
    return {
        name: generator.standard_normal(n) - worse for name, worse in (("a", 0.0), ("b", 0.3), ("c", 0.6))
    }


def test_weights_make_the_unseen_rows_most_probable(generator):
    given, counts = densities(generator), generator.integers(1, 4, 60).astype(float)
    logs = np.array(list(given.values()))

    def penalised(logits):
        weights = np.exp(logits) / np.exp(logits).sum()
        return -(counts @ np.log(weights @ np.exp(logs)) + PRIOR * np.log(weights).sum())

    wanted = np.exp(minimize(penalised, np.zeros(3), tol=1e-12).x)
    found = averaging_weights(given, counts)
    np.testing.assert_allclose(list(found.values()), wanted / wanted.sum(), atol=1e-4)
    mixture = np.array(list(found.values())) @ np.exp(logs)
    np.testing.assert_allclose(
        averaged_log_loss(given, counts, found), -counts @ np.log(mixture) / counts.sum()
    )


def test_a_row_of_weight_two_counts_as_two_rows(generator):
    given = densities(generator)
    twice = averaging_weights({name: np.tile(rows, 2) for name, rows in given.items()}, np.ones(120))
    assert averaging_weights(given, np.full(60, 2.0)) == pytest.approx(twice)


def test_a_candidate_that_says_nothing_true_is_left_out():
    found = averaging_weights({"good": np.zeros(200), "bad": np.full(200, -20.0)}, np.ones(200))
    assert found == {"good": 1.0}


def made(generator, n, kind):
    X = generator.standard_normal((n, 3))
    signal = np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * generator.standard_normal(n)
    if kind == "real":
        return X, signal
    return X, np.digitize(signal, [0.0] if kind == "two" else [-0.7, 0.7])


@pytest.fixture(scope="module", params=["two", "three", "real"])
def fitted(request):
    generator = np.random.default_rng(0)
    model = streamgp.fit_stream(made(generator, 90, request.param), random_state=0)
    return model, made(generator, 300, request.param)


def said(model, X):
    if hasattr(model, "classes_"):
        return model.predict_proba(X)
    return np.column_stack(model.predict(X, return_std=True))


def test_an_average_says_so_and_is_better_than_a_constant(fitted):
    model, new = fitted
    weights = model.history_[0]["weights"]
    assert len(weights) > 1
    assert sum(weights.values()) == pytest.approx(1.0)
    assert "average of 0." in model.recipe_
    score = model.evaluate_stream(new)
    assert score.log_loss < score.baseline.log_loss - 0.05


def test_an_average_is_saved_pickled_and_streamed(fitted, tmp_path):
    model, (X, y) = fitted
    model.save(tmp_path / "model.zip")
    for other in (streamgp.load(tmp_path / "model.zip"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(said(other, X), said(model, X))
        assert other.evaluate_stream((X, y)).log_loss == model.evaluate_stream((X, y)).log_loss
    assert model.predict_latent(X)[0].shape == (
        (300, 3) if len(getattr(model, "classes_", [])) == 3 else (300,)
    )
    model.predict_stream((X, y), tmp_path / "out.zarr")
    written = zarr.open_group(tmp_path / "out.zarr", mode="r")
    if hasattr(model, "classes_"):
        np.testing.assert_allclose(written["probability"][:], model.predict_proba(X), atol=1e-6)
        np.testing.assert_array_equal(model.classes_[written["label"][:]], model.predict(X))
    else:
        np.testing.assert_allclose(written["mean"][:], model.predict(X), atol=1e-12)


@pytest.mark.parametrize("change", [0.1, -2.0, "half", None])
def test_weights_that_are_no_shares_are_refused(fitted, change):
    model, _ = fitted
    header, arrays = model.model_.to_record()
    _, *others = header["weights"]
    header["weights"] = others if change is None else [change, *others]
    with pytest.raises(ModelFileError, match="weights"):
        Model.from_record(header, arrays)


def test_members_that_read_rows_in_other_ways_are_refused(fitted):
    model, _ = fitted
    header, arrays = model.model_.to_record()
    with pytest.raises(ModelFileError, match="same shift"):
        Model.from_record(header, arrays | {"members/1/shift": arrays["members/1/shift"] + 1.0})


def test_a_model_with_a_part_that_was_named_is_no_average(generator):
    X, y = made(generator, 90, "two")
    for part in ({"n_active": 20}, {"inference": "fitc"}, {"max_seconds": 60.0}):
        assert "average" not in StreamGPClassifier(random_state=0, **part).fit(X, y).recipe_


def test_a_finished_average_is_resumed_as_it_was(generator, tmp_path):
    X, y = made(generator, 60, "two")
    first, again = (
        StreamGPClassifier(random_state=0, checkpoint=tmp_path / "kept").fit(X, y) for _ in range(2)
    )
    np.testing.assert_array_equal(first.predict_proba(X), again.predict_proba(X))
    assert first.history_[0] == again.history_[0]


def test_an_average_that_learned_nothing_says_so(generator):
    X = generator.standard_normal((150, 3))
    y = generator.integers(2, size=150)
    with pytest.warns(NothingLearnedWarning, match="150 rows, each left out"):
        model = streamgp.fit_stream((X, y), random_state=1)
    assert model.history_[0]["average"] > model.history_[0]["log_losses"]["constant"] - 0.02


def test_copies_of_few_rows_are_not_worse_than_a_constant(generator):
    X, y = made(generator, 40, "two")
    model = streamgp.fit_stream((np.repeat(X, 20, axis=0), np.repeat(y, 20)), random_state=0)
    score = model.evaluate_stream(made(generator, 500, "two"))
    assert score.log_loss < score.baseline.log_loss
