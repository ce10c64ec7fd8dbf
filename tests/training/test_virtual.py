"""Virtual rows: transformations, the second selection, its names, rows left out with their twins."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import dask.array
import numpy as np
import pytest

import streamgp
from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.errors import CheckpointError, ParameterError
from streamgp.inference import filter_sites
from streamgp.inference.families import without_families
from streamgp.kernels import RBF
from streamgp.likelihoods import Gaussian, NullCategory, Probit
from streamgp.selection import FPASS, IVM, PASS, rotate, translate
from streamgp.settings import ADF, FITC, Local, parameter_from_json, parameter_to_json
from streamgp.training.heads import active_set
from tests.reference import gp_dense

SIDE = 8


def bars(rows, seed=0):
    """Images of one bar, upright or lying, anywhere: a shift does not change the class."""
    generator = np.random.default_rng(seed)
    images = 0.3 * generator.standard_normal((rows, SIDE, SIDE))
    y = generator.integers(0, 2, rows)
    for image, label, place in zip(images, y, generator.integers(1, SIDE - 1, rows), strict=True):
        image[(slice(None), place) if label else (place, slice(None))] += 1.0
    return images.reshape(rows, -1), y


def fitted(selection, rows=150, n_active=30, **parameters):
    X, y = bars(rows)
    settings = {"kernel": RBF(10.0, 8.0), "learn_hyperparameters": False, "random_state": 0}
    return StreamGPClassifier(n_active, selection=selection, **settings | parameters).fit(X, y)


def test_translations_are_those_of_pixels():
    image = np.arange(16.0).reshape(1, 16)
    up, left, right, down = translate(shape=(4, 4))(image).reshape(4, 4, 4)
    square = image.reshape(4, 4)
    np.testing.assert_array_equal(up[:-1], square[1:])
    np.testing.assert_array_equal(down[1:], square[:-1])
    np.testing.assert_array_equal(left[:, :-1], square[:, 1:])
    np.testing.assert_array_equal(right[:, 1:], square[:, :-1])
    np.testing.assert_array_equal(up[-1], square[-1])
    assert translate(shape=(4, 4), diagonals=True)(image).shape == (8, 1, 16)


def test_rotations_turn_and_turn_back():
    generator = np.random.default_rng(0)
    image = np.zeros((1, 81))
    image[0, [31, 40, 49]] = generator.uniform(1, 2, 3)
    quarter = rotate(shape=(9, 9), degrees=(90.0, -90.0))(image)
    np.testing.assert_allclose(quarter[0].reshape(9, 9), np.rot90(image.reshape(9, 9)), atol=1e-12)
    np.testing.assert_allclose(quarter[1].reshape(9, 9), np.rot90(image.reshape(9, 9), -1), atol=1e-12)


SHIFTED = IVM(virtual=translate(shape=(SIDE, SIDE)))
EXTRA = FITC(residual=1.0, power=1.0, learn_inducing=False, virtual_rows=True)
FIXED = {"kernel": RBF(1.0, 8.0), "learn_hyperparameters": False, "validation": False, "random_state": 0}

SELECTIONS = [
    IVM(virtual=translate(shape=(SIDE, SIDE))),
    PASS(n_init=20, block_rows=60, virtual=translate(shape=(SIDE, SIDE))),
    FPASS(block_rows=60, virtual=translate(shape=(SIDE, SIDE))),
    PASS.paper(n_init=20, block_rows=60, virtual=translate(shape=(SIDE, SIDE)), p_inc_virtual=0.55),
]


@pytest.mark.parametrize("selection", SELECTIONS, ids=lambda each: type(each).__name__)
def test_active_rows_are_named_by_row_and_transformation(selection):
    X, _ = bars(150)
    model = fitted(selection, n_active=200 if isinstance(selection, PASS) else 30)
    rows, version = model.active_rows_.T
    assert version.max() <= 4
    assert np.unique(version).size > 1
    made = np.concatenate([X[None], translate(shape=(SIDE, SIDE))(X)])
    expected = model.model_.standardizer.apply(made[version, rows], np.float64)
    np.testing.assert_allclose(model.model_.snapshot.active_inputs, expected, atol=1e-6)
    assert "select: virtual" in model.recipe_


def test_a_few_rows_with_their_shifts_know_more_than_without():
    X, y = bars(1000, seed=1)
    plain = fitted(IVM(), rows=30, n_active=30)
    shifted = fitted(IVM(virtual=translate(shape=(SIDE, SIDE))), rows=30, n_active=30)
    assert shifted.score(X, y) > plain.score(X, y) + 0.02


def test_the_first_selection_may_be_smaller():
    model = fitted(IVM(virtual=translate(shape=(SIDE, SIDE)), n_first=12), n_active=40)
    rows, _ = model.active_rows_.T
    assert len(rows) == 40
    assert len(np.unique(rows)) <= 12
    with pytest.raises(ParameterError, match="n_first"):
        IVM(n_first=12)


def test_candidates_of_the_second_selection_are_as_many_as_of_the_first():
    few = IVM(virtual=translate(shape=(SIDE, SIDE)), candidates=80)
    history = fitted(few, rows=6000, n_active=60, validation=False).history_
    first, second = history[1], history[3]
    assert (first["stage"], second["inner"]) == ("select: ivm", "select: ivm")
    assert (first["rows_read"], second["rows_read"]) == (6000, second["enlarged_rows"])
    # The best rows, and a share at random, some of which may be among them.
    assert second["candidates"] > 0.9 * first["candidates"]


@pytest.mark.parametrize("selection", SELECTIONS[1:], ids=lambda each: type(each).__name__)
def test_chunks_do_not_matter_to_predictive_selections_of_versions(make_store, selection):
    X, y = bars(150)
    n_active = 200 if isinstance(selection, PASS) else 30
    whole = fitted(selection, n_active=n_active)
    settings = {"kernel": RBF(10.0, 8.0), "learn_hyperparameters": False, "random_state": 0}
    streamed = streamgp.fit_stream(
        make_store(X, y, chunk_rows=40), n_active=n_active, selection=selection, **settings
    )
    np.testing.assert_array_equal(streamed.active_rows_, whole.active_rows_)


def test_versions_are_inducing_inputs_of_local_blocks_and_of_rows_without_labels():
    X, y = bars(120)
    local = StreamGPClassifier(20, selection=SHIFTED, inference=Local(block_rows=40), **FIXED).fit(X, y)
    assert local.active_rows_.shape == (20, 2)
    assert local.score(X, y) > 0.9
    few = np.where(np.arange(120) % 2, y, np.nan)
    unlabelled = StreamGPClassifier(20, selection=SHIFTED, likelihood=NullCategory(), **FIXED).fit(X, few)
    assert unlabelled.active_rows_.shape == (20, 2)


def test_several_classes_and_a_function_of_the_users(make_store):
    X, y = bars(200)
    y = y + 2 * (X.mean(axis=1) > np.median(X.mean(axis=1)))
    store = make_store(X, y, chunk_rows=50)

    def mirrored(rows):
        return rows.reshape(-1, SIDE, SIDE)[None, :, ::-1].reshape(1, len(rows), -1)

    model = streamgp.fit_stream(
        store, n_active=25, selection=IVM(virtual=mirrored), learn_hyperparameters=False, random_state=0
    )
    assert model.active_rows_.shape == (100, 2)
    assert set(np.unique(model.active_rows_[:, 1])) == {0, 1}
    in_one_piece = streamgp.fit_stream(
        make_store(X, y, chunk_rows=200),
        n_active=25,
        selection=IVM(virtual=mirrored),
        learn_hyperparameters=False,
        random_state=0,
    )
    np.testing.assert_array_equal(model.active_rows_, in_one_piece.active_rows_)


def test_the_multiway_ivm_chooses_among_versions_of_all_classes(make_store):
    X, y = bars(100, seed=1)
    y = y + 2 * (X.reshape(-1, SIDE, SIDE)[:, 0].mean(axis=1) > 0)
    settings = {"learn_hyperparameters": False, "multiclass": "joint", "random_state": 0}
    settings["kernel"] = RBF(10.0, 8.0)
    model = StreamGPClassifier(20, selection=SHIFTED, **settings).fit(X, y)
    assert model.recipe_ == "select: multi-way ivm -> select: virtual"
    rows, version = model.active_rows_.T
    assert len(rows) == 80
    assert np.unique(version).size > 1
    made = np.concatenate([X[None], translate(shape=(SIDE, SIDE))(X)])
    expected = model.model_.standardizer.apply(made[version, rows], np.float64)
    np.testing.assert_allclose(model.model_.snapshot.active_inputs, expected, atol=1e-6)
    streamed = StreamGPClassifier(20, selection=SHIFTED, **settings)
    streamed.fit_stream(make_store(X, y, chunk_rows=30))
    np.testing.assert_array_equal(streamed.active_rows_, model.active_rows_)
    fewer = replace(SHIFTED, n_first=8)
    assert len(StreamGPClassifier(20, selection=fewer, **settings).fit(X, y).active_rows_) == 80
    settings["kernel"] = [RBF(10.0, 8.0), *[RBF(9.0, 8.0)] * 3]
    each = StreamGPClassifier(20, selection=SHIFTED, **settings).fit(X, y)
    assert len(each.kernel_) == 4
    assert each.active_rows_.shape == (80, 2)


def test_virtual_inducing_inputs_and_real_targets():
    X, y = bars(300)
    model = StreamGPClassifier(
        25, selection=IVM(virtual=translate(shape=(SIDE, SIDE))), inference="fitc", kernel=RBF(10.0, 8.0),
        learn_hyperparameters=False, random_state=0,
    ).fit(X, y)  # fmt: skip
    assert model.active_rows_.shape == (25, 2)
    assert model.score(X, y) > 0.9
    real = StreamGPRegressor(
        25, selection=IVM(virtual=translate(shape=(SIDE, SIDE))), kernel=RBF(1.0, 8.0),
        learn_hyperparameters=False, random_state=0,
    ).fit(X, y + 5.0)  # fmt: skip
    assert real.active_rows_.shape == (25, 2)
    assert abs(real.predict(X).mean() - (y + 5.0).mean()) < 0.1


def test_extra_rows_are_rows_of_inference():
    X, y = bars(120)
    y = y + 0.1 * np.random.default_rng(3).standard_normal(120)
    model = StreamGPRegressor(12, selection=SHIFTED, inference=EXTRA, likelihood=Gaussian(0.1), **FIXED).fit(
        X, y
    )
    chosen = np.unique(model.active_rows_[:, 0])
    assert model.history_[-1]["extra_rows"] == 4 * len(chosen)
    # FITC by the book, of the rows of the store and the shifted ones.
    standard = model.model_.standardizer.apply
    rows = np.concatenate([X, translate(shape=(SIDE, SIDE))(X[chosen]).reshape(-1, SIDE**2)])
    rows, new = (standard(part, np.float64) for part in (rows, bars(20, seed=9)[0]))
    targets = (np.append(y, np.tile(y[chosen], 4)) - y.mean()) / y.std()
    inducing, kernel = model.model_.snapshot.active_inputs, FIXED["kernel"]
    gram = kernel.gram(inducing)
    weights = np.linalg.solve(gram, kernel.block(inducing, rows)).T
    explained = weights @ gram @ weights.T
    noise = np.diag(1.0 - np.diag(explained) + 0.1)
    dual = np.linalg.solve(explained + noise, targets)
    expected = y.mean() + y.std() * kernel.block(new, inducing) @ weights.T @ dual
    np.testing.assert_allclose(model.predict(bars(20, seed=9)[0]), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["store", "dask"])
def test_extra_rows_follow_those_of_a_store(make_store, kind, tmp_path):
    X, y = bars(130)
    settings = {**FIXED, "kernel": RBF(10.0, 8.0), "selection": SHIFTED, "inference": EXTRA}
    in_memory = StreamGPClassifier(15, **settings).fit(X, y)
    dask_pair = dask.array.from_array(X, chunks=(40, -1)), dask.array.from_array(y, chunks=40)
    data = make_store(X, y, chunk_rows=40) if kind == "store" else dask_pair
    settings |= {"checkpoint": tmp_path / "fit", "class_weight": "balanced", "scratch": tmp_path}
    streamed = StreamGPClassifier(15, **settings).fit_stream(data)
    weighted = StreamGPClassifier(15, **settings | {"checkpoint": None}).fit(X, y)
    np.testing.assert_array_equal(streamed.active_rows_, weighted.active_rows_)
    np.testing.assert_allclose(streamed.predict_proba(X), weighted.predict_proba(X), atol=1e-4)
    without = replace(EXTRA, virtual_rows=False)
    fewer = StreamGPClassifier(15, **{**FIXED, **settings, "inference": without, "checkpoint": None}).fit(
        X, y
    )
    assert np.abs(fewer.predict_proba(X) - weighted.predict_proba(X)).max() > 1e-3
    assert in_memory.score(X, y) > 0.9


def test_a_killed_fit_goes_on_with_the_same_result(tmp_path, monkeypatch):
    selection = FPASS(block_rows=60, virtual=translate(shape=(SIDE, SIDE)))
    whole = fitted(selection)
    module = streamgp.training.select.virtual
    real, calls = module._enlarged, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(module, "_enlarged", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fitted(selection, checkpoint=tmp_path / "fit")
    monkeypatch.undo()
    resumed = fitted(selection, checkpoint=tmp_path / "fit")
    X, _ = bars(100, seed=5)
    np.testing.assert_array_equal(resumed.active_rows_, whole.active_rows_)
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))


def rolled(rows, by):
    return np.roll(rows, by, axis=1)[None]


def test_a_checkpoint_belongs_to_what_a_function_does_not_to_its_name(tmp_path):
    def selection(by):
        return IVM(virtual=partial(rolled, by=by))

    assert repr(selection(1)) == repr(selection(3))
    fitted(selection(1), rows=60, checkpoint=tmp_path / "fit")
    with pytest.raises(CheckpointError, match="virtual"):
        fitted(selection(3), rows=60, checkpoint=tmp_path / "fit")


def test_sweeps_over_extra_rows_go_on_where_they_were_killed(tmp_path, monkeypatch):
    settings = {"inference": EXTRA, "n_active": 15, "validation": False}
    whole = fitted(SHIFTED, **settings)
    module = streamgp.training.infer.extra_rows
    real, calls = module._extended, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(module, "_extended", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fitted(SHIFTED, checkpoint=tmp_path / "fit", **settings)
    monkeypatch.undo()
    resumed = fitted(SHIFTED, checkpoint=tmp_path / "fit", **settings)
    X, _ = bars(100, seed=5)
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))


def test_a_row_is_left_out_with_all_its_versions():
    generator = np.random.default_rng(0)
    inputs = generator.standard_normal((9, 2))
    families = np.array([0, 0, 1, 2, 2, 2, 3, 4, 0])
    targets = np.sign(generator.standard_normal(9))
    kernel = RBF(3.0, 1.2)
    sites = filter_sites(kernel.gram(inputs), targets, Probit())
    active = active_set(np.arange(9), inputs, targets, sites)
    rows, own = generator.standard_normal((4, 2)), np.array([2, 0, 4, 9])
    rows[2] = inputs[7]  # the row itself is active
    mean, variance = without_families(kernel, active, families, rows, own)
    for place, family in enumerate(own):
        others = families != family
        expected = gp_dense.posterior_marginals(
            kernel.gram(inputs[others]),
            kernel.block(rows[place : place + 1], inputs[others]),
            kernel.diagonal(rows[place : place + 1]),
            sites.precision[others],
            sites.precision_mean[others],
        )
        np.testing.assert_allclose([mean[place], variance[place]], np.ravel(expected), rtol=1e-8)


def test_a_saved_model_knows_its_settings_and_rows(tmp_path):
    model = fitted(IVM(virtual=translate(shape=(SIDE, SIDE))))
    model.save(tmp_path / "model")
    loaded = streamgp.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.active_rows_, model.active_rows_)
    assert loaded.selection == model.selection
    turned = PASS(virtual=rotate(shape=(4, 4)))
    assert parameter_from_json(parameter_to_json(turned)) == turned
    assert parameter_to_json(IVM(virtual=np.fliplr)) is None


def test_what_cannot_be_is_refused():
    with pytest.raises(ParameterError, match="64 features, not 5"):
        translate(shape=(8, 8))(np.zeros((1, 5)))
    with pytest.raises(ParameterError, match="by must be"):
        translate(shape=(8, 8), by=9)
    with pytest.raises(ParameterError, match="shape must be"):
        translate(shape=8)
    with pytest.raises(ParameterError, match="other than 0"):
        rotate(shape=(8, 8), degrees=(0.0,))
    with pytest.raises(ParameterError, match="virtual must be"):
        IVM(virtual="shift")
    with pytest.raises(ParameterError, match=r"p_inc_virtual=0\.5 goes only with virtual"):
        PASS(p_inc_virtual=0.5)
    with pytest.raises(
        ParameterError, match=r"FITC\(virtual_rows=True\) goes only with a selection that has"
    ):
        fitted(IVM(), inference=EXTRA)
    with pytest.raises(ParameterError, match="it must give k versions"):
        fitted(IVM(virtual=lambda rows: rows), inference=ADF())
