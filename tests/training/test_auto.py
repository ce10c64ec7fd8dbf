"""What "auto" chooses: rules by the shape of data, a trial that rows outside of it decide, and its record."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import streamgp
from streamgp import StreamGPClassifier
from streamgp.data import open_rows
from streamgp.errors import BudgetError, CheckpointError, ParameterError
from streamgp.kernels import RBF
from streamgp.likelihoods import Logit
from streamgp.passes.candidates import Pool
from streamgp.settings import FITC, IVM, Kmeans, Local, fit_settings
from streamgp.training import contest, trial
from streamgp.training.auto import (
    LINE,
    MOST_EXACT,
    MOST_INDUCING,
    Shape,
    candidates,
    with_size,
    worth_trying,
)
from streamgp.training.contest import FOLDS, Part, divided, folds
from streamgp.training.rare import by_share
from streamgp.training.trial import FEWEST_FOLDED
from streamgp.training.verdict import Trial


def settings(**parameters):
    return fit_settings(StreamGPClassifier(**parameters).get_params(deep=False), seed=0)


def xor(generator, n, noise=0.0):
    X = generator.standard_normal((n, 3))
    wrong = generator.random(n) < noise
    return X, np.where((X[:, 0] * X[:, 1] > 0) ^ wrong, "same", "other")


@pytest.mark.parametrize(
    ("parameters", "selection", "inference"),
    [
        ({"selection": "ivm"}, "IVM", "ADF"),
        ({"selection": "fpass"}, "FPASS", "EP"),
        ({"inference": "fitc"}, "Kmeans", "FITC"),
        ({"inference": "ep"}, "IVM", "EP"),
        ({"multiclass": "per_class"}, "IVM", "ADF"),
        ({"multiclass": "joint"}, "Kmeans", "FITC"),
        ({"learn_hyperparameters": "hybrid"}, "IVM", "ADF"),
        ({"learn_hyperparameters": "evidence"}, "Kmeans", "FITC"),
    ],
)
def test_one_wish_implies_the_others(parameters, selection, inference):
    found = settings(**parameters)
    assert (type(found.selection).__name__, type(found.inference).__name__) == (selection, inference)
    assert not found.method_is_open
    assert found.size_is_open


def test_only_what_is_left_out_is_open():
    assert settings().method_is_open
    assert not settings(n_active=30).size_is_open
    assert settings(n_active=30).method_is_open
    with pytest.raises(ParameterError, match="n_active must be an integer of at least 1, not 'many'"):
        settings(n_active="many")


def test_candidates_go_from_simple_to_large_and_leave_nothing_open():
    for classes in (0, 2, 5):
        found = candidates(settings(), Shape(20_000, 8, classes))
        names = ["constant", "linear model", "inducing inputs", "local blocks"]
        assert [option.name for option in found] == names
        tried = [option.name for option in worth_trying(found, Shape(20_000, 8, classes))]
        assert tried == (names if classes else [*names[:2], "local blocks"])
        assert not any(option.settings.method_is_open or option.settings.size_is_open for option in found)
        assert {option.settings.multiclass for option in found[:-1]} == {"joint" if classes else "auto"}
    wide = Shape(20_000, 500, 0)
    assert [option.name for option in worth_trying(candidates(settings(), wide), wide)] == names[:3]
    assert "local blocks" in [option.name for option in candidates(settings(), Shape(2000, 200, 2))]
    pixels = Shape(2000, 200, 2, has_common_scale=True)
    assert "local blocks" not in [option.name for option in candidates(settings(), pixels)]


def test_of_few_rows_an_exact_model_with_one_lengthscale_is_tried():
    def tried(shape, **given):
        return [option.name for option in worth_trying(candidates(settings(**given), shape), shape)]

    simple = ["constant", "linear model"]
    for classes in (0, 2):
        assert tried(Shape(MOST_EXACT, 4, classes)) == [*simple, "small exact model", "local blocks"]
    assert "small exact model" not in tried(Shape(MOST_EXACT + 1, 4, 2))
    assert tried(Shape(MOST_EXACT, 4, 3)) == [*simple, "inducing inputs", "local blocks"]
    assert tried(Shape(100, 4, 2), kernel=RBF(1.0, 1.0)) == ["inducing inputs", "local blocks"]


def test_a_kernel_or_likelihood_that_is_given_is_kept():
    given = settings(kernel=RBF(2.0, 0.5), likelihood=Logit())
    found = candidates(given, Shape(20_000, 8, 2))
    assert "linear model" not in [option.name for option in found]
    assert all(option.settings.kernel == RBF(2.0, 0.5) for option in found)
    assert all(
        option.settings.multiclass == "auto" for option in found
    )  # a joint mode has its own likelihood


def test_sizes_follow_the_rows_and_the_price_of_a_pass():
    def size(n_rows):
        return with_size(
            replace(settings(), inference=FITC(), selection=Kmeans()), Shape(n_rows, 8, 2)
        ).n_active

    assert size(30) == 30
    assert size(10**5) == MOST_INDUCING
    assert size(10**7) == 1000
    assert with_size(replace(settings(), selection=IVM()), Shape(100, 2, 2)).n_active <= 100
    assert with_size(settings(n_active=7), Shape(10**5, 8, 2)).n_active == 7


def test_a_trial_chooses_by_rows_outside_of_it_and_says_so(generator, tmp_path):
    X, y = xor(generator, 900)
    model = streamgp.fit_stream((X, y), random_state=0, checkpoint=tmp_path / "c")
    assert model.score(*xor(generator, 500)) > 0.9
    found = model.history_[0]
    assert found["stage"] == "trial"
    assert found["chosen"] != "linear model"
    assert found["log_losses"]["linear model"] > 0.6 > found["log_losses"][found["chosen"]]
    assert f"{found['chosen']}: held-out log loss" in model.recipe_
    # The verdict is part of the checkpoint: it is not made again, nor used for other data.
    again = streamgp.fit_stream((X, y), random_state=0, checkpoint=tmp_path / "c")
    assert again.history_ == model.history_
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    with pytest.raises(CheckpointError, match="another training"):
        streamgp.fit_stream((X, y[::-1].copy()), random_state=0, checkpoint=tmp_path / "c")
    model.save(tmp_path / "model.zip")
    assert streamgp.load(tmp_path / "model.zip").recipe_ == model.recipe_


def test_where_a_line_is_enough_the_model_is_a_line(generator):
    X = generator.standard_normal((800, 4))
    y = X @ [1.0, -2.0, 0.5, 0.0] + 0.3 * generator.standard_normal(800)
    model = streamgp.fit_stream((X, y), random_state=0)
    assert model.history_[0]["chosen"] == "linear model"
    assert abs(model.evaluate_stream((X, y)).rmse - 0.3) < 0.03


@pytest.mark.parametrize(
    ("rows", "is_decided", "sizes"),
    [
        (8000, False, [100, 400, 1600]),
        (4000, False, [100, 400]),
        (4000, True, [100]),
        (450, False, [100]),
    ],
)
def test_a_tie_is_tried_again_where_there_are_more_rows(generator, monkeypatch, rows, is_decided, sizes):
    tried, ties = [], []

    def tie(options, prepared, parts, fit, errors, many_more, averages, clock):
        assert not averages
        learners = parts[0].learners
        tried.append(len(learners.rows))
        ties.append(errors)
        assert many_more == (errors == 0.0)
        model = fit(
            open_rows((learners.features, learners.targets.astype(int))),
            "classification",
            options[0].settings,
        ).model
        kernel, likelihood = model.snapshot.kernel.to_json(), model.predictive.likelihoods[0].to_json()
        losses = {"linear model": 0.5, "local blocks": 0.49}
        found = Trial("linear model", losses, kernel, likelihood, len(learners.rows), 1.0)
        return found._replace(is_decided=is_decided)

    monkeypatch.setattr(trial, "SAMPLE_ROWS", 100)
    monkeypatch.setattr(trial, "FEWEST_ROWS", 100)
    monkeypatch.setattr(trial, "hold_contest", tie)
    model = streamgp.fit_stream(xor(generator, rows), random_state=0)
    assert tried == pytest.approx(sizes, rel=0.05)
    # In a store of many more rows the lower loss wins; else the simpler of two that are as good.
    assert ties == [0.0 if 8 * size <= rows else 1.0 for size in tried]
    assert model.history_[0]["seconds"] >= len(sizes)  # those of all trials, and of drawing their rows


@pytest.mark.parametrize(("worse", "expected"), [(0.001, "local blocks"), (0.1, "inducing inputs")])
def test_with_many_more_rows_blocks_are_taken_unless_they_are_clearly_worse(generator, worse, expected):
    best = generator.standard_normal(1000)
    densities = {
        "linear model": best - 1.0,
        "inducing inputs": best,
        "local blocks": best - worse + 0.1 * generator.standard_normal(1000),
    }
    assert contest._with_many_more("inducing inputs", densities) == expected
    assert contest._with_many_more("linear model", densities) == "linear model"


def test_every_one_of_few_rows_judges_once_and_no_fold_decides_what_is_learned(generator):
    X, y = xor(generator, 120)
    model = streamgp.fit_stream((X, y), random_state=0)
    assert model.history_[0]["chosen"] not in ("constant", "linear model")
    assert model.history_[0]["rows"] == 0
    assert any(entry["stage"].startswith("learn") for entry in model.history_)
    assert model.score(*xor(generator, 500)) > 0.7


def test_rows_too_few_for_folds_are_not_divided(generator):
    for rows in (xor(generator, FEWEST_FOLDED - 1), (np.eye(30), np.arange(30))):
        model = streamgp.fit_stream(rows, random_state=0)
        assert "trial" not in [entry["stage"] for entry in model.history_]


@pytest.mark.parametrize("others", [1, 2])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_class_of_fewer_rows_than_folds_does_not_forbid_a_trial(generator, others, classes):
    X = generator.standard_normal((60, 3))
    y = (X[:, 0] > 0).astype(int) if classes == 3 else np.zeros(60, int)
    y[:others] = 2
    model = streamgp.fit_stream((X, y), random_state=0)
    found = model.history_[0]
    assert found["stage"] == "trial"
    assert found["log_losses"].keys() >= {"constant", "linear model", "local blocks"}
    assert len(model.classes_) == classes


@pytest.mark.parametrize("n_classes", [0, 3])
def test_folds_judge_each_row_once_and_have_all_classes(generator, n_classes):
    targets = generator.integers(3, size=50).astype(float)
    keys = generator.random(50)
    pool = Pool(np.arange(50), generator.standard_normal((50, 2)), targets, keys, np.zeros((50, 0)))
    parts = folds(pool, n_classes)
    assert len(parts) == FOLDS
    judged = np.concatenate([part.judges.rows for part in parts])
    np.testing.assert_array_equal(np.sort(judged), np.arange(50))
    for part in parts:
        assert not set(part.judges.rows) & set(part.learners.rows)
        assert set(part.learners.targets) == {0.0, 1.0, 2.0}


def test_a_fold_without_judges_is_left_out(generator):
    targets = np.array([0.0, 1.0, 2.0, 2.0])
    pool = Pool(np.arange(4), np.zeros((4, 1)), targets, generator.random(4), np.zeros((4, 0)))
    assert [len(part.judges.rows) for part in folds(pool._replace(features=np.eye(4)), 3)] == [1, 1]


@pytest.mark.parametrize("copies", [1, 4])
def test_the_only_row_of_a_class_learns_in_every_fold(generator, copies):
    X, y = generator.standard_normal((20, 2)), np.zeros(20)
    y[3], y[5:7] = 1.0, 2.0
    n = 20 * copies
    features, targets = np.repeat(X, copies, axis=0), np.repeat(y, copies)
    parts = folds(Pool(np.arange(n), features, targets, generator.random(n), np.zeros((n, 0))), 3)
    judged = np.concatenate([part.judges.rows for part in parts]) // copies
    assert sorted(judged) == [row for row in range(20) if row != 3]
    for part in parts:
        assert set(part.learners.targets) == {0.0, 1.0, 2.0}


@pytest.mark.parametrize("task", ["classes", "real"])
def test_where_nothing_is_to_be_learned_the_model_is_hardly_worse_than_a_constant(generator, task):
    X, new = generator.standard_normal((2, 600, 3))
    y, later = generator.standard_normal((2, 600))
    if task == "classes":
        y, later = (y > 0.5).astype(int), (later > 0.5).astype(int)
    model = streamgp.fit_stream((X, y), random_state=0)
    assert model.history_[0]["log_losses"].keys() >= {"constant", "linear model"}
    score = model.evaluate_stream((new, later))
    assert score.log_loss < score.baseline.log_loss + 0.02


def test_several_classes_try_blocks_only_where_one_class_gains_by_them(generator, monkeypatch):
    X = generator.standard_normal((900, 3))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
    asked = []

    def never(options, prepared, parts, fit, clock):
        asked.append([option.name for option in options])
        return False

    monkeypatch.setattr(trial, "_blocks_promise", never)
    model = streamgp.fit_stream((X, y), random_state=0)
    assert asked == [["constant", "linear model", "inducing inputs", "local blocks"]]
    assert "local blocks" not in model.history_[0]["log_losses"]


@pytest.mark.parametrize("copies", [1, 5])
@pytest.mark.parametrize("agree", [True, False])
def test_copies_of_a_row_learn_or_judge_but_not_both(generator, copies, agree):
    X, y = generator.standard_normal((40, 2)), generator.integers(2, size=40).astype(float)
    features, targets = np.repeat(X, copies, axis=0), np.repeat(y, copies)
    if not agree:
        targets[::7] = 1 - targets[::7]
    n = len(targets)
    pool = Pool(np.arange(n), features, targets, generator.random(n), np.zeros((n, 0)))
    order = generator.permutation(n)
    given = Part(pool.take(order[n // 4 :]), pool.take(order[: n // 4]))
    [found] = divided(given, few=40, n_classes=2)
    if copies == 1 or not agree:
        assert found is given
        return
    taught, judged = found.learners.rows // copies, found.judges.rows // copies
    assert not set(taught) & set(judged)
    assert set(taught) | set(judged) == set(range(40))
    assert len(taught) == n - copies * len(judged)
    assert len(judged) == len(set(judged)) == 10  # of copies one judges
    parts = divided(given, few=41, n_classes=2)
    assert len(parts) == FOLDS  # of few different rows each judges once
    assert sorted(np.concatenate([part.judges.rows for part in parts]) // copies) == list(range(40))


@pytest.mark.parametrize("agree", [True, False])
def test_folds_keep_copies_together_and_one_of_them_judges(generator, agree):
    X, y = generator.standard_normal((30, 2)), generator.integers(2, size=30).astype(float)
    features, targets = np.repeat(X, 4, axis=0), np.repeat(y, 4)
    if not agree:
        targets[0] = 1 - targets[0]
    pool = Pool(np.arange(120), features, targets, generator.random(120), np.zeros((120, 0)))
    parts = folds(pool, 2)
    judged = np.concatenate([part.judges.rows for part in parts])
    if not agree:
        np.testing.assert_array_equal(np.sort(judged), np.arange(120))
        return
    np.testing.assert_array_equal(np.sort(judged // 4), np.arange(30))
    for part in parts:
        assert not set(part.judges.rows // 4) & set(part.learners.rows // 4)
        assert len(part.learners.rows) == 4 * (30 - len(part.judges.rows))


def test_one_class_is_told_from_all_others():
    pool = Pool(np.arange(4), np.zeros((4, 1)), np.array([0.0, 2.0, 1.0, 2.0]), np.zeros(4), np.zeros((4, 0)))
    np.testing.assert_array_equal(Part(pool, pool, one=2).targets(pool), [0, 1, 0, 1])
    np.testing.assert_array_equal(Part(pool, pool).targets(pool), pool.targets)


def test_sizes_that_were_left_open_fit_a_small_budget(generator):
    X, y = xor(generator, 3000)
    model = streamgp.fit_stream((X, y), kernel=RBF(), learn_hyperparameters=False, memory_budget="16MiB")
    assert model.score(X, y) > 0.8
    with pytest.raises(BudgetError, match="memory_budget"):
        streamgp.fit_stream((X, y), memory_budget="1MiB")


def test_a_rare_class_has_its_share_in_the_trial(generator):
    X = generator.standard_normal((4000, 2))
    y = (X[:, 0] > 2.2).astype(int)  # one row in seventy
    model = streamgp.fit_stream((X, y), kernel=RBF(10.0, 1.0), n_active=40, random_state=0)
    score = model.evaluate_stream((X, y))
    assert score.log_loss < 0.5 * score.baseline.log_loss


def test_a_linear_model_of_categories_has_all_its_coefficients(generator):
    # Many rows are alike: as many inducing rows as coefficients would not span them.
    X = (generator.random((300, 4)) < [0.5, 0.5, 0.2, 0.8]).astype(np.float64)
    y = generator.random(300) < 1.0 / (1.0 + np.exp(-(X @ [2.0, -2.0, 3.0, -1.0])))
    line = next(one for one in candidates(settings(), Shape(300, 4, 2)) if one.name == LINE).settings
    fitted = [
        StreamGPClassifier(
            n_active,
            selection=line.selection,
            inference=line.inference,
            multiclass=line.multiclass,
            kernel=line.kernel,
            learn_hyperparameters=False,
            random_state=0,
        ).fit(X, y)
        for n_active in (line.n_active, 300)
    ]
    line_of_few, line_of_all = (model.predict_proba(X) for model in fitted)
    np.testing.assert_allclose(line_of_few, line_of_all, atol=1e-3)


def drawn_by_class(generator, *rows):
    targets = np.repeat(np.arange(len(rows)), rows).astype(np.float64)
    n = len(targets)
    return Pool(np.arange(n), np.zeros((n, 1)), targets, generator.random(n), np.zeros((n, 0)))


@pytest.mark.parametrize(
    ("counts", "drawn", "kept"),
    [
        ([9000, 1000], [900, 300], [900, 100]),  # a rare class was drawn more often
        ([9000, 10], [900, 10], [900, 1]),
        ([9000, 3], [900, 2], [900, 1]),  # none loses its last row
        ([900, 10], [900, 1], [900, 1]),  # its others judge: that costs the common class nothing
        ([900, 10], [900, 0], [900, 0]),
        ([20, 2], [15, 1], [15, 1]),
        ([600, 300, 100], [300, 150, 80], [300, 150, 50]),
    ],
)
def test_learners_of_a_trial_have_the_shares_of_classes(generator, counts, drawn, kept):
    found = by_share(drawn_by_class(generator, *drawn), np.array(counts))
    assert np.bincount(found.targets.astype(int), minlength=len(counts)).tolist() == kept
    assert np.all(np.diff(found.rows) > 0)


def test_judges_that_count_for_nothing_do_not_judge(generator):
    X, y = xor(generator, 120)
    weights = np.ones(120)
    weights[:20] = 0.0
    model = streamgp.fit_stream((X, y), validation=np.arange(20), sample_weight=weights, random_state=0)
    assert all(np.isfinite(loss) for loss in model.history_[0]["log_losses"].values())


class AskedError(Exception):
    """The first trial of a fit, in the place of holding it."""


def first_trial(monkeypatch, X, y, sample_rows=400):
    def stop(options, prepared, parts, *arguments, **more):
        raise AskedError(parts)

    monkeypatch.setattr(trial, "SAMPLE_ROWS", sample_rows)
    monkeypatch.setattr(trial, "FEWEST_ROWS", 100)
    monkeypatch.setattr(trial, "hold_contest", stop)
    with pytest.raises(AskedError) as asked:
        streamgp.fit_stream((X, y), random_state=0)
    return asked.value.args[0]


def test_a_rare_class_has_more_judges_and_they_count_less(generator, monkeypatch):
    y = np.zeros(8000, int)
    y[::80] = 1
    [part] = first_trial(monkeypatch, generator.standard_normal((8000, 2)), y)
    common, rare = np.bincount(part.judges.targets.astype(int))
    assert rare >= 12  # its share is one row in eighty
    assert common >= 90
    counts = part.counts(part.judges)
    assert counts[part.judges.targets == 1].sum() / counts.sum() == pytest.approx(1 / 80)
    assert np.bincount(part.learners.targets.astype(int)).tolist() == [len(part.learners.rows) - 5, 5]


@pytest.mark.parametrize(("rare", "n_parts"), [(30, FOLDS), (200, 1)])
def test_where_few_rows_are_of_the_rarer_class_each_of_them_judges(generator, monkeypatch, rare, n_parts):
    y = np.zeros(1000, int)
    y[:rare] = 1
    parts = first_trial(monkeypatch, generator.standard_normal((1000, 2)), y, sample_rows=1000)
    assert len(parts) == n_parts
    judged = sum(int(part.judges.targets.sum()) for part in parts)
    assert judged == (30 if n_parts > 1 else 50)


def test_a_verdict_of_a_few_rows_of_a_class_is_tried_again_with_more(generator, monkeypatch):
    tried = []

    def decided(size, *arguments):
        tried.append(size)
        return Trial("constant", {"constant": 0.1}, {}, None, size, 1.0)

    def settled(shares):
        tried.clear()
        prepared = SimpleNamespace(
            rows=SimpleNamespace(n_rows=4000, n_features=2), class_counts=4000 * np.array(shares)
        )
        trial._held(prepared, None, settings(memory_budget="1GiB"), ["constant"], None)
        return list(tried)

    monkeypatch.setattr(trial, "SAMPLE_ROWS", 100)
    monkeypatch.setattr(trial, "_held_on", decided)
    assert settled([0.5, 0.5]) == [100]
    assert settled([0.9, 0.1]) == [100, 400]
    assert settled([0.99, 0.01]) == [100, 400]  # there are no more rows
    assert settled([0.9, 0.05, 0.05]) == [100]


def failing(monkeypatch, spoilt):
    """Trials in which some candidates raise an error, or have this value for the log density of a judge."""
    fitted, densities, values = contest._fitted, contest._log_densities, {}

    def spoil(settings, *arguments):
        value = spoilt(settings)
        if isinstance(value, Exception):
            raise value
        model = fitted(settings, *arguments)
        values[id(model)] = value
        return model

    def said(model, *arguments):
        told, counts = densities(model, *arguments)
        if values[id(model)] is not None:
            told[3] = values[id(model)]
        return told, counts

    monkeypatch.setattr(contest, "_fitted", spoil)
    monkeypatch.setattr(contest, "_log_densities", said)


@pytest.mark.parametrize(
    ("spoilt", "reason"),
    [
        (np.linalg.LinAlgError("not positive definite\nat row 7"), "LinAlgError: not positive definite"),
        (FloatingPointError("overflow"), "FloatingPointError: overflow"),
        (ParameterError("variance is 0.0"), "ParameterError: variance is 0.0"),
        (np.nan, "FloatingPointError: no finite log density for "),
        (-np.inf, "FloatingPointError: no finite log density for "),
        (np.inf, "FloatingPointError: no finite log density for "),
    ],
)
@pytest.mark.parametrize("rows", [60, 710])
def test_a_candidate_that_fails_in_a_trial_drops_out_with_its_reason(
    generator, monkeypatch, tmp_path, spoilt, reason, rows
):
    failing(monkeypatch, lambda settings: spoilt if isinstance(settings.inference, Local) else None)
    X, y = xor(generator, rows)
    model = streamgp.fit_stream((X, y), random_state=0, checkpoint=tmp_path / "c")
    found = model.history_[0]
    assert "local blocks" not in found["log_losses"]
    assert found["failed"]["local blocks"].startswith(reason)
    assert f"local blocks failed ({reason}" in model.recipe_
    again = streamgp.fit_stream((X, y), random_state=0, checkpoint=tmp_path / "c")
    assert again.history_[0] == found


def test_where_all_candidates_fail_the_first_error_is_raised(generator, monkeypatch):
    failing(monkeypatch, lambda settings: FloatingPointError(str(settings.n_active)))
    with pytest.raises(FloatingPointError, match=r"^1$"):
        streamgp.fit_stream(xor(generator, 60), random_state=0)
