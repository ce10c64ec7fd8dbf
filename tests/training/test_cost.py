"""What there is time for: costs by the shape of the data, at rates that are given."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import streamgp
from streamgp import StreamGPClassifier
from streamgp.data import ClassTargets
from streamgp.kernels import RBF
from streamgp.passes.candidates import Pool
from streamgp.settings import fit_settings
from streamgp.training import contest, trial
from streamgp.training.auto import Shape, candidates
from streamgp.training.cost import Clock, affordable, measured_rate, multiply_adds

SHAPE = Shape(100_000, 20, 2)
RATE = 1e10
ALL = ["constant", "linear model", "inducing inputs", "local blocks"]


def options(shape=SHAPE):
    return candidates(fit_settings(StreamGPClassifier().get_params(deep=False), seed=0), shape)


def chosen(seconds, rate=RATE):
    found = affordable(options(), SHAPE, 8000, seconds, rate)
    return [option.name for option in found.options], found.trial_rows, found.options[-1].settings.n_active


def test_costs_grow_with_rows_features_classes_and_from_simple_to_large():
    costs = [multiply_adds(option, SHAPE) for option in options()]
    assert costs == sorted(costs)
    for other in (replace(SHAPE, n_rows=200_000), replace(SHAPE, n_features=200)):
        assert all(multiply_adds(option, other) > cost for option, cost in zip(options(), costs, strict=True))
    many = replace(SHAPE, n_classes=8)
    larger = [multiply_adds(option, many) for option in options(many)]
    assert all(more > cost for more, cost in zip(larger, costs, strict=True))


def test_less_time_means_fewer_trial_rows_then_fewer_candidates_then_no_trial():
    assert chosen(1e6) == (ALL, 8000, 300)
    ways = [chosen(seconds) for seconds in np.geomspace(1e4, 1e-6, 600)]
    told = list(dict.fromkeys((tuple(names), rows > 0) for names, rows, _ in ways))
    assert told == [
        (tuple(ALL), True),
        (tuple(ALL[:3]), True),
        (("inducing inputs",), False),
        (("constant", "linear model"), True),
        (("constant",), False),
    ]
    assert any(names == ALL and rows < 8000 for names, rows, _ in ways)
    alone = [size for names, _, size in ways if names == ["inducing inputs"]]
    assert alone == sorted(alone, reverse=True)
    assert alone[-1] < alone[0]  # smaller, not half-finished


def test_a_faster_machine_does_more():
    assert chosen(20.0, 1e10) == chosen(2.0, 1e11)
    assert len(chosen(3.0, 1e12)[0]) > len(chosen(3.0, 1e9)[0])


def test_what_is_chosen_without_a_trial_fits_the_time_or_is_the_simplest():
    for seconds in np.geomspace(100, 1e-4, 25):
        found = affordable(options(), SHAPE, 8000, seconds, RATE)
        if not found.trial_rows and found.options[0].name != "constant":
            assert multiply_adds(found.options[0], SHAPE) <= seconds * RATE


def test_the_rate_counts_products_in_the_time_they_take():
    ticks = iter(np.arange(0.0, 10.0, 0.01))
    assert measured_rate(lambda: next(ticks)) == pytest.approx(2 * 384**3 / 0.03, rel=0.5)


def test_no_time_gives_a_finished_simple_model_that_says_so(generator, tmp_path):
    X = generator.standard_normal((900, 3))
    y = (X[:, 0] > 0).astype(int)
    model = streamgp.fit_stream((X, y), random_state=0, max_seconds=0.0, checkpoint=tmp_path)
    assert "constant, chosen by max_seconds without a trial" in model.recipe_
    assert "no time for linear model, inducing inputs, local blocks" in model.recipe_
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], y.mean(), atol=0.05)
    # A resumed fit keeps to what was chosen, whatever time it is given.
    again = streamgp.fit_stream((X, y), random_state=0, max_seconds=1e6, checkpoint=tmp_path)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_a_mode_over_a_store_needs_no_square_of_inducing_inputs():
    """Where memory does not hold whitened rows, a pass costs rows times inducing inputs times features."""

    def cost(n_rows, n_active, memory_budget):
        given = replace(options()[2].settings, n_active=n_active, memory_budget=memory_budget)
        return multiply_adds(options()[2]._replace(settings=given), replace(SHAPE, n_rows=n_rows))

    few, many = cost(10**7, 500, "256MiB"), cost(10**7, 1000, "256MiB")
    assert many < 2.0 * few  # learning is part of both
    held = cost(10**5, 1000, "4GiB"), cost(10**5, 2000, "4GiB")
    assert held[1] > 2.1 * held[0]
    # Steps by parts of a very large store take fewer passes than a search over a smaller one.
    assert cost(10**6, 500, "64MiB") / 10**6 < cost(10**5, 500, "64MiB") / 10**5


def test_where_blocks_are_too_dear_inducing_inputs_that_they_contain_are_tried(generator, monkeypatch):
    X = generator.standard_normal((1500, 3))
    # A machine so slow that there is time for 4e10 multiply-adds: what it is does not matter to the choice.
    monkeypatch.setattr(trial, "measured_rate", lambda: 4e4)
    model = streamgp.fit_stream((X, np.sin(2 * X[:, 0])), random_state=0, max_seconds=1e6)
    assert model.history_[0]["left_out"] == ["local blocks"]
    assert "inducing inputs" in model.recipe_
    assert model.score(X, np.sin(2 * X[:, 0])) > 0.9


LOSSES = dict(zip(ALL, (0.7, 0.6, 0.3, 0.2), strict=True))


def held(monkeypatch, seconds, slower):
    """A contest on a clock of its own, where every fit takes ``slower`` times what costs say."""
    now, limits, work = [0.0], [], iter(options())
    shape = replace(SHAPE, n_rows=2000)
    said = {option.name: multiply_adds(option, shape) / RATE for option in options()}
    fits = {option.name: multiply_adds(option, SHAPE) / RATE for option in options()}
    clock = Clock(seconds, RATE, fits, lambda: now[0])

    def fitted(given, prepared, part, weights, fit):
        limits.append((given.max_seconds, clock.left))
        name = next(work).name
        now[0] += slower * said[name]
        snapshot = SimpleNamespace(kernel=RBF())
        return SimpleNamespace(name=name, snapshot=snapshot, predictive=SimpleNamespace(likelihoods=()))

    def densities(model, part, weights):
        return np.full(9, -LOSSES[model.name]), np.ones(9)

    monkeypatch.setattr(contest, "_fitted", fitted)
    monkeypatch.setattr(contest, "_log_densities", densities)
    monkeypatch.setattr(contest, "row_weights", lambda prepared, given: None)
    pool = Pool(np.arange(2000), np.zeros((2000, 0)), np.zeros(2000), np.zeros(2000), np.zeros((2000, 0)))
    prepared = SimpleNamespace(
        targets=ClassTargets(np.array([0, 1])),
        rows=SimpleNamespace(n_features=20),
        standardizer=SimpleNamespace(is_common=False),
    )
    limited = [one._replace(settings=replace(one.settings, max_seconds=seconds)) for one in options()]
    found = contest.hold_contest(limited, prepared, [contest.Part(pool, pool)], None, clock=clock)
    assert all(limit == pytest.approx(left) for limit, left in limits)
    return found


def test_a_trial_looks_at_the_clock(monkeypatch):
    whole = sum(
        multiply_adds(option, shape) / RATE
        for shape in (SHAPE, replace(SHAPE, n_rows=2000))
        for option in options()
    )
    in_time = held(monkeypatch, whole, slower=1.0)
    assert (in_time.chosen, in_time.left_out) == ("local blocks", [])
    # What takes twice the time that was thought is not begun where the fit would not end.
    dearest = multiply_adds(options()[-1], SHAPE) / RATE
    hurried = held(monkeypatch, 2.0 * dearest, slower=2.0)
    assert (hurried.chosen, hurried.left_out) == ("inducing inputs", ["local blocks"])
    assert "local blocks" not in hurried.log_losses
    assert "no time for local blocks" in hurried.sentence()


def test_what_was_tried_but_has_no_time_left_for_its_fit_does_not_win(monkeypatch):
    small, dear = (multiply_adds(options()[-1], replace(SHAPE, n_rows=rows)) / RATE for rows in (2000, 10**5))
    costs = {option.name: multiply_adds(option, replace(SHAPE, n_rows=2000)) / RATE for option in options()}
    # That blocks take longer than foretold is known once they were tried.
    found = held(monkeypatch, sum(costs.values()) + 1.001 * dear, slower=1.0)
    assert found.chosen == "local blocks"
    monkeypatch.setattr(contest, "TOLD_SECONDS", 0.99 * small)
    late = held(monkeypatch, sum(costs.values()) + 1.35 * dear, slower=1.5)
    assert late.chosen == "inducing inputs"
    assert "local blocks" in late.log_losses
    assert late.left_out == ["local blocks"]
