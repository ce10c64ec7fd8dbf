"""Local blocks end to end: against dense versions, wherever they run, however they are stored and read."""

from __future__ import annotations

import pickle
import re
import shutil
import subprocess
import sys
import time
from collections import namedtuple
from typing import NamedTuple

import numpy as np
import pytest
import zarr

import streamgp
from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.data import Rows, Span, open_rows
from streamgp.data.synthetic import write_store
from streamgp.data.wrap import as_column
from streamgp.errors import BudgetError, CheckpointError, ModelFileError, ParameterError
from streamgp.inference.inducing.basis import JITTER
from streamgp.inference.local import snapshot, waves
from streamgp.inference.local.snapshot import LocalSnapshot
from streamgp.kernels import RBF
from streamgp.likelihoods import Gaussian, Poisson, Probit, StudentT
from streamgp.passes import nearest, scratch
from streamgp.passes.block_store import pack
from streamgp.passes.sites import SiteSweep
from streamgp.selection.grouping import block_sizes
from streamgp.settings import Local, fit_settings
from streamgp.training import group, local_sites, plan
from streamgp.training.fit_memory import plan_fit
from streamgp.training.infer import local as infer_local
from streamgp.training.plan.demand import Demand
from tests.reference import fitc_dense, kernels_dense, pic_dense

JITTER64 = JITTER[np.dtype(np.float64)]
KERNEL = RBF(4.0, 1.0)
PLAIN = {
    "selection": "random",
    "kernel": KERNEL,
    "learn_hyperparameters": False,
    "standardize": False,
    "precision": "float64",
    "random_state": 0,
}
TIGHT = {"tolerance": 1e-9, "most_sweeps": 200}


@pytest.fixture(scope="module")
def rows():
    generator = np.random.default_rng(3)
    X = generator.uniform(-3, 3, (300, 2))
    f = np.sin(2 * X[:, 0]) * np.cos(X[:, 1])
    return X, f + 0.1 * generator.standard_normal(300)


def blocks_of(model, n_rows):
    """The block of each row, and the rows of each block's head."""
    snapshot = model.model_.snapshot
    table, blocks, heads = snapshot.table, np.full(n_rows, -1), []
    halo_numbers = snapshot.store.arrays.get("halo_numbers")
    for block, (start, count) in enumerate(zip(table.starts, table.counts, strict=True)):
        numbers = snapshot.store.read("numbers", int(start), int(count))
        blocks[numbers] = block
        heads.append(numbers)
    assert halo_numbers is None  # a model holds what it needs
    assert (blocks >= 0).all()
    return blocks, heads


def same_bits(one, other):
    first, second = one.model_.to_record(), other.model_.to_record()
    assert first[0] == second[0]
    for name, array in first[1].items():
        wanted = second[1][name]
        if hasattr(array, "source"):
            array, wanted = array.source[:], wanted.source[:]
        np.testing.assert_array_equal(array, wanted, err_msg=name)


class Dense(NamedTuple):
    """Sites and evidence of a dense model, and values at the inducing inputs."""

    precision: np.ndarray
    precision_mean: np.ndarray
    evidence: float


def dense(X, targets, inducing, blocks, likelihood):
    gram = pic_dense.prior(KERNEL, inducing, X, blocks, JITTER64)
    if isinstance(likelihood, Gaussian):
        precision = np.full(len(X), 1.0 / likelihood.noise)
        evidence = pic_dense.regression(gram, likelihood.noise, targets)
        return Dense(precision, precision * targets, evidence)
    found = fitc_dense.full_ep(gram, likelihood, targets)
    return Dense(found.precision, found.precision_mean, found.evidence)


@pytest.mark.parametrize("likelihood", [Gaussian(0.02), Probit(0.1)], ids=["real", "classes"])
@pytest.mark.parametrize("block_rows", [1, 30, "auto"], ids=["one row", "several", "one block"])
def test_any_blocks_are_those_of_the_dense_model(rows, make_store, likelihood, block_rows):
    X, y = rows
    X, y = (X[:60], y[:60]) if block_rows == 1 else (X[:90], y[:90])
    real = isinstance(likelihood, Gaussian)
    targets = (y - y.mean()) / y.std() if real else np.where(y > 0, 1.0, -1.0)
    settings = {**PLAIN, "likelihood": likelihood, "inference": Local(block_rows, neighbours=1, **TIGHT)}
    stored = y if real else (y > 0).astype(int)
    model = streamgp.fit_stream(make_store(X, stored, chunk_rows=40), n_active=12, **settings)
    snapshot, inducing = model.model_.snapshot, X[model.active_rows_]
    blocks, heads = blocks_of(model, len(X))
    wanted = dense(X, targets, inducing, blocks, likelihood)
    told = [entry for entry in model.history_ if entry["stage"] == "infer: local"][-1]
    assert told["log_evidence"] == pytest.approx(wanted.evidence, rel=1e-8, abs=1e-6)
    for block, numbers in enumerate(heads):
        found = snapshot.store.read("sites", int(snapshot.table.starts[block]), len(numbers))
        np.testing.assert_allclose(found[:, 0, 0], wanted.precision[numbers], atol=1e-6)
        np.testing.assert_allclose(found[:, 0, 1], wanted.precision_mean[numbers], atol=1e-6)
    values, spread = pic_dense.inducing_posterior(
        KERNEL, inducing, X, blocks, wanted.precision, wanted.precision_mean, JITTER64
    )
    lower = np.linalg.inv(snapshot.basis.whitening).T
    np.testing.assert_allclose(lower @ snapshot.posteriors[0].inducing_mean, values, atol=1e-6)
    # Each block predicts with its own rows and those that widen it.
    new = np.random.default_rng(0).uniform(-3, 3, (5, 2))
    for block in range(0, len(heads), max(1, len(heads) // 3)):
        near, sites = snapshot._rows(block)
        mean, variance = pic_dense.predict_beside(
            KERNEL, inducing, values, spread, near, new, sites[:, 0, 0], sites[:, 0, 1], JITTER64
        )
        found = snapshot.by_block(block, new)
        np.testing.assert_allclose(found.mean[:, 0], mean, atol=1e-6)
        np.testing.assert_allclose(found.variance[:, 0], variance, atol=1e-6)


def hard_rows(X, y):
    """By name: rows that leave a grouping little choice, and their classes."""
    classes = (y > 0).astype(int)
    crowd = np.concatenate([X[:80] / 1000.0, X[80:]])
    return {
        "duplicates": (np.repeat(X[:22], 4, axis=0), np.repeat(classes[:22], 4)),
        "all rows identical": (np.ones_like(X), classes),
        "one block far larger": (crowd, classes),
        "blocks of one class": (X, (X[:, 0] > 0).astype(int)),
        "a feature of zero variance": (np.column_stack([X, np.full(len(X), 7.0)]), classes),
    }


@pytest.mark.parametrize("case", hard_rows(np.zeros((90, 2)), np.zeros(90)))
@pytest.mark.parametrize("real", [False, True], ids=["classes", "real"])
def test_hard_rows_give_the_dense_model_too(rows, make_store, case, real):
    X, classes = hard_rows(rows[0][:90], rows[1][:90])[case]
    likelihood = Gaussian(0.1) if real else Probit(0.1)
    stored = classes - 0.3 + X[:, 0] if real else classes
    targets = (stored - stored.mean()) / stored.std() if real else 2.0 * classes - 1.0
    settings = {**PLAIN, "likelihood": likelihood, "inference": Local(30, neighbours=1, **TIGHT)}
    model = streamgp.fit_stream(make_store(X, stored, chunk_rows=40), n_active=12, **settings)
    snapshot, inducing = model.model_.snapshot, X[model.active_rows_]
    blocks, heads = blocks_of(model, len(X))
    wanted = dense(X, targets, inducing, blocks, likelihood)
    assert max(map(len, heads)) <= 45
    [told] = [entry for entry in model.history_ if entry["stage"] == "infer: local"][-1:]
    assert told["log_evidence"] == pytest.approx(wanted.evidence, rel=1e-7, abs=1e-5)
    for block, numbers in enumerate(heads):
        found = snapshot.store.read("sites", int(snapshot.table.starts[block]), len(numbers))
        np.testing.assert_allclose(found[:, 0, 0], wanted.precision[numbers], atol=1e-6)
        np.testing.assert_allclose(found[:, 0, 1], wanted.precision_mean[numbers], atol=1e-6)
    said = model.predict(X, return_std=True) if real else [model.predict_proba(X)]
    assert all(np.isfinite(one).all() for one in said)


def test_blocks_of_one_row_are_fitc_and_one_block_is_the_exact_process(rows):
    X, y = rows
    X, y = X[:60], y[:60]
    settings = {**PLAIN, "likelihood": Gaussian(0.02)}
    targets = (y - y.mean()) / y.std()
    single = StreamGPRegressor(12, **settings, inference=Local(1)).fit(X, y)
    explained, residual = fitc_dense.prior(KERNEL, X[single.active_rows_], X, JITTER64)
    fitc = fitc_dense.fitc_regression(explained, residual, 0.02, targets)
    evidence = next(entry["log_evidence"] for entry in single.history_ if "log_evidence" in entry)
    assert evidence == pytest.approx(fitc, rel=1e-8)

    whole = StreamGPRegressor(12, **settings, inference=Local()).fit(X, y)
    gram = kernels_dense.block(KERNEL, X, X) + 0.02 * np.eye(len(X))
    new = np.random.default_rng(1).uniform(-3, 3, (20, 2))
    cross = kernels_dense.block(KERNEL, new, X)
    mean = cross @ np.linalg.solve(gram, targets)
    variance = 4.0 - np.einsum("ij,ji->i", cross, np.linalg.solve(gram, cross.T))
    found = whole.model_.snapshot.by_block(0, new)
    np.testing.assert_allclose(found.mean[:, 0], mean, atol=1e-8)
    np.testing.assert_allclose(found.variance[:, 0], variance, atol=1e-8)
    np.testing.assert_allclose(whole.predict(new), y.mean() + y.std() * mean, atol=1e-8)


def test_chunks_batches_and_copies_do_not_matter(rows, make_store, tmp_path, caplog):
    X, y = rows
    settings = {**PLAIN, "inference": Local(60), "n_active": 15}
    one, other = (
        streamgp.fit_stream(make_store(X, (y > 0).astype(int), chunk_rows=size), **settings)
        for size in (300, 37)
    )
    same_bits(one, other)
    new = np.random.default_rng(0).uniform(-3.5, 3.5, (90, 2))
    whole = one.predict_proba(new)
    pieces = [one.predict_proba(new[start : start + 7]) for start in range(0, 90, 7)]
    np.testing.assert_allclose(np.concatenate(pieces), whole, atol=1e-9)
    one.predict_stream(make_store(new, np.zeros(90), chunk_rows=20), tmp_path / "out.zarr")
    streamed = zarr.open_group(tmp_path / "out.zarr", mode="r")["probability"][:]
    np.testing.assert_allclose(streamed, whole, atol=1e-6)
    labels = one.predict(new)
    np.testing.assert_array_equal(labels, np.argmax(whole, axis=1))
    score = one.evaluate_stream((new, labels))
    assert score.error == 0.0
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(one)).predict_proba(new), whole)
    for name in ("model.zip", "model.zarr"):
        with caplog.at_level("WARNING"):
            one.save(tmp_path / name)
        assert re.search(r"contains the training rows of the model: [\d.]+ [KM]iB", caplog.text)
        loaded = streamgp.load(tmp_path / name)
        np.testing.assert_array_equal(loaded.predict_proba(new), whole)
        loaded.save(tmp_path / f"again-{name}")
        same_bits(streamgp.load(tmp_path / f"again-{name}"), one)


@pytest.mark.parametrize("kind", ["real", "three classes"])
def test_chunks_and_batches_do_not_matter_to_other_targets(rows, make_store, tmp_path, kind):
    X, y = rows
    real, targets = kind == "real", y if kind == "real" else np.digitize(y, [-0.4, 0.4])
    settings = {**PLAIN, "inference": Local(60), "n_active": 15}
    one, other = (
        streamgp.fit_stream(make_store(X, targets, chunk_rows=size), **settings) for size in (300, 37)
    )
    new = np.random.default_rng(0).uniform(-3.5, 3.5, (60, 2))

    def said(model, batch):
        return np.stack(model.predict(batch, return_std=True), axis=1) if real else model.predict_proba(batch)

    whole = said(one, new)
    np.testing.assert_allclose(said(other, new), whole, atol=1e-9)  # the mean of real targets is a sum
    pieces = [said(one, new[start : start + 7]) for start in range(0, 60, 7)]
    np.testing.assert_allclose(np.concatenate(pieces), whole, atol=1e-6)
    found = {}
    for size in (60, 11):
        one.predict_stream(make_store(new, np.zeros(60), chunk_rows=size), tmp_path / f"{size}.zarr")
        stored = zarr.open_group(tmp_path / f"{size}.zarr", mode="r")
        found[size] = stored["mean" if real else "probability"][:]
    np.testing.assert_allclose(found[11], found[60], atol=1e-9)
    np.testing.assert_allclose(found[60], whole[:, 0] if real else whole, atol=1e-6)


@pytest.mark.parametrize("likelihood", [Gaussian(0.05), Probit(0.1)], ids=["real", "classes"])
def test_groups_may_be_written_one_by_one_or_several_at_once(rows, make_store, monkeypatch, likelihood):
    X, y = (np.concatenate([part] * 12) for part in rows)
    X = X + 0.01 * np.random.default_rng(0).standard_normal(X.shape)
    settings = {**PLAIN, "inference": Local(30), "n_active": 10, "likelihood": likelihood}
    targets = y if isinstance(likelihood, Gaussian) else (y > 0).astype(int)
    store, fits, asked = make_store(X, targets, chunk_rows=100), [], []
    collect = group.collect_groups
    monkeypatch.setattr(
        group, "collect_groups", lambda shared, *two: asked.append(two) or collect(shared, *two)
    )
    for wanted in (10**6, 1):
        monkeypatch.setattr("streamgp.training.local.WANTED_TASKS", wanted)
        fits.append(streamgp.fit_stream(store, **settings))
    sizes = {stop - first for first, stop in asked}
    assert 1 in sizes
    assert max(sizes) > 1
    same_bits(*fits)


def test_a_wave_of_rows_makes_each_head_once(rows, make_store, tmp_path, monkeypatch):
    X, y = rows
    model = StreamGPClassifier(15, **PLAIN, inference=Local(60)).fit(X, (y > 0).astype(int))
    store = make_store(X, (y > 0).astype(int), chunk_rows=20)
    wanted, snapshot, made = model.predict_proba(X), model.model_.snapshot, []
    latents = LocalSnapshot._latents
    monkeypatch.setattr(
        LocalSnapshot, "_latents", lambda snapshot, block: made.append(block) or latents(snapshot, block)
    )
    snapshot.recent.resize(0)  # forgets the heads that it holds
    model.predict_stream(store, tmp_path / "whole.zarr")
    assert sorted(made) == list(range(snapshot.table.n_blocks))
    monkeypatch.setattr(waves, "row_bytes", lambda *sizes: 2**62)  # no room: a wave is a single span
    model.predict_stream(store, tmp_path / "spans.zarr")
    for name in ("whole", "spans"):
        written = zarr.open_group(tmp_path / f"{name}.zarr", mode="r")["probability"][:]
        np.testing.assert_allclose(written, wanted, atol=1e-6)


def test_the_tree_of_centres_is_made_once(rows, monkeypatch):
    X, y = rows
    model, trees = StreamGPRegressor(15, **PLAIN, inference=Local(30)).fit(X, y), []
    plain = pickle.dumps(model)
    wanted, tree = pickle.loads(plain).predict(X), nearest.cKDTree
    monkeypatch.setattr(nearest, "TREE_CENTRES", 4)
    monkeypatch.setattr(nearest, "cKDTree", lambda centres: trees.append(1) or tree(centres))
    for start in range(0, 300, 50):
        batch = slice(start, start + 50)
        np.testing.assert_allclose(model.predict(X[batch]), wanted[batch], rtol=1e-9)
    assert len(trees) == 1
    assert len(pickle.dumps(model)) == len(plain)  # it is not sent to others


def test_waves_hold_what_there_is_room_for():
    spans = [Span(number, 10 * number, 10 * number + size) for number, size in enumerate([10, 10, 5, 8, 10])]
    found = [[span.rows for span in wave] for wave in waves.waves(spans, 20)]
    assert found == [[10, 10], [5, 8], [10]]
    assert [len(wave) for wave in waves.waves(spans, 0)] == [1] * 5


def test_damage_is_found_when_a_block_is_read(rows, tmp_path):
    X, y = rows
    model = StreamGPRegressor(15, **PLAIN, inference=Local(60)).fit(X, y)
    model.save(tmp_path / "model.zarr")
    chunk = next(path for path in (tmp_path / "model.zarr/blocks/sites").rglob("c/*/*/*"))
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 255
    chunk.write_bytes(bytes(data))
    with pytest.raises(ModelFileError, match="sites"):
        streamgp.load(tmp_path / "model.zarr").predict(X)  # by load where its witness is asked of that block


@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_damage_after_loading_is_a_fault_of_the_model_file(rows, tmp_path, kind):
    """The file goes bad, or away, while the model is in use: nothing of it was read before it was needed."""
    X, y = rows
    path = tmp_path / ("model.zip" if kind == "zip" else "model.zarr")
    StreamGPRegressor(15, **PLAIN, inference=Local(60)).fit(X, y).save(path)
    loaded = streamgp.load(path)
    files = (
        [path] if kind == "zip" else [each for each in (path / "blocks").rglob("c/*/*/*") if each.is_file()]
    )
    for each in files:
        data = bytearray(each.read_bytes())
        data[: len(data) * 9 // 10] = bytes(255 - byte for byte in data[: len(data) * 9 // 10])
        each.write_bytes(bytes(data))
    with pytest.raises(ModelFileError, match="model"):
        loaded.predict(X)


@pytest.mark.parametrize("kind", ["two classes", "three classes", "real"])
def test_threads_and_clusters_give_the_same_bits(rows, make_store, cluster_client, tmp_path, kind):
    X, y = rows
    targets = {"two classes": (y > 0).astype(int), "three classes": np.digitize(y, [-0.4, 0.4]), "real": y}
    path = make_store(X, targets[kind], chunk_rows=50)
    settings = {**PLAIN, "inference": Local(60), "n_active": 15, "scratch": tmp_path / "scratch"}
    one = streamgp.fit_stream(path, **settings)
    other = streamgp.fit_stream(path, client=cluster_client, **settings)
    assert one.model_.snapshot.table.n_blocks > 2
    same_bits(one, other)
    np.testing.assert_array_equal(one.predict_latent(X), other.predict_latent(X))
    for model, place in ((one, "threads"), (other, "cluster")):
        model.predict_stream(path, tmp_path / place)
    first, second = (zarr.open_group(tmp_path / place, mode="r") for place in ("threads", "cluster"))
    assert len(list(first.array_keys())) > 1
    for name in first.array_keys():
        np.testing.assert_array_equal(first[name][:], second[name][:])
    assert not list((tmp_path / "scratch").iterdir())


def test_a_curve_has_no_seams_where_blocks_meet():
    """Between 60,000 points no step is larger than those of the exact process, and no bend is visible."""
    generator = np.random.default_rng(0)
    X = generator.uniform(-3, 3, (400, 1))
    y = np.sin(3 * X[:, 0]) + 0.1 * generator.standard_normal(400)
    settings = {**PLAIN, "kernel": RBF(1.0, 0.5), "likelihood": Gaussian(0.02)}
    line = np.linspace(-2.9, 2.9, 60_001)[:, None]

    def curves(*blocks):
        model = StreamGPRegressor(8, **settings, inference=Local(*blocks)).fit(X, y)
        return model.model_.snapshot.table.n_blocks, *model.predict(line, return_std=True)

    _, exact, spread = curves(400)
    blocks, mean, deviation = curves(40)
    assert blocks > 5
    np.testing.assert_allclose(mean, exact, atol=0.03)  # noise has a deviation of 0.14
    steepest = np.abs(np.diff(exact)).max()
    assert np.abs(np.diff(mean)).max() < 1.1 * steepest
    assert np.abs(np.diff(deviation)).max() < 1.1 * np.abs(np.diff(spread)).max()
    assert np.abs(np.diff(mean, 2)).max() < 0.2 * steepest  # the slope hardly changes at once
    _, alone, _ = curves(40, 1)
    assert np.abs(np.diff(alone)).max() > 10 * steepest  # a block alone has seams


def test_large_models_keep_their_rows_on_disk(rows, monkeypatch, tmp_path):
    X, y = rows
    monkeypatch.setattr("streamgp.training.local.MEMORY_SHARE", 2**40)
    settings = {**PLAIN, "inference": Local(60), "scratch": tmp_path}
    model = StreamGPRegressor(15, **settings).fit(X, y)
    [folder] = tmp_path.iterdir()
    wanted = model.predict(X)
    copy = pickle.loads(pickle.dumps(model))
    del model
    assert not folder.exists()
    np.testing.assert_array_equal(copy.predict(X), wanted)


HOLD = """
import sys, time
from pathlib import Path
from streamgp.persistence.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_rows_in_blocks_are_of_one_fit_at_a_time(rows, tmp_path):
    """Of two machines, say, whose checkpoints have one name, but each its own disk."""
    X, y = rows
    settings = {**PLAIN, "inference": Local(60), "checkpoint": tmp_path / "c", "scratch": tmp_path / "s"}
    StreamGPRegressor(15, **settings).fit(X, y)
    [folder] = (tmp_path / "s").iterdir()
    with subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline()
        shutil.rmtree(tmp_path / "c")
        with pytest.raises(CheckpointError, match=f"in use by process {other.pid} on .*scratch="):
            StreamGPRegressor(15, **settings).fit(X, y)
        assert (folder / "blocks").exists()
        other.kill()
    StreamGPRegressor(15, **settings).fit(X, y)  # the lock went with its process


def test_rows_in_blocks_that_another_fit_has_overwritten_are_not_resumed_with(rows, tmp_path, monkeypatch):
    X, y = rows
    settings = {**PLAIN, "inference": Local(60), "checkpoint": tmp_path / "c", "scratch": tmp_path / "s"}
    with monkeypatch.context() as patched:
        killed_at(patched, infer_local, "write_final_sites")
        with pytest.raises(KeyboardInterrupt):
            StreamGPRegressor(15, **settings).fit(X, y)
    (tmp_path / "c").rename(tmp_path / "away")  # as if another machine had a disk of the same name
    StreamGPRegressor(15, **settings).fit(X, -y)
    shutil.rmtree(tmp_path / "c")
    (tmp_path / "away").rename(tmp_path / "c")
    with pytest.raises(CheckpointError, match=r"of another fit.*scratch="):
        StreamGPRegressor(15, **settings).fit(X, y)


def test_rows_of_a_model_whose_process_was_killed_are_swept(rows, monkeypatch, tmp_path):
    X, y = rows
    monkeypatch.setattr("streamgp.training.local.MEMORY_SHARE", 2**40)
    settings = {**PLAIN, "inference": Local(60), "scratch": tmp_path}
    model = StreamGPRegressor(15, **settings).fit(X, y)
    [living] = tmp_path.iterdir()
    left = living.with_name("streamgp-blocks-left")
    left.mkdir()
    with subprocess.Popen([sys.executable, "-c", HOLD, str(left)], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline()
        StreamGPRegressor(15, **settings).fit(X, y)
        assert left.exists()
        other.kill()
    StreamGPRegressor(15, **settings).fit(X, y)
    assert list(tmp_path.iterdir()) == [living]
    assert np.isfinite(model.predict(X)).all()


def test_a_weight_counts_a_row_as_often(rows):
    X, y = rows
    X, labels = X[:50], (y[:50] > 0).astype(int)
    weights = 1.0 + (np.arange(50) % 3 == 0)
    settings = {**PLAIN, "likelihood": Probit(0.0), "inference": Local(**TIGHT)}
    weighted = StreamGPClassifier(8, **settings).fit(X, labels, sample_weight=weights)
    twice = np.repeat(np.arange(50), weights.astype(int))
    gram = kernels_dense.block(KERNEL, X[twice], X[twice])
    sites = fitc_dense.full_ep(gram, Probit(0.0), np.where(labels[twice] > 0, 1.0, -1.0))
    mean, _ = fitc_dense.gaussian_posterior(gram, sites.precision, sites.precision_mean)
    scale, offset, *_ = weighted.model_.snapshot.calibrations[0]
    found = (weighted.predict_latent(X)[0] - offset) / scale
    np.testing.assert_allclose(found[twice], mean, atol=1e-5)
    shares = [
        np.mean(StreamGPClassifier(8, class_weight={1: w}, **settings).fit(X, labels).predict(X))
        for w in (0.02, 50.0)
    ]
    assert shares[0] < labels.mean() < shares[1]


def test_rows_held_out_are_never_learned_from(rows):
    X, y = rows
    labels = (y > 0).astype(int)
    wrong = labels.copy()
    wrong[::7] = np.sort(labels[::7])  # as many of each class: their counts are known to the fit
    settings = {**PLAIN, "inference": Local(60), "validation": np.arange(0, 300, 7)}
    one, other = (StreamGPClassifier(15, **settings).fit(X, targets) for targets in (labels, wrong))
    same_bits(one, other)


SCRIPT = """
import sys, streamgp
from streamgp.kernels import RBF
from streamgp.settings import Local
model = streamgp.fit_stream(
    sys.argv[1], n_active=20, random_state=5, checkpoint=sys.argv[2], kernel=RBF(4.0, 1.0),
    selection="random", inference=Local(100, tolerance=1e-6), learn_hyperparameters=False,
    memory_budget="200MiB",
)
model.save(sys.argv[3])
"""


def test_killed_and_resumed_is_the_same_model(tmp_path):
    store = tmp_path / "train.zarr"
    write_store(store, 3000, n_features=4, chunk_rows=300)

    def start(name):
        arguments = [str(store), str(tmp_path / name / "checkpoint"), str(tmp_path / name / "model.zip")]
        return subprocess.Popen([sys.executable, "-c", SCRIPT, *arguments])

    for name in ("whole", "broken"):
        (tmp_path / name).mkdir()
    assert start("whole").wait() == 0
    killed = 0
    for mark in ("sites-of-*/runs/run-*", "sites-of-*/blocks/features/c/*/*", "sites-of-*/sites-00003/c/*"):
        process, deadline = start("broken"), time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if next((tmp_path / "broken" / "checkpoint").glob(mark), None) is not None:
                process.kill()
                killed += 1
            time.sleep(0.001)
        process.wait()
    assert killed
    assert start("broken").wait() == 0
    one, other = (streamgp.load(tmp_path / name / "model.zip") for name in ("whole", "broken"))
    same_bits(one, other)


@pytest.mark.parametrize("removed", ["nothing", "some", "all"])
def test_killed_while_runs_are_removed_and_resumed_is_the_same_model(rows, tmp_path, monkeypatch, removed):
    X, y = rows
    settings = {**PLAIN, "inference": Local(60)}
    whole = StreamGPRegressor(15, **settings).fit(X, y)
    really = shutil.rmtree

    def killed(path, **options):
        if "runs" not in path.name or not path.exists():
            return really(path, **options)
        if removed == "some":
            next(path.rglob("features.npy")).unlink()
        elif removed == "all":
            really(path)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(group.shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            StreamGPRegressor(15, **settings, checkpoint=tmp_path / "c").fit(X, y)
    same_bits(StreamGPRegressor(15, **settings, checkpoint=tmp_path / "c").fit(X, y), whole)
    assert not list(tmp_path.rglob("runs*"))


def killed_at(monkeypatch, owner, name, *, after=False):
    """From now on the first call of a function ends the process, when it begins or when it is done."""
    really = getattr(owner, name)

    def killed(*arguments, **options):
        if after:
            really(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, killed)


LATER = {
    "runs are written anew": (group.WriteRuns, "finish"),
    "groups are written": (group, "collect_groups"),
    "a sweep": (SiteSweep, "finish"),
    "final sites": (local_sites, "_write_groups"),
}


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("real", [False, True], ids=["classes", "real"])
def test_killed_twice_and_resumed_is_the_same_model(rows, tmp_path, monkeypatch, real, later):
    X, y = rows
    settings = {**PLAIN, "inference": Local(60)}
    kind, targets = (StreamGPRegressor, y) if real else (StreamGPClassifier, (y > 0).astype(int))
    whole = kind(15, **settings).fit(X, targets)
    for owner, name, after in ((group, "_remove_at_once", True), (*LATER[later], False)):
        with monkeypatch.context() as patched:
            killed_at(patched, owner, name, after=after)
            with pytest.raises(KeyboardInterrupt):
                kind(15, **settings, checkpoint=tmp_path / "c").fit(X, targets)
    same_bits(kind(15, **settings, checkpoint=tmp_path / "c").fit(X, targets), whole)
    assert not list(tmp_path.rglob("runs*"))


def test_a_finished_fit_is_found_finished(rows, tmp_path):
    X, y = rows
    settings = {**PLAIN, "inference": Local(60), "checkpoint": tmp_path / "c", "scratch": tmp_path / "s"}
    one = StreamGPRegressor(15, **settings).fit(X, y)
    other = StreamGPRegressor(15, **settings).fit(X, y)
    assert other.history_ == one.history_
    same_bits(one, other)
    with pytest.raises(CheckpointError, match="scratch="):
        StreamGPRegressor(15, **{**settings, "scratch": tmp_path / "elsewhere"}).fit(X, y)


ODD = {**PLAIN, "inference": Local(50)}


class TestOddData:
    """Correct models of data that break assumptions."""

    def test_all_rows_identical(self):
        y = np.random.default_rng(0).standard_normal(240) + 3.0
        model = StreamGPRegressor(5, **ODD, likelihood=Gaussian(1.0)).fit(np.ones((240, 2)), y)
        assert model.model_.snapshot.table.n_blocks > 1
        mean, deviation = model.predict(np.ones((3, 2)), return_std=True)
        np.testing.assert_allclose(mean, y.mean(), atol=0.1)
        np.testing.assert_allclose(deviation, y.std(), rtol=0.15)

    def test_duplicates_and_one_block_far_larger_than_the_others(self, rows):
        X, y = rows
        crowd = np.concatenate([np.repeat(X[:1], 400, axis=0), X])
        targets = np.concatenate([np.repeat(y[:1], 400), y])
        model = StreamGPRegressor(15, **ODD, likelihood=Gaussian(0.05)).fit(crowd, targets)
        assert model.model_.snapshot.table.counts.max() <= 75
        assert abs(model.predict(X[:1])[0] - y[0]) < 0.05
        assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < 0.2

    def test_blocks_of_one_class_and_a_feature_that_never_changes(self, rows):
        X, _ = rows
        wide = np.column_stack([X, np.full(300, 7.0)])
        labels = (X[:, 0] > 1.5).astype(int)
        model = StreamGPClassifier(15, **{**ODD, "standardize": True}).fit(wide, labels)
        probability = model.predict_proba(wide)
        assert np.isfinite(probability).all()
        assert np.mean(model.predict(wide) != labels) < 0.03

    def test_far_rows_fall_back_to_the_inducing_inputs(self, rows):
        X, y = rows
        model = StreamGPRegressor(15, **ODD, likelihood=Gaussian(0.05)).fit(X, y)
        mean, variance = model.predict_latent(np.full((1, 2), 1e3))
        assert mean[0] == pytest.approx(0.0, abs=1e-12)
        assert variance[0] == pytest.approx(4.0 * model.model_.snapshot.calibrations[0].variance_scale)


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"multiclass": "joint"}, "multiclass='joint'.*inference='fitc'"),
        ({"learn_hyperparameters": "passes"}, "passes.*inference='fitc'"),
        ({"multiclass": "per_class"}, "per_class.*local"),
    ],
)
def test_settings_that_cannot_act_are_refused(settings, names):
    with pytest.raises(ParameterError, match=names):
        StreamGPClassifier(inference="local", **settings).fit(np.zeros((10, 1)), np.arange(10) % 2)


@pytest.mark.parametrize(
    "wrong", [{"block_rows": 0}, {"block_rows": "many"}, {"neighbours": 0}, {"tolerance": 0.0}]
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        Local(**wrong)


def test_several_classes_share_their_blocks(rows, monkeypatch):
    X, _ = rows
    labels = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [-1.0, 1.0])]
    model = StreamGPClassifier(12, **ODD).fit(X[:200], labels[:200])
    probability = model.predict_proba(X[200:])
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert np.mean(model.predict(X[200:]) == labels[200:]) > 0.9
    scales = {one.mean_scale for one in model.model_.snapshot.calibrations}
    assert len(scales) == 1  # one temperature for all classes
    # Of many classes no head is held whole: each class has its turn, with the same result.
    monkeypatch.setattr(snapshot, "MOST_HELD", 2)
    model.model_.snapshot.recent.resize(0)
    np.testing.assert_array_equal(model.predict_proba(X[200:]), probability)
    shape = (KERNEL, 1000, 300, 16)
    assert snapshot.local_snapshot_bytes(*shape, 100) == snapshot.local_snapshot_bytes(*shape, 26)


def disk_bytes(folder):
    """What a file system of blocks of 4 KiB takes for files and folders."""
    entries = [path for path in folder.rglob("*") if path.name != "LOCK"]
    return sum(4096 * (-(-path.stat().st_size // 4096) if path.is_file() else 1) for path in entries)


@pytest.mark.parametrize(("n_features", "n_active"), [(2, 5), (2, 60), (40, 5)])
def test_the_plan_knows_the_disk_that_blocks_take(n_features, n_active, tmp_path, monkeypatch):
    """Narrow rows take most of it when sites are written, wide ones while they are on their way to blocks."""
    generator, taken = np.random.default_rng(0), {"grouped": 0, "swept": 0}
    X = generator.standard_normal((12_000, n_features))
    y = (X[:, 0] > 0).astype(int)

    def looked_at(name, step):
        def work(*arguments):
            before = disk_bytes(tmp_path) if name == "grouped" else 0
            found = step(*arguments)
            taken[name] = max(taken[name], before or disk_bytes(tmp_path))
            return found

        return work

    monkeypatch.setattr(group, "_remove_at_once", looked_at("grouped", group._remove_at_once))
    monkeypatch.setattr(infer_local, "write_final_sites", looked_at("swept", infer_local.write_final_sites))
    settings = {**PLAIN, "kernel": RBF(4.0, 1.0 + 0.2 * n_features), "inference": Local(100)}
    model = StreamGPClassifier(n_active, **settings, scratch=tmp_path).fit(X, y)
    table = model.model_.snapshot.table
    plan = plan_fit(open_rows((X, y)), fit_settings(model.get_params(deep=False), 0))
    assert table.group_rows == plan.demand.group_rows
    assert abs(plan.demand.n_places / (table.n_groups * table.group_rows) - 1.0) < 0.15
    assert plan.scratch_bytes == pytest.approx(max(taken.values()), rel=0.1)
    assert (taken["grouped"] > taken["swept"]) == (n_features == 40)
    tight = {**model.get_params(deep=False), "inference": Local(), "memory_budget": "60MiB"}
    assert plan_fit(open_rows((X, y)), fit_settings(tight, 0)).block_sizes.target < 500


@pytest.mark.parametrize("target", [100, 500, 700])
def test_the_plan_knows_the_places_of_many_blocks(target):
    """Block sizes as they come of ten million rows: a quarter of the mean is their deviation."""
    generator, n_rows = np.random.default_rng(0), 10_000_000
    features = as_column(np.broadcast_to(np.float32(0.0), (n_rows, 8)), "X")
    sizes = block_sizes(target, n_rows)
    demand = Demand(Rows(features, None, n_rows), RBF(), 100, 1, 4, block_sizes=sizes)
    counts = generator.normal(0.96 * target, 0.24 * target, int(1.1 * n_rows / target)).astype(int)
    counts = np.clip(counts, sizes.least, sizes.most)
    counts = counts[np.cumsum(counts) <= n_rows]
    places = (pack(counts, demand.group_rows)[-1] // demand.group_rows + 1) * demand.group_rows
    assert demand.n_places == pytest.approx(places, rel=0.01)


def test_a_disk_without_room_is_told_before_the_first_pass(rows, make_store, monkeypatch, tmp_path):
    X, y = rows
    usage, path = namedtuple("usage", "total used free"), make_store(X, (y > 0).astype(int))
    settings = {**PLAIN, "n_active": 10, "inference": Local(60), "scratch": tmp_path}
    monkeypatch.setattr(scratch.shutil, "disk_usage", lambda _: usage(100, 90, 10))
    with pytest.raises(BudgetError, match=r"need [\d.]+ [KM]iB of disk, but \d+ B are free"):
        streamgp.fit_stream(path, **settings)
    assert not list(tmp_path.rglob("run-*"))


@pytest.mark.parametrize("likelihood", [StudentT(), Poisson()], ids=["StudentT", "Poisson"])
def test_other_likelihoods_have_sites_too(likelihood):
    generator = np.random.default_rng(0)
    X = generator.uniform(-3, 3, (200, 2))
    f = np.sin(X[:, 0])
    counts = isinstance(likelihood, Poisson)
    y = generator.poisson(np.exp(f)).astype(float) if counts else f + 0.1 * generator.standard_t(2, 200)
    model = StreamGPRegressor(10, **ODD, likelihood=likelihood).fit(X, y)
    truth = np.exp(f) if counts else f
    assert np.sqrt(np.mean((model.predict(X) - truth) ** 2)) < (0.6 if counts else 0.15)


def test_where_the_sample_is_small_more_rows_are_drawn_to_group_by(monkeypatch):
    generator = np.random.default_rng(4)
    # Half of the rows lie in a corner, where a sample of 300 has too few rows for 60 blocks.
    X = generator.uniform(0, 1, (6000, 2)) * np.where(np.arange(6000) % 2, 0.1, 1.0)[:, None]
    monkeypatch.setattr(plan.MemoryPlan, "candidates_at", lambda self, n_active, itemsize=8: 300)
    model = StreamGPRegressor(5, inference=Local(block_rows=50), **PLAIN).fit(X, X[:, 0])
    told = next(entry for entry in model.history_ if "cut" in entry)
    assert told["cut"] == 0
    assert told["block_rows"][2] <= 75
    _, heads = blocks_of(model, 6000)
    spread = np.mean([np.ptp(X[rows], axis=0).max() for rows in heads])
    assert spread < 0.2
