"""A mode by steps of the parts of a large store: near the mode of all rows in few passes, always the same."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import streamgp
from streamgp.data import Span, open_rows
from streamgp.errors import NotConvergedWarning
from streamgp.inference.inducing.basis import make_basis, whiten
from streamgp.inference.inducing.mode import HeldRows, PointTerms, find_mode
from streamgp.persistence import CheckpointFolder
from streamgp.settings import FITC
from streamgp.training.infer import mode, parts
from tests.training.test_fitc import same_bits
from tests.training.test_joint import FIXED, sectors

ROWS, SMALL = 12_000, {**FIXED, "n_active": 60, "memory_budget": "4MiB"}


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of 240 rows, and a sample that leaves rows to others."""
    monkeypatch.setattr(parts, "PART_ROWS", 200)
    monkeypatch.setattr(mode, "SAMPLE_ROWS", 300)


@pytest.fixture
def sorted_store(make_store):
    X, y = sectors(ROWS)
    order = np.argsort(y, kind="stable")  # sorted by class: every part must come from all over the store
    return make_store(X[order], y[order], chunk_rows=240)


def of_mode(model):
    return next(entry for entry in model.history_ if entry["stage"] == "infer: mode")


def loss_of_the_mode(model, new):
    """Log loss of new rows by the mode of all rows in memory, through the model's own inducing inputs."""
    [likelihood], inner = model.likelihood_, model.model_
    terms = PointTerms(likelihood, inner.targets)
    basis = make_basis(model.kernel_, inner.snapshot.active_inputs, np.float32)

    def whitened(X, y):
        features = whiten(basis, inner.standardizer.apply(X, np.float64)).features
        return HeldRows(features, y.astype(float), np.ones(len(y)))

    found = find_mode([whitened(*sectors(ROWS))], terms, n_functions=4, most_steps=60, tolerance=1e-6)
    judges = whitened(*new)
    return -terms(judges.encoded, judges.features @ found.weights).log_density.mean()


def test_few_passes_lead_near_the_mode_of_all_rows(sorted_store, small_parts):
    new = sectors(4000, seed=1)
    near = streamgp.fit_stream(sorted_store, inference=FITC(), **SMALL)
    entry = of_mode(near)
    assert entry["passes"] <= mode.PART_PASSES
    assert entry["converged"]
    assert entry["evaluations"] == entry["passes"] * 50
    assert entry["log_posterior"] is None
    # The mode of the sample, from which it starts, has a loss a quarter larger than that of all rows.
    assert near.evaluate_stream(new).log_loss < 1.1 * loss_of_the_mode(near, new)


@pytest.mark.parametrize(("fresh", "ahead"), [(parts.FRESH, 0), (4, 3)])
def test_interrupted_in_a_pass_and_on_a_cluster_it_is_the_same_model(
    sorted_store, small_parts, tmp_path, monkeypatch, cluster_client, fresh, ahead
):
    monkeypatch.setattr(parts, "FRESH", fresh)
    assert parts.steps_ahead(50) == ahead
    settings = {**SMALL, "inference": FITC(most_sweeps=1)}
    with pytest.warns(NotConvergedWarning, match="the mode was not found"):
        whole = streamgp.fit_stream(sorted_store, **settings)
    saves = 0

    def save(self, *arguments, original=CheckpointFolder.save):
        nonlocal saves
        original(self, *arguments)
        saves += 1
        if saves == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointFolder, "save", save)
        with pytest.raises(KeyboardInterrupt):
            streamgp.fit_stream(sorted_store, checkpoint=tmp_path / "c", **settings)
    for others in ({"checkpoint": tmp_path / "c"}, {"client": cluster_client}):
        with pytest.warns(NotConvergedWarning, match="the mode was not found"):
            same_bits(whole, streamgp.fit_stream(sorted_store, **others, **settings))


def quadratic(generator, count):
    """Parts that each pull to a place of their own; the mean of those is the minimum of all."""
    places = generator.standard_normal((count, 3, 2))
    places -= places.mean(axis=0)
    spans = [[Span(number, number, number + 1)] for number in range(count)]
    return spans, lambda weights, part: weights - places[part[0].number]


def distance(at):
    """From the minimum; the least loss is not zero, as little as that of rows is."""
    return 10.0 + float(np.sum(at**2))


def walked(spans, slope, loss, start, **given):
    settings = {"at_once": 1, "most_passes": 6, "tolerance": 0.01}
    settings |= {"is_late": lambda: False, "save": lambda walk: None}
    walk = parts.Walk.begin(start, loss(start), loss(start))
    order = lambda number: np.random.default_rng(number).permutation(len(spans))  # noqa: E731
    return parts.walk_parts(
        walk, spans, np.eye(3), slope, parts.Judge(loss, loss), order, **{**settings, **given}
    )


def test_the_mean_of_steps_is_nearer_than_the_steps(generator):
    spans, slope = quadratic(generator, 100)
    steps = []
    walk, passes, converged = walked(
        spans,
        slope,
        distance,
        np.full((3, 2), 9.0),
        save=lambda walk: steps.append(np.abs(walk.weights).max()),
    )
    assert converged
    assert passes <= 6
    # After the first pass, within which it comes near, and but for what the last one may have led back to.
    assert np.abs(walk.best).max() < 0.1
    assert 3 * np.abs(walk.best).max() < np.mean(steps[4:-1])


def test_steps_that_are_too_long_are_halved(generator):
    spans, slope = quadratic(generator, 64)
    start = np.full((3, 2), 9.0)
    walk, _, converged = walked(spans, lambda weights, part: 60.0 * slope(weights, part), distance, start)
    assert converged
    assert walk.length < 2 / 60
    assert np.abs(walk.best).max() < 0.6


def test_slopes_side_by_side_change_no_bits(generator):
    spans, slope = quadratic(generator, 256)
    assert parts.steps_ahead(len(spans)) == 3
    asked, meeting = [], threading.Barrier(4)

    def met(weights, part):
        asked.append(part[0].number)
        if len(asked) <= 4:
            meeting.wait(timeout=60)  # until four are under way
        return 30.0 * slope(weights, part)  # so long that some looks lead back

    start = np.full((3, 2), 9.0)
    one, *_ = walked(spans, lambda weights, part: 30.0 * slope(weights, part), distance, start)
    other, *_ = walked(spans, met, distance, start, at_once=4)
    np.testing.assert_array_equal(one.best, other.best)
    np.testing.assert_array_equal(one.weights, other.weights)


def test_passes_that_lose_are_forgotten(generator):
    spans, _ = quadratic(generator, 10)
    start = np.ones((3, 2))
    walk, passes, converged = walked(spans, lambda weights, part: -weights, distance, start)
    np.testing.assert_array_equal(walk.best, start)
    assert (passes, converged, walk.lost) == (2, True, 2)


def test_parts_are_all_spans_each_from_all_over_the_store(monkeypatch):
    monkeypatch.setattr(parts, "PART_ROWS", 10)
    rows = open_rows(np.zeros((1000, 1)), y=None).cut(3)
    found = parts.parts_of(rows, 4)
    assert len(found) == 1000 // 16
    # In spans as small as the store allows, down to a sixteenth of a part: here single rows.
    assert sorted((span.start, span.stop) for part in found for span in part) == [
        (row, row + 1) for row in range(1000)
    ]
    assert all(part[-1].start > 700 and part[0].start < 300 for part in found)
    assert parts.parts_of(rows, 100) == []


def test_a_part_has_whole_chunks_and_enough_of_them_for_many_cores(make_store, monkeypatch):
    monkeypatch.setattr(parts, "PART_ROWS", 10)
    X = np.zeros((20_000, 2))
    store = make_store(X, X[:, 0] > 0, chunk_rows=10)
    rows = open_rows(store).cut(5000)
    found = parts.parts_of(rows, 150)  # 600 rows each
    assert len(found) == 33
    assert all(16 <= len(part) <= 22 for part in found)
    assert all(span.start % 10 == 0 for part in found for span in part)
    assert sum(span.rows for part in found for span in part) == 20_000
