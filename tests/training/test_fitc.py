"""Inference over all rows through inducing inputs: streamed, it is the fit in memory, wherever it runs."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import namedtuple
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import zarr

import streamgp
from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.budget import format_size
from streamgp.data.synthetic import write_store
from streamgp.errors import BudgetError, CheckpointError, NotConvergedWarning, ParameterError
from streamgp.inference.inducing.basis import Approximation, make_basis, whiten
from streamgp.inference.inducing.fit import fit_sites
from streamgp.inference.inducing.in_memory import Rows
from streamgp.kernels import RBF
from streamgp.likelihoods import Gaussian, Logit, Probit
from streamgp.passes import scratch as scratch_module
from streamgp.selection.centres import cluster_centres
from streamgp.settings import FITC
from streamgp.training.infer.approximation import Tried, _leads_away
from streamgp.training.judge import is_better, is_better_but_for_outliers
from streamgp.training.problem import Problem
from streamgp.training.select.gain import Misfit, greedy_gains

RESOLVE = import_module("streamgp.training.choices.resolve")
KERNEL = RBF(4.0, 1.5)
FIXED = {
    "inference": FITC(residual=1.0, power=1.0),
    "selection": "random",
    "kernel": KERNEL,
    "learn_hyperparameters": False,
    "standardize": False,
    "precision": "float64",
    "random_state": 0,
}


@pytest.fixture
def rows(generator):
    X = generator.standard_normal((900, 2))
    y = np.sign(X[:, 0] * X[:, 1] + 0.1 * generator.standard_normal(900)).astype(int)
    return X, y


def same_bits(one, other):
    first, second = one.model_.to_record(), other.model_.to_record()
    assert first[0] == second[0]
    for name, array in first[1].items():
        np.testing.assert_array_equal(array, second[1][name], err_msg=name)


@pytest.mark.parametrize("likelihood", [Probit(0.2), Logit()])
@pytest.mark.parametrize("choice", [(1.0, 1.0), (0.0, 1.0), (0.5, 0.5)])
def test_streamed_sweeps_reach_the_fixed_point_of_the_fit_in_memory(rows, make_store, likelihood, choice):
    X, y = rows
    settings = {**FIXED, "likelihood": likelihood, "inference": FITC(*choice, tolerance=1e-9)}
    model = streamgp.fit_stream(make_store(X, y, chunk_rows=170), n_active=25, validation=False, **settings)
    basis = make_basis(KERNEL, X[model.active_rows_])
    wanted = fit_sites(basis, likelihood, Rows(X, y.astype(float)), Approximation(*choice), tolerance=1e-9)
    sweeps = [entry for entry in model.history_ if entry["stage"] == "infer: all rows"]
    assert sweeps[-1]["residual"] < 1e-9
    assert sweeps[-1]["log_evidence"] == pytest.approx(wanted.evidence, abs=1e-5)
    w = KERNEL.block(X, basis.inducing) @ basis.whitening
    mean, _ = model.predict_latent(X)
    np.testing.assert_allclose(mean, w @ wanted.posterior.inducing_mean, atol=1e-6)


def test_sweeps_that_begin_at_the_mode_end_where_others_do_and_sooner(rows, make_store, monkeypatch):
    X, y = rows
    path = make_store(X, y, chunk_rows=170)
    settings = {**FIXED, "inference": FITC(1.0, 1.0, tolerance=1e-6), "n_active": 40}
    plain = streamgp.fit_stream(path, **settings)
    monkeypatch.setattr(RESOLVE, "FEWEST_MEANS_FIRST", 40)
    first = streamgp.fit_stream(path, **settings)
    assert "infer: approximation -> infer: means -> infer: all rows" in first.recipe_
    [told] = [entry for entry in first.history_ if entry["stage"] == "infer: means"]
    assert told["rows"] == 900 - 46  # all that are not held out
    assert 1 < told["evaluations"][0] <= 60
    for one, other in zip(plain.predict_latent(X), first.predict_latent(X), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    residuals = [
        [e["residual"] for e in model.history_ if e["stage"] == "infer: all rows"] for model in (plain, first)
    ]
    # The first sweep has no residual. The sample here is all rows: only its tolerance is behind.
    assert len(residuals[1]) <= len(residuals[0])


def test_without_memory_for_rows_the_mean_of_the_sample_stays(rows, make_store, monkeypatch):
    X, y = rows
    monkeypatch.setattr(RESOLVE, "FEWEST_MEANS_FIRST", 25)
    monkeypatch.setattr("streamgp.training.infer.means.rows_that_fit", lambda *shape: 10)
    model = streamgp.fit_stream(make_store(X, y), n_active=25, **FIXED)
    [told] = [entry for entry in model.history_ if entry["stage"] == "infer: means"]
    assert told["rows"] == 0
    assert told["evaluations"] == []


def test_real_targets_need_one_pass(generator, make_store):
    X = generator.uniform(-3, 3, (800, 2))
    y = np.sin(X[:, 0]) + 0.1 * generator.standard_normal(800)
    settings = {**FIXED, "likelihood": Gaussian(0.02)}
    model = streamgp.fit_stream(make_store(X, y, chunk_rows=150), n_active=40, validation=False, **settings)
    assert isinstance(model, StreamGPRegressor)
    assert [entry["stage"] for entry in model.history_].count("infer: all rows") == 1
    shift, scale = y.mean(), y.std()
    basis = make_basis(KERNEL, X[model.active_rows_])
    wanted = fit_sites(basis, Gaussian(0.02), Rows(X, (y - shift) / scale))
    w = KERNEL.block(X, basis.inducing) @ basis.whitening
    np.testing.assert_allclose(
        model.predict(X), shift + scale * (w @ wanted.posterior.inducing_mean), atol=1e-8
    )
    assert model.history_[-1]["log_evidence"] == pytest.approx(wanted.evidence, rel=1e-9)


def test_rows_held_out_are_never_learned_from(rows, make_store):
    X, y = rows
    held_out = np.arange(0, 900, 7)
    wrong = y.copy()
    wrong[held_out] = np.sort(y[held_out])  # as many of each class: their counts are known to the fit
    one, other = (
        streamgp.fit_stream(make_store(X, labels), n_active=25, validation=held_out, **FIXED)
        for labels in (y, wrong)
    )
    assert np.mean(wrong != y) > 0.05
    assert not np.isin(one.active_rows_, held_out).any()
    same_bits(one, other)


def test_threads_and_clusters_give_the_same_bits(rows, make_store, cluster_client, tmp_path):
    X, y = rows
    path = make_store(X, y, chunk_rows=100)
    settings = {**FIXED, "n_active": 30, "scratch": tmp_path / "scratch"}
    same_bits(
        streamgp.fit_stream(path, **settings),
        streamgp.fit_stream(path, client=cluster_client, **settings),
    )
    assert not list((tmp_path / "scratch").iterdir())  # nothing is left behind


@pytest.mark.parametrize("chunk_rows", [37, 900])
def test_another_chunking_is_the_same_model_up_to_rounding(rows, make_store, chunk_rows):
    X, y = rows
    one, other = (
        streamgp.fit_stream(make_store(X, y, chunk_rows=size), n_active=30, **FIXED)
        for size in (200, chunk_rows)
    )
    np.testing.assert_array_equal(one.active_rows_, other.active_rows_)
    for first, second in zip(one.predict_latent(X), other.predict_latent(X), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("selection", ["ivm", "random", "kmeans", "gain", "pass", "fpass"])
def test_every_selection_gives_inducing_inputs(rows, make_store, selection):
    X, y = rows[0][:450], rows[1][:450]
    model = streamgp.fit_stream(
        make_store(X, y), n_active=30, inference="fitc", selection=selection, random_state=0
    )
    assert model.evaluate_stream((rows[0][450:], rows[1][450:])).error < 0.15
    assert len(model.model_.snapshot.active_inputs) <= 30
    assert {"residual", "power"} <= next(
        e for e in model.history_ if e["stage"] == "infer: approximation"
    ).keys()


def test_many_classes_share_inducing_inputs(generator, make_store, tmp_path):
    X = generator.standard_normal((900, 2))
    y = np.digitize(np.arctan2(*X.T), [-1.5, 0, 1.5])
    model = streamgp.fit_stream(
        make_store(X, y, chunk_rows=200),
        n_active=60,
        inference="fitc",
        selection="kmeans",
        kernel=RBF(30.0, 1.0),
        learn_hyperparameters=False,
        random_state=1,
    )
    assert model.model_.snapshot.active_inputs.shape == (60, 2)
    assert model.active_rows_.size == 0
    assert np.mean(model.predict(X) == y) > 0.93
    model.save(tmp_path / "model.zip")
    again = streamgp.load(tmp_path / "model.zip")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_residual_and_power_are_chosen_by_held_out_rows(rows, make_store):
    X, y = rows
    model = streamgp.fit_stream(
        make_store(X, y), n_active=30, **{**FIXED, "inference": "fitc"}, validation=0.3
    )
    [entry] = [entry for entry in model.history_ if entry["stage"] == "infer: approximation"]
    tried = {(residual, power): density for residual, power, density in entry["tried"]}
    others = {(residual, power) for residual, power in entry["left_out"]}
    assert set(tried) | others == {(1.0, 1.0), (1.0, 0.5), (1.0, 0.1), (0.0, 1.0)}
    assert others <= {(1.0, 0.1)}  # a power in vain if the one before it was
    assert tried[entry["residual"], entry["power"]] == max(tried.values())


@pytest.mark.parametrize(("gain", "tries"), [(-0.1, False), (0.1, True)])
def test_a_smaller_power_is_tried_only_where_the_one_before_was_not_worse(generator, gain, tries):
    first = generator.standard_normal((1, 200))
    tried = [
        Tried(Approximation(1.0, power), RBF(), (), (), 0.0, first + shift)
        for power, shift in ((1.0, 0.0), (0.5, gain + 0.01 * generator.standard_normal((1, 200))))
    ]
    assert _leads_away(Approximation(1.0, 0.1), tried) is not tries
    assert not _leads_away(Approximation(0.0, 1.0), tried)
    assert not _leads_away(Approximation(1.0, 0.5), tried[:1])


def test_real_targets_keep_the_kernel_of_the_evidence_in_predictive_selection(generator):
    X = generator.uniform(-3, 3, (600, 2))
    y = np.sin(X[:, 0]) + 0.1 * generator.standard_normal(600)
    model = StreamGPRegressor(30, selection="fpass", inference="fitc", random_state=0).fit(X, y)
    drawn = next(entry for entry in model.history_ if entry["stage"] == "select: draw")
    learned = [entry["kernel"] for entry in model.history_ if entry["stage"] == "learn: evidence"]
    assert drawn["kernel"] in learned
    # No update of the hyperparameters while rows are exchanged: those tell the kernel they have found.
    assert all("kernel" not in entry for entry in model.history_ if entry["stage"] == "select: exchange")


def test_sweeps_that_are_cut_short_say_so(rows, make_store):
    X, y = rows
    settings = {**FIXED, "inference": FITC(1.0, 1.0, most_sweeps=2)}
    with pytest.warns(NotConvergedWarning, match="did not converge for 1 of 1 .* after 2 sweeps"):
        model = streamgp.fit_stream(make_store(X, y), n_active=30, **settings)
    assert not model.history_[-1]["converged"]


def test_scratch_is_planned_and_checked(rows, make_store, monkeypatch, tmp_path, caplog):
    X, y = rows
    path = make_store(X, y)
    usage = namedtuple("usage", "total used free")
    with caplog.at_level("INFO"):
        streamgp.fit_stream(path, n_active=10, **FIXED)
    assert "sites of all rows, on disk" in caplog.text
    monkeypatch.setattr(scratch_module.shutil, "disk_usage", lambda _: usage(100, 90, 10))
    needed = format_size(scratch_module.scratch_bytes(900, 1))
    with pytest.raises(BudgetError, match=rf"need {needed} of disk, but \d+ B are free"):
        streamgp.fit_stream(path, n_active=10, scratch=tmp_path, **FIXED)
    with pytest.raises(ParameterError, match="local path"):
        streamgp.fit_stream(path, n_active=10, scratch="s3://bucket/scratch", **FIXED)


def test_workers_that_do_not_see_the_scratch_folder_are_named(tmp_path):
    class Elsewhere:
        submit = cancel = nthreads = None  # as far as a client is known by them
        status = "running"

        def run(self, function, path):
            return {"tcp://a": function(path), "tcp://b": False}

    with (
        pytest.raises(ParameterError, match=r"1 of 2 workers do not see .* tcp://b"),
        scratch_module.scratch_space(tmp_path, None, 0, Elsewhere()),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_flat_sites_are_written_too(tmp_path):
    place = scratch_module.Scratch(tmp_path)
    array = place.write(1, streamgp.data.open_rows(np.zeros((10, 1)), y=None).cut(4), 1)
    array[:4] = 0.0
    assert zarr.open_array(tmp_path / "sites-00001").nchunks_initialized == 1
    with pytest.raises(CheckpointError, match="generation 7"):
        place.read(7)


def test_gains_are_those_of_the_evidence(generator):
    X = generator.standard_normal((60, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * generator.standard_normal(60)
    likelihood, kernel, known = Gaussian(0.05), RBF(1.0, 0.8), list(range(5))
    basis, noise = make_basis(kernel, X[known], jitter=1e-9), 0.05

    def evidence(chosen):
        return fit_sites(make_basis(kernel, X[chosen], jitter=1e-9), likelihood, Rows(X, y)).evidence

    seen = whiten(basis, X)
    fit = fit_sites(basis, likelihood, Rows(X, y))
    mean = seen.features @ fit.posterior.inducing_mean
    variance = np.square(seen.features @ fit.posterior.spread).sum(axis=1)
    total = noise + seen.residual_variance
    cavity = 1.0 / (1.0 / variance - fit.sites.precision)
    outside = cavity * (mean / variance - fit.sites.precision_mean)
    slope = 0.5 * (np.square((y - outside) / (cavity + total)) - 1.0 / (cavity + total))
    misfit = Misfit(fit.sites.precision_mean - fit.sites.precision * mean, fit.sites.precision, slope)
    [best] = greedy_gains(basis, X, X, [misfit], 1, known)
    gains = np.array([evidence([*known, new]) if new not in known else -np.inf for new in range(60)])
    # Not the exact gain, the other inputs' posterior stands still: but among the best few.
    assert np.sum(gains > gains[best]) <= 5
    several = greedy_gains(basis, X, X, [misfit], 10, known)
    assert len(set(several)) == 10
    drawn = [evidence([*known, *generator.permutation(np.arange(5, 60))[:10]]) for _ in range(20)]
    assert evidence([*known, *several]) > np.median(drawn)


def test_an_evaluation_under_way_ends_when_time_is_up(rows, make_store, monkeypatch):
    """The clock jumps while the refinement's first evaluation sweeps: its start is kept."""
    X, y = rows
    whole, rounds = Rows.fold, []

    def fold(self, *arguments):
        if self.before is not Rows.before:  # the refinement's
            rounds.append(len(self.features))
        return whole(self, *arguments)

    monkeypatch.setattr(Problem, "is_late", lambda self: len(rounds) > 2)
    monkeypatch.setattr(Rows, "fold", fold)
    settings = {**FIXED, "learn_hyperparameters": "evidence", "max_seconds": 1e6}
    with pytest.warns(NotConvergedWarning, match="did not converge"):
        model = streamgp.fit_stream(make_store(X, y), n_active=30, **settings)
    [refined] = [entry for entry in model.history_ if entry["stage"] == "learn: refine"]
    assert len(rounds) == 3
    assert refined["log_evidence"] is None
    assert "max_seconds" in refined["left_out"]
    assert np.isfinite(model.predict_proba(X)).all()


def test_fewer_inducing_inputs_than_asked_for_are_told(rows, caplog):
    X, y = rows
    X = np.round(X[:200])
    settings = {**FIXED, "selection": "gain", "validation": False}
    with caplog.at_level("WARNING"):
        model = StreamGPClassifier(150, **settings).fit(X, y[:200])
    assert len(model.active_inputs_) < 150
    assert f"{len(model.active_inputs_)} inducing inputs instead of 150" in caplog.text


def test_centres_only_come_closer(generator):
    inputs = generator.standard_normal((500, 3)).astype(np.float32)

    def distortion(steps):
        centres = cluster_centres(inputs, inputs[:20], steps)
        return np.square(inputs[:, None] - centres).sum(axis=2).min(axis=1).mean()

    values = [distortion(steps) for steps in range(8)]
    assert np.all(np.diff(values) <= 1e-6)
    assert values[-1] < 0.8 * values[0]


SCRIPT = """
import sys
import streamgp
from streamgp.kernels import RBF
from streamgp.settings import FITC
model = streamgp.fit_stream(
    sys.argv[1], n_active=60, inference=FITC(1.0, 1.0), selection="random", random_state=5,
    checkpoint=sys.argv[2], kernel=RBF(20.0, 1.0), learn_hyperparameters=sys.argv[4] == "learn",
)
model.save(sys.argv[3])
"""


def start(store: Path, folder: Path, learn: str) -> subprocess.Popen[bytes]:
    arguments = [str(store), str(folder / "checkpoint"), str(folder / "model.zip"), learn]
    return subprocess.Popen([sys.executable, "-c", SCRIPT, *arguments])


@pytest.mark.parametrize("learn", ["fixed", "learn"])
def test_killed_in_the_middle_of_a_sweep_and_resumed_is_the_same_model(tmp_path, learn):
    store = tmp_path / "train.zarr"
    write_store(store, 6000, n_features=4, chunk_rows=150)
    for name in ("whole", "broken"):
        (tmp_path / name).mkdir()
    assert start(store, tmp_path / "whole", learn).wait() == 0
    killed = 0
    marks = ["step-000003*"] if learn == "learn" else []  # in the middle of an optimisation, too
    for mark in [*marks, "sites-of-*/sites-00001/c/*", "sites-of-*/sites-00003/c/*"]:
        process = start(store, tmp_path / "broken", learn)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if next((tmp_path / "broken" / "checkpoint").glob(mark), None) is not None:
                process.kill()
                killed += 1
            time.sleep(0.001)
        process.wait()
    assert killed
    assert start(store, tmp_path / "broken", learn).wait() == 0
    one, other = (streamgp.load(tmp_path / name / "model.zip") for name in ("whole", "broken"))
    same_bits(one, other)
    assert not list((tmp_path / "broken" / "checkpoint").glob("sites-of-*"))


def test_a_weight_counts_a_row_as_often(rows):
    X, y = rows
    weights = 1.0 + (np.arange(900) % 3 == 0)
    settings = {**FIXED, "inference": FITC(1.0, 1.0, tolerance=1e-9)}
    model = StreamGPClassifier(25, likelihood=Probit(0.0), validation=False, **settings)
    model.fit_stream((X, y), sample_weight=weights)
    basis = make_basis(KERNEL, X[model.active_rows_])
    wanted = fit_sites(basis, Probit(0.0), Rows(X, y.astype(float), weights), tolerance=1e-9)
    w = KERNEL.block(X, basis.inducing) @ basis.whitening
    np.testing.assert_allclose(model.predict_latent(X)[0], w @ wanted.posterior.inducing_mean, atol=1e-6)


def test_weights_of_classes_move_the_boundary(rows):
    X, y = rows
    shares = {
        weight: np.mean(StreamGPClassifier(25, class_weight={1: weight}, **FIXED).fit(X, y).predict(X) == 1)
        for weight in (0.02, 1.0, 50.0)
    }
    assert shares[0.02] < shares[1.0] < shares[50.0]
    balanced = StreamGPClassifier(25, class_weight="balanced", **FIXED).fit(X, y)
    assert 0.3 < np.mean(balanced.predict(X) == 1) < 0.7


@pytest.mark.parametrize("wrong", [{7: 2.0}, {1: -1.0}, "heavy"])
def test_wrong_weights_are_refused(rows, wrong):
    with pytest.raises(ParameterError, match="class_weight"):
        StreamGPClassifier(10, class_weight=wrong, **FIXED).fit(*rows)
    with pytest.raises(ParameterError, match="sample_weight"):
        StreamGPClassifier(10, **FIXED).fit_stream(rows, sample_weight=np.ones(3))


def test_an_approximation_replaces_another_only_if_better_by_a_standard_error(generator):
    densities = generator.standard_normal((2, 400))
    noise = generator.standard_normal(densities.shape)
    noise -= noise.mean()
    error = 1.0 / np.sqrt(noise.size)
    assert not is_better(densities, densities)
    assert is_better(densities + 1e-3, densities)
    assert not is_better(densities + noise + 0.9 * error * noise.std(), densities)
    assert is_better(densities + noise + 1.1 * error * noise.std(), densities)
    assert not is_better(np.zeros((1, 0)), np.zeros((1, 0)))


def test_one_outlier_does_not_hide_that_most_rows_prefer_a_model(generator):
    gains = 0.05 + 0.3 * generator.standard_normal(600)
    gains[:2] = 60.0, -35.0  # of the mean 0.04, of its standard error 0.116
    none = np.zeros(600)
    assert not is_better(gains, none)
    assert is_better_but_for_outliers(gains, none)
    assert not is_better_but_for_outliers(none, gains)
    gains[:2] = -60.0  # most rows prefer it, their mean does not
    assert not is_better_but_for_outliers(gains, none)
    assert not is_better_but_for_outliers(none, none)


def test_where_memory_is_short_the_evidence_has_fewer_inducing_inputs_too(tmp_path):
    store = tmp_path / "train.zarr"
    write_store(store, 12_000, n_features=4, chunk_rows=3000)
    learned = {
        **FIXED,
        "kernel": None,
        "learn_hyperparameters": True,
        "inference": FITC(1.0, 1.0, learn_inducing=False),
        "standardize": True,
    }
    model = StreamGPClassifier(300, memory_budget="64MiB", **learned).fit_stream(store)
    refined = [entry for entry in model.history_ if entry["stage"] == "learn: refine"]
    # With all 300 of them there would be memory for 500 rows, the fewest there may be.
    assert [entry["rows"] > 500 for entry in refined] == [True]
