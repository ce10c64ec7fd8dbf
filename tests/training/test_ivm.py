"""The IVM end to end: against the textbook, against the original MATLAB code, on data that break things."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.io
from scipy.stats import norm

import streamgp
from streamgp.inference.active_set import ActiveSet, Candidates
from streamgp.kernels import RBF, Constant, Linear, White
from streamgp.likelihoods import Gaussian, Probit
from streamgp.selection import IVM
from streamgp.settings import ADF
from streamgp.training.greedy import Learner, grow
from streamgp.training.select.watch import NO_GAIN, NO_TIME, PATIENCE, Looks
from tests.conftest import SHARED_DATA
from tests.reference import ivm_dense

EXACT = {
    "learn_hyperparameters": False,
    "inference": ADF(calibrate=False),
    "validation": False,
    "standardize": False,
}


def probit_moments(target, mean, variance):
    z = target * mean / np.sqrt(1 + variance)
    slope = target * np.exp(norm.logpdf(z) - norm.logcdf(z)) / np.sqrt(1 + variance)
    return slope, slope * (slope + mean / (1 + variance))


def gaussian_moments(target, mean, variance):
    return (target - mean) / (variance + 0.1), 1 / (variance + 0.1)


@pytest.fixture(scope="module", params=["usps", "ijcnn1", "generated"])
def rows(request, shared_data):
    if request.param == "generated":
        generator = np.random.default_rng(0)
        X = generator.standard_normal((2000, 10))
        return X, np.where(X[:, 0] * X[:, 1] > 0.2 * generator.standard_normal(2000), 1.0, -1.0), 3.0
    data = shared_data(request.param)
    X, y = data["X_train"][:2000].astype(np.float64), data["y_train"][:2000]
    return X, np.where(y == (4 if request.param == "usps" else 1), 1.0, -1.0), float(np.sqrt(X.var(0).sum()))


@pytest.mark.parametrize("score", ["information_gain", "entropy_reduction"])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_active_set_is_that_of_the_textbook_for_any_chunking(rows, make_store, score, task):
    X, y, lengthscale = rows
    kernel = RBF(4.0, lengthscale)
    likelihood = Probit() if task == "classification" else Gaussian(0.1)
    y = (y - y.mean()) / y.std() if task == "regression" else y
    found = []
    for chunk_rows in (2000, 300):
        store = make_store(X, y.astype(np.int64) if task == "classification" else y, chunk_rows=chunk_rows)
        model = streamgp.fit_stream(
            store,
            task=task,
            n_active=100,
            selection=IVM(score, hot=None),
            kernel=kernel,
            likelihood=likelihood,
            random_state=0,
            **EXACT,
        )
        found.append(model.active_rows_.tolist())
    assert found[0] == found[1]
    moments = probit_moments if task == "classification" else gaussian_moments
    expected = ivm_dense.select(kernel.gram(X), y, moments, 100, getattr(ivm_dense, score), first=found[0][0])
    assert found[0] == expected.active
    probe = slice(0, 200)
    mean, variance = model.predict_latent(X[probe])
    np.testing.assert_allclose(mean, expected.mean[probe], atol=1e-8)
    np.testing.assert_allclose(variance, expected.variance[probe], atol=1e-8)


def test_the_active_set_is_that_of_the_original_matlab_code():
    """Conventions: its probit has noise variance σ² = 1e-6, Φ(y (f + bias)/√(σ² + a)); ours has 1.

    So f is measured in units of σ: kernel variances are divided by σ², the bias by σ. Its inverseWidth 1 is
    our lengthscale 1; its white noise is in the variance of training rows, as ours; it counts rows from 1;
    its ``beta`` is our precision (times σ²), its ``m`` our site mean (over σ).
    """
    path = SHARED_DATA / "oracles" / "lawrence_ivm_probit.mat"
    if not path.exists():
        pytest.skip("the MATLAB oracle is not here")
    oracle = scipy.io.loadmat(path, squeeze_me=True, struct_as_record=False)
    X, y, info = oracle["X"].astype(float), oracle["y"].astype(float), oracle["ivmInfoInit"]
    noise, small = 1e-6, 0.1353352832366127
    kernel = RBF(1 / noise, 1.0) + Linear(1 / noise) + Constant(small / noise) + White(small / noise)
    likelihood = Probit(bias=0.1611185885107453 / np.sqrt(noise))
    candidates = Candidates.new(np.arange(500), X, y, kernel, 50)
    learner = Learner(ActiveSet.empty(50, 2), candidates, likelihood)
    selection = IVM("entropy_reduction", hot=None)
    [active] = grow([learner], kernel, selection, 50, np.random.default_rng(0))
    assert (active.rows + 1).tolist() == info.I.tolist()
    precision = info.beta.toarray().ravel()[active.rows]
    site_mean = info.m.toarray().ravel()[active.rows]
    np.testing.assert_allclose(active.precision / noise, precision, rtol=1e-8)
    np.testing.assert_allclose(
        active.precision_mean / active.precision * np.sqrt(noise), site_mean, rtol=1e-8
    )


@pytest.fixture(scope="module")
def imbalanced():
    generator = np.random.default_rng(1)
    X = generator.standard_normal((20_000, 3))
    X[:20] += 3.0  # 1 : 1000
    return X, np.where(np.arange(20_000) < 20, 1, 0)


def test_a_rare_class_is_never_lost(imbalanced, make_store):
    X, y = imbalanced
    model = streamgp.fit_stream(
        make_store(X, y, chunk_rows=1000), n_active=60, memory_budget="8MiB", random_state=0, selection="ivm"
    )
    assert np.isin(model.active_rows_, np.arange(20)).sum() >= 5
    p = model.predict_proba(X)[:, 1]
    assert np.all(np.isfinite(p))
    assert p[:20].mean() > 50 * p[20:].mean()


@pytest.mark.parametrize("refresh", [1.0, 0.34])
def test_streaming_with_few_candidates_comes_near_to_full_greedy(generator, make_store, refresh):
    centres = 4 * generator.standard_normal((12, 8))
    codes = generator.integers(0, 12, 20_000)
    X, y = centres[codes] + generator.standard_normal((20_000, 8)), (codes % 2).astype(int)
    settings = {
        "n_active": 150,
        "kernel": RBF(30.0, 3.0),
        "learn_hyperparameters": False,
        "random_state": 0,
        "selection": IVM(refresh=refresh),
    }
    store = make_store(X[:15_000], y[:15_000], chunk_rows=1000)
    full = streamgp.fit_stream(store, memory_budget="1GiB", **settings)
    few = streamgp.fit_stream(store, memory_budget="8MiB", **settings)
    candidates = [entry["candidates"] for entry in few.history_ if entry["stage"] == "select: ivm"]
    assert len(candidates) >= 2
    assert max(candidates) < 5000
    one, other = (model.evaluate_stream((X[15_000:], y[15_000:])) for model in (full, few))
    assert one.error < 0.02
    assert abs(one.error - other.error) < 0.01
    assert abs(one.log_loss - other.log_loss) < 0.02


@pytest.mark.parametrize(
    "make",
    [
        lambda X, y: (np.zeros_like(X), y),  # all rows identical
        lambda X, y: (np.repeat(X[:200], 2, axis=0), np.tile([0, 1], 200)),  # duplicates of opposite labels
        lambda X, y: (X * np.array([1e12, 1e-12]), y),
        lambda X, y: (X[np.argsort(y, kind="stable")], np.sort(y)),  # every chunk has one label
        lambda X, y: (X[:3], np.array([0, 1, 1])),
    ],
    ids=["identical", "contradicting", "scales", "sorted", "three rows"],
)
@pytest.mark.parametrize("learn", [True, False])
def test_awkward_data_give_a_finite_model(generator, make_store, make, learn):
    X = generator.standard_normal((400, 2))
    X, y = make(X, (X[:, 0] > 0).astype(int))
    model = streamgp.fit_stream(
        make_store(X, y, chunk_rows=50),
        n_active=50,
        learn_hyperparameters=learn,
        random_state=0,
        selection="ivm",
    )
    p = model.predict_proba(X)
    assert np.all(np.isfinite(p))
    np.testing.assert_allclose(p.sum(axis=1), 1)


def test_one_row_chunks_work(generator, make_store):
    X = generator.standard_normal((60, 2))
    store = make_store(X, X[:, 0], chunk_rows=1)
    model = streamgp.fit_stream(
        store, n_active=30, learn_hyperparameters=False, random_state=0, selection="ivm"
    )
    assert np.corrcoef(model.predict(X), X[:, 0])[0, 1] > 0.95


def test_held_out_rows_never_become_active(generator, make_store):
    X = generator.standard_normal((3000, 2))
    y = (X[:, 0] > 0).astype(int)
    held_out = np.arange(0, 3000, 7)
    model = streamgp.fit_stream(
        make_store(X, y),
        n_active=100,
        validation=held_out,
        learn_hyperparameters=False,
        random_state=0,
        selection="ivm",
    )
    assert not np.isin(model.active_rows_, held_out).any()
    looks = [look for entry in model.history_ for look in entry.get("validation", [])]
    assert looks
    assert all(look["log_density"] < 0 for look in looks)


@pytest.mark.parametrize("seed", range(4))
def test_where_there_is_nothing_to_learn_growth_ends_early(make_store, seed, caplog):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((2000, 2))
    y = generator.integers(0, 2, 2000)
    model = streamgp.fit_stream(
        make_store(X, y),
        n_active=1200,
        kernel=RBF(100.0, 0.3),
        learn_hyperparameters=False,
        inference=ADF(calibrate=False),
        random_state=seed,
    )
    assert len(model.active_rows_) < 1200
    assert model.history_[-1]["stopped"] == [NO_GAIN]
    assert "fewer than the 1200 rows asked for" in caplog.text
    assert NO_GAIN in caplog.text


def test_only_what_exceeds_two_standard_errors_is_an_improvement(generator):
    rows = generator.normal(-0.5, 0.2, 400)
    looks = Looks().after(32, rows)
    for step in range(1, PATIENCE + 1):
        noise = generator.standard_normal(400)
        by_chance = rows + noise - noise.mean() + 1.8 * noise.std() / 20.0
        looks = looks.after(32 + step, by_chance)
        assert looks.waited == step
    assert looks.after(99, rows + 0.01).waited == 0
    # Small gains add up: they are compared with the best look, not with the last one.
    slow = Looks().after(32, rows)
    for step in range(1, 10):
        noise = generator.standard_normal(400)
        slow = slow.after(32 + step, rows + 0.004 * step + 0.05 * (noise - noise.mean()))
    assert slow.waited < PATIENCE


def test_a_time_limit_ends_the_growth(generator, make_store):
    X = generator.standard_normal((2000, 2))
    y = generator.integers(0, 2, 2000)
    late = streamgp.fit_stream(
        make_store(X, y), n_active=1000, max_seconds=0.0, learn_hyperparameters=False, selection="ivm"
    )
    assert len(late.active_rows_) < 100
    assert late.history_[0]["stopped"] == [NO_TIME]
    assert np.all(np.isfinite(late.predict_proba(X)))
