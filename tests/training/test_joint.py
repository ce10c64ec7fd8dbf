"""Joint classes end to end: one likelihood of all classes, from a store, interrupted, saved and loaded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

import streamgp
from streamgp.data import ClassTargets
from streamgp.errors import BudgetError, NotConvergedWarning, ParameterError
from streamgp.inference.inducing.basis import make_basis, whiten
from streamgp.inference.inducing.mode import PointTerms
from streamgp.kernels import RBF, Linear, Matern32
from streamgp.likelihoods import Logit, MultivariateProbit, Probit, Softmax
from streamgp.passes.scratch import Scratch
from streamgp.persistence import CheckpointFolder
from streamgp.posterior.calibration import UNCALIBRATED
from streamgp.settings import FITC
from streamgp.training import calibrate
from streamgp.training.heads import inducing_of
from streamgp.training.infer import mode
from streamgp.training.learn import judged
from streamgp.training.learn.judged import Verdict
from tests.reference.joint_ep_dense import joint_ep
from tests.training.test_fitc import same_bits

JOINT = {"multiclass": "joint", "selection": "kmeans", "random_state": 0}
FIXED = {**JOINT, "kernel": RBF(30.0, 1.0), "learn_hyperparameters": False}


def sectors(rows, seed=0, classes=4):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((rows, 2))
    angle = np.arctan2(*X.T) + 0.15 * generator.standard_normal(rows)
    return X, np.floor((angle / (2 * np.pi) + 0.5) * classes).astype(int) % classes


@pytest.mark.parametrize("classes", [3, 26])
def test_probabilities_of_new_rows_are_calibrated(make_store, classes):
    X, y = sectors(3000, classes=classes)
    model = streamgp.fit_stream(make_store(X, y, chunk_rows=700), n_active=50, **JOINT)
    assert model.recipe_ == "learn: judged -> select: kmeans -> infer: mode -> calibrate"
    new, labels = sectors(2000, seed=1, classes=classes)
    p = model.predict_proba(new)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    score = model.evaluate_stream((new, labels))
    shares = -np.log(1.0 / classes)
    assert score.log_loss < 0.6 * shares
    assert score.calibration_error < (0.06 if classes < 10 else 0.15)


def test_the_best_kernel_and_the_best_of_another_kind_are_tried_as_a_sum(make_store):
    X, y = sectors(1500)
    model = streamgp.fit_stream(make_store(X, y, chunk_rows=500), n_active=30, **JOINT)
    [learned] = [entry for entry in model.history_ if entry["stage"] == "learn: judged"]
    *singles, (last, loss) = learned["tried"]
    assert " + " in last
    if " + " in learned["kernel"]:  # it, or one with a linear term
        assert -learned["log_density"] <= min(other for _, other in singles)
    else:
        assert -learned["log_density"] <= loss + 1e-12


def test_kinds_of_kernels_are_families_and_numbers_of_lengthscales():
    losses = np.zeros(3)
    smooth, other = Verdict(RBF(3.0, 1.0) + Linear(0.1), 4, losses), Verdict(RBF(2.0, 0.7), 4, losses - 1.0)
    rough, apart = (
        Verdict(Matern32(5.0, 1.0), 4, losses + 2.0),
        Verdict(RBF(7.0, (1.0, 2.0)), 4, losses + 1.0),
    )
    assert judged._together(smooth, [smooth, other]) == []
    assert judged._together(smooth, [smooth, other, rough]) == [smooth.kernel + rough.kernel]
    assert judged._together(smooth, [other, rough, apart]) == [smooth.kernel + apart.kernel]


@pytest.mark.parametrize("likelihood", [Softmax(), Logit(0.2)])
def test_passes_over_a_store_end_at_the_mode_of_a_dense_optimiser(make_store, likelihood):
    X, y = sectors(6000)
    y = y > 1 if isinstance(likelihood, Logit) else y
    kernel = RBF(2.0, 1.0)
    settings = {**FIXED, "likelihood": likelihood, "selection": "random", "standardize": False}
    model = streamgp.fit_stream(
        make_store(X, y, chunk_rows=500),
        n_active=40,
        memory_budget="4MiB",
        precision="float64",
        validation=False,
        **{**settings, "kernel": kernel, "inference": FITC(tolerance=1e-7, most_sweeps=300)},
    )
    entry = model.history_[-2]
    assert entry["stage"] == "infer: mode"
    assert entry["converged"]
    assert entry["passes"] > 1
    features = whiten(make_basis(kernel, X[model.active_rows_]), X).features
    terms = PointTerms(likelihood, ClassTargets(np.unique(y)))
    k = 1 if isinstance(likelihood, Logit) else 4

    def minus_log_posterior(vector):
        u = vector.reshape(-1, k)
        found = terms(y.astype(float), features @ u)
        return 0.5 * vector @ vector - found.log_density.sum(), (u - features.T @ found.gradient).ravel()

    precise = {"gtol": 1e-6, "maxiter": 5000}
    dense = minimize(minus_log_posterior, np.zeros(40 * k), jac=True, method="BFGS", options=precise)
    assert entry["log_posterior"] == pytest.approx(-dense.fun, rel=1e-6)
    mean, variance = model.predict_latent(X[:300])
    assert not variance.any()
    np.testing.assert_allclose(mean, np.squeeze(features[:300] @ dense.x.reshape(-1, k)), atol=0.02)


def test_a_hundred_classes_are_planned_and_fitted(make_store):
    X, y = sectors(4000, classes=100)
    model = streamgp.fit_stream(make_store(X, y), n_active=60, memory_budget="64MiB", **FIXED)
    assert model.predict_proba(X[:10]).shape == (10, 100)
    assert model.evaluate_stream((X, y)).log_loss < 0.75 * np.log(100)


@pytest.mark.parametrize(("classes", "rows"), [(26, 1000), (100, 1000)])
def test_many_classes_have_variances_too(make_store, classes, rows):
    X, y = sectors(rows, classes=classes)
    settings = {**FIXED, "n_active": 40, "memory_budget": "64MiB", "inference": FITC(residual=1.0)}
    model = streamgp.fit_stream(make_store(X, y, chunk_rows=500), likelihood=MultivariateProbit(), **settings)
    assert model.history_[-2]["converged"]
    p = model.predict_proba(X[:100])
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)
    assert model.evaluate_stream((X, y)).log_loss < 0.8 * np.log(classes)


def test_rows_are_held_where_they_fit_and_else_read_again(make_store):
    X, y = sectors(6000)
    # What is left for rows depends on how many tasks run side by side, and so on the machine's cores.
    few = {**FIXED, "n_active": 40, "validation": False, "precision": "float64", "n_jobs": 1}
    streamed, held, whole = (
        streamgp.fit_stream(make_store(X, y, chunk_rows=500), memory_budget=budget, **few)
        for budget in ("4MiB", "5MiB", "1GiB")
    )
    passes = [model.history_[-2]["passes"] for model in (streamed, held, whole)]
    assert passes[0] > 1
    assert passes[1:] == [1, 0]
    p, q = held.predict_proba(X[:500]), whole.predict_proba(X[:500])
    # Centres differ, as they are those of another sample: the functions are near, not equal.
    assert np.mean(np.abs(p - q)) < 0.05


def test_rows_that_fit_to_16_bits_only_have_the_same_mode(make_store, monkeypatch):
    X, y = sectors(3000)
    store = make_store(X, y, chunk_rows=500)
    # Both searches end at the mode, not where float32 lets them stop.
    settings = {**FIXED, "n_active": 40, "precision": "float32", "inference": FITC(tolerance=1e-6)}
    whole = streamgp.fit_stream(store, **settings)
    monkeypatch.setattr(mode, "rows_that_fit", lambda problem, draft, kind: 3000 * (kind == mode.PACKED))
    packed = streamgp.fit_stream(store, **settings)
    assert [model.history_[-2]["passes"] for model in (whole, packed)] == [0, 1]
    assert packed.history_[-2]["converged"]
    np.testing.assert_allclose(packed.predict_proba(X[:300]), whole.predict_proba(X[:300]), atol=0.02)


def test_a_mode_that_was_not_found_is_told(make_store):
    X, y = sectors(6000)
    short = {**FIXED, "inference": FITC(tolerance=1e-9, most_sweeps=2), "memory_budget": "4MiB"}
    with pytest.warns(NotConvergedWarning, match=r"not found to tolerance=1e-09 .* more than 2"):
        model = streamgp.fit_stream(
            make_store(X, y, chunk_rows=500), n_active=40, precision="float64", **short
        )
    assert not model.history_[-2]["converged"]


def test_two_classes_have_one_function_and_held_out_rows_choose_its_kernel(make_store, tmp_path):
    generator = np.random.default_rng(3)
    X = (generator.random((4000, 30)) < 0.15).astype(np.uint8)
    logit = X @ generator.normal(0.0, 1.5, 30) - 1.0
    y = np.where(logit + generator.logistic(size=4000) > 0.0, "yes", "no")
    store = make_store(X[:3000], y[:3000], chunk_rows=700)
    model = streamgp.fit_stream(store, n_active=60, **JOINT)
    assert model.recipe_ == "learn: judged -> select: kmeans -> infer: mode -> calibrate"
    assert isinstance(model.likelihood_[0], Logit)
    score = model.evaluate_stream((X[3000:], y[3000:]))
    truth = np.mean(np.logaddexp(0.0, np.where(y[3000:] == "yes", -logit[3000:], logit[3000:])))
    assert score.log_loss < 1.1 * truth
    assert score.calibration_error < 0.06
    np.testing.assert_array_equal(
        model.predict(X[3000:]), np.where(model.predict_proba(X[3000:])[:, 1] > 0.5, "yes", "no")
    )
    model.save(tmp_path / "two.zip")
    again = streamgp.load(tmp_path / "two.zip")
    np.testing.assert_array_equal(again.predict_proba(X[:50]), model.predict_proba(X[:50]))


def test_threads_clusters_files_and_chunkings(make_store, cluster_client, tmp_path):
    X, y = sectors(3000)
    path = make_store(X, y, chunk_rows=400)
    settings = {**FIXED, "n_active": 25, "memory_budget": "8MiB"}
    here, there = (streamgp.fit_stream(path, client=client, **settings) for client in (None, cluster_client))
    same_bits(here, there)
    here.save(tmp_path / "model.zip")
    again = streamgp.load(tmp_path / "model.zip")
    np.testing.assert_array_equal(again.predict_proba(X[:50]), here.predict_proba(X[:50]))
    assert again.likelihood_ == here.likelihood_
    other = streamgp.fit_stream(make_store(X, y, chunk_rows=900), **{**settings, "precision": "float64"})
    exact = streamgp.fit_stream(path, **{**settings, "precision": "float64"})
    # The search ends near the mode; how near depends on rounding.
    np.testing.assert_allclose(other.predict_proba(X), exact.predict_proba(X), atol=5e-3)


@pytest.mark.parametrize(
    ("rows", "inference", "budget"), [(12_000, "fitc", "4MiB"), (1500, FITC(residual=0.0), "6MiB")]
)
def test_interrupted_between_passes_is_the_same_model(
    make_store, tmp_path, monkeypatch, rows, inference, budget
):
    X, y = sectors(rows)
    path = make_store(X, y, chunk_rows=1500)
    settings = {**FIXED, "n_active": 40, "memory_budget": budget, "inference": inference}
    whole = streamgp.fit_stream(path, **settings)
    saves = 0

    def save(self, *arguments, original=CheckpointFolder.save):
        nonlocal saves
        original(self, *arguments)
        saves += 1
        if saves == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointFolder, "save", save)
        with pytest.raises(KeyboardInterrupt):
            streamgp.fit_stream(path, checkpoint=tmp_path / "c", **settings)
    same_bits(whole, streamgp.fit_stream(path, checkpoint=tmp_path / "c", **settings))


def test_joint_classes_need_inference_over_all_rows():
    with pytest.raises(ParameterError, match="multiclass='joint' goes only with inference='fitc'"):
        streamgp.fit_stream(sectors(100), selection="random", inference="adf", multiclass="joint")
    with pytest.raises(ParameterError, match="goes only with selection='kmeans', 'random' or 'gain': IVM"):
        streamgp.fit_stream(sectors(100), multiclass="joint", inference="fitc", selection="ivm")
    with pytest.raises(ParameterError, match=r"likelihood=Softmax\(...\) goes only with multiclass='joint'"):
        streamgp.fit_stream(sectors(100), inference="fitc", likelihood=Softmax())
    X, y = sectors(100)
    with pytest.raises(ParameterError, match="is for two classes; here are 4"):
        streamgp.fit_stream((X, y), n_active=5, **{**FIXED, "likelihood": Probit()})
    with pytest.raises(ParameterError, match="is for three classes or more; here are two"):
        streamgp.fit_stream((X, y > 1), n_active=5, **{**FIXED, "likelihood": Softmax()})


@pytest.mark.parametrize(
    "ignored",
    [
        {"inference": FITC(residual=0.5, power=0.5)},
        {"learn_hyperparameters": "evidence"},
        {"scratch": "somewhere"},
    ],
    ids=lambda ignored: next(iter(ignored)),
)
def test_what_joint_classes_would_ignore_is_refused(ignored):
    with pytest.raises(
        ParameterError, match=f"{next(iter(ignored))}=.* has no effect with multiclass='joint'"
    ):
        streamgp.fit_stream(sectors(200), n_active=5, **{**FIXED, **ignored})


@pytest.mark.parametrize("residual", [0.0, 1.0])
@pytest.mark.parametrize(
    ("likelihood", "noise"),
    [(MultivariateProbit(), "normal"), (Softmax(), "gumbel")],
    ids=["normal", "gumbel"],
)
def test_sweeps_from_the_mode_end_at_the_sites_of_dense_joint_ep(likelihood, noise, residual):
    """The sites on wᵀu are those on f seen through the residual variance D: τ = π/(1 + D π)."""
    X, y = sectors(15, classes=3)
    settings = {**FIXED, "kernel": RBF(2.0, 1.5), "likelihood": likelihood, "selection": "random"}
    model = streamgp.fit_stream(
        (X, y),
        n_active=8,
        precision="float64",
        validation=False,
        standardize=False,
        **{**settings, "inference": FITC(residual=residual, tolerance=1e-9, most_sweeps=200)},
    )
    assert model.recipe_ == "select: random -> infer: mode -> infer: joint sweeps -> calibrate"
    inducing = model.model_.snapshot.active_inputs
    whitened, left = whiten(make_basis(RBF(2.0, 1.5), inducing), X)
    dense = joint_ep(whitened, residual * left, y, noise, 3, sweeps=200, tolerance=1e-8)
    mean, variance = model.predict_latent(X)
    new_variance = residual * left[:, None] + _explained(whitened, residual * left, dense)
    np.testing.assert_allclose(model.log_evidence_, dense.log_evidence, rtol=1e-6)
    np.testing.assert_allclose(mean, _explained_mean(whitened, residual * left, dense), atol=1e-5)
    np.testing.assert_allclose(variance, new_variance, atol=1e-5)


def _on_inducing(whitened, left, dense, c):
    """A = 1 + Σ τ w wᵀ and r = Σ ρ w of one class, from sites on f."""
    shrunk = 1.0 + left * dense.precision[:, c]
    matrix = np.eye(whitened.shape[1]) + (whitened.T * (dense.precision[:, c] / shrunk)) @ whitened
    return matrix, whitened.T @ (dense.precision_mean[:, c] / shrunk)


def _explained_mean(whitened, left, dense):
    solved = [np.linalg.solve(*_on_inducing(whitened, left, dense, c)) for c in range(3)]
    return whitened @ np.stack(solved, axis=1)


def _explained(whitened, left, dense):
    inverses = [np.linalg.inv(_on_inducing(whitened, left, dense, c)[0]) for c in range(3)]
    return np.stack([np.sum((whitened @ inverse) * whitened, axis=1) for inverse in inverses], axis=1)


def test_sweeps_of_joint_classes_are_the_same_in_any_chunks_interrupted_and_on_a_cluster(
    make_store, cluster_client, tmp_path
):
    X, y = sectors(900)
    settings = {**FIXED, "inference": FITC(residual=0.0), "n_active": 20, "precision": "float64"}
    model = streamgp.fit_stream(make_store(X, y, chunk_rows=200), memory_budget="6MiB", **settings)
    again = streamgp.fit_stream(
        make_store(X, y, chunk_rows=200), memory_budget="6MiB", client=cluster_client, **settings
    )
    same_bits(model, again)
    other = streamgp.fit_stream(make_store(X, y, chunk_rows=350), memory_budget="6MiB", **settings)
    np.testing.assert_allclose(other.predict_proba(X), model.predict_proba(X), atol=2e-3)
    model.save(tmp_path / "model.zip")
    same_bits(streamgp.load(tmp_path / "model.zip"), model)


def test_sweeps_of_joint_classes_that_do_not_converge_say_so():
    settings = {**FIXED, "inference": FITC(residual=0.0, most_sweeps=2, tolerance=1e-8)}
    with pytest.warns(NotConvergedWarning, match="did not converge for 4 of 4 latent functions"):
        short = streamgp.fit_stream(sectors(300), n_active=10, **settings)
    assert not short.history_[-2]["converged"]
    assert short.history_[-2]["residual"] > 1e-8
    long = streamgp.fit_stream(sectors(300), n_active=10, **{**settings, "inference": FITC(residual=0.0)})
    assert long.history_[-2]["converged"]
    assert not any(entry["converged"] for entry in long.history_[:-2] if "sweep" in entry)


@pytest.mark.parametrize(("residual", "most"), [(0.0, 1.0), (1.0, 1.0), (1.0, 3.0)])
def test_spread_is_calibrated_by_rows_without_their_own_sites(make_store, monkeypatch, residual, most):
    seen = []

    def watched(problem, draft, original=calibrate.left_out_of_sweeps):
        found = original(problem, draft)
        seen.append((problem, draft, np.asarray(problem.scratch.read(draft.sweeps.generation)[:]), found))
        return found

    monkeypatch.setattr(calibrate, "left_out_of_sweeps", watched)
    X, y = sectors(400, classes=3)
    settings = {**FIXED, "n_active": 25, "precision": "float64", "validation": False, "standardize": False}
    settings |= {"inference": FITC(residual=residual), "likelihood": MultivariateProbit()}
    weights = np.random.default_rng(1).uniform(1.0, most, 400)
    model = streamgp.fit_stream(make_store(X, y, chunk_rows=150), sample_weight=weights, **settings)
    [(problem, draft, sites, found)] = seen
    sites = sites * weights[:, None, None]
    whitened, left = whiten(make_basis(draft.kernel, inducing_of(draft)), X)
    order = np.sort(problem.sample_order())
    assert len(found.targets) == 400
    for i, row in enumerate(problem.sample.rows[order][:20]):
        others = np.arange(400) != row
        for c in range(3):
            tau, rho = sites[others, c].T
            matrix = np.eye(25) + (whitened[others].T * tau) @ whitened[others]
            spread = np.linalg.solve(matrix, whitened[row])
            assert found.mean[i, c] == pytest.approx(spread @ (whitened[others].T @ rho), rel=1e-6, abs=1e-6)
            variance = whitened[row] @ spread + residual * left[row]
            assert found.variance[i, c] == pytest.approx(variance, rel=1e-6, abs=1e-9)
    entry, new = model.history_[-1], sectors(1000, seed=1, classes=3)
    assert entry["left_out_log_density"] >= entry["uncalibrated"]
    scales = {
        (one.calibration.mean_scale, one.calibration.variance_scale) for one in model.model_.snapshot.heads
    }
    assert scales == {(entry["mean_scale"], entry["variance_scale"])}
    plain = replace(
        model.model_.snapshot,
        heads=tuple(replace(head, calibration=UNCALIBRATED) for head in model.model_.snapshot.heads),
    )
    calibrated = model.evaluate_stream(new).log_loss
    model.model_ = replace(model.model_, snapshot=plain)
    assert calibrated < model.evaluate_stream(new).log_loss + 0.005


def test_matrices_and_sites_of_all_classes_are_planned(make_store):
    settings = {**FIXED, "n_active": 200, "memory_budget": "8MiB"}
    store = make_store(*sectors(600, classes=12), chunk_rows=200)
    streamgp.fit_stream(store, **settings)
    with pytest.raises(BudgetError, match="memory_budget"):
        streamgp.fit_stream(store, **{**settings, "inference": FITC(residual=0.0)})


def passes_of_sweeps(model):
    """How often each step of the sweeps reads all rows."""
    steps = [
        entry for entry in model.history_ if entry["stage"] in ("infer: joint sweeps", "infer: all rows")
    ]
    return [entry["rows_read"] // entry["rows"] for entry in steps]


IN_GROUPS = {
    **FIXED,
    "inference": FITC(residual=1.0, tolerance=0.05),
    "n_active": 90,
    "precision": "float64",
    "n_jobs": 1,
}


@pytest.mark.parametrize("likelihood", [Softmax(), MultivariateProbit()], ids=["softmax", "probit"])
def test_where_memory_is_short_groups_of_classes_take_turns_and_the_model_is_the_same(
    make_store, cluster_client, likelihood
):
    X, y = sectors(600, classes=7)
    store = make_store(X, y, chunk_rows=200)
    settings = {**IN_GROUPS, "likelihood": likelihood}
    ample = streamgp.fit_stream(store, memory_budget="64MiB", **settings)
    few, again = (
        streamgp.fit_stream(store, memory_budget="6MiB", client=client, **settings)
        for client in (None, cluster_client)
    )
    passes = passes_of_sweeps(few)
    assert passes[0] > 2
    assert passes[1:] == [2 * passes[0] - 1] * (len(passes) - 1)
    assert passes_of_sweeps(ample)[:2] == [1, 1]
    assert few.history_[-2]["converged"]
    same_bits(few, again)
    np.testing.assert_allclose(few.predict_proba(X), ample.predict_proba(X), atol=1e-6)
    assert few.log_evidence_ == pytest.approx(ample.log_evidence_, rel=1e-7)


@pytest.mark.parametrize("multiclass", ["joint", "shared"])
def test_interrupted_between_groups_of_classes_is_the_same_model(
    make_store, tmp_path, monkeypatch, multiclass
):
    """The sites of the last checkpoint stay, however many generations a sweep writes."""
    store = make_store(*sectors(600, classes=7), chunk_rows=200)
    settings = {**IN_GROUPS, "multiclass": multiclass, "memory_budget": "6MiB"}
    if multiclass == "shared":
        settings["inference"] = FITC(residual=1.0, power=1.0, tolerance=0.05)
    whole = streamgp.fit_stream(store, **settings)
    groups = passes_of_sweeps(whole)[0]
    assert groups > 2
    # The last generation of the second step: the first one of joint classes writes one, all others a group's.
    last = 1 + groups if multiclass == "joint" else 2 * groups

    def write(self, generation, *arguments, original=Scratch.write, **named):
        array = original(self, generation, *arguments, **named)
        if generation == last:
            raise KeyboardInterrupt
        return array

    with monkeypatch.context() as patch:
        patch.setattr(Scratch, "write", write)
        with pytest.raises(KeyboardInterrupt):
            streamgp.fit_stream(store, checkpoint=tmp_path / "c", **settings)
    same_bits(whole, streamgp.fit_stream(store, checkpoint=tmp_path / "c", **settings))


def test_the_evidence_of_all_classes_leads_to_a_kernel(make_store):
    X, y = sectors(500)
    settings = {**FIXED, "n_active": 30, "inference": FITC(residual=1.0), "validation": False}
    settings |= {"kernel": RBF(0.2, 4.0), "likelihood": MultivariateProbit()}
    store = make_store(X, y, chunk_rows=200)
    given, learned = (
        streamgp.fit_stream(store, **{**settings, "learn_hyperparameters": how})
        for how in (False, "evidence")
    )
    assert learned.recipe_.startswith("learn: joint evidence -> select: ")
    assert learned.log_evidence_ > given.log_evidence_ + 10.0
    new = sectors(500, seed=1)
    assert learned.evaluate_stream(new).log_loss < given.evaluate_stream(new).log_loss - 0.05


def test_two_classes_have_no_joint_sweeps():
    X, y = sectors(100)
    with pytest.raises(ParameterError, match=r"inference=FITC\(residual=0.0.* has no effect"):
        streamgp.fit_stream((X, y > 1), n_active=5, **{**FIXED, "inference": FITC(residual=0.0)})


@pytest.mark.parametrize("how", [{"selection": "ivm"}, {"selection": "kmeans", "inference": FITC(1.0, 1.0)}])
def test_heads_of_one_class_each_are_combined_as_far_as_held_out_rows_gain(tmp_path, how):
    X, y = sectors(6000)
    settings = {"kernel": RBF(30.0, 1.0), "learn_hyperparameters": False, "random_state": 0, **how}
    model = streamgp.fit_stream((X, y), n_active=25, **settings)
    assert model.recipe_.endswith("-> combine")
    entry, new = model.history_[-1], sectors(2000, seed=1)
    assert entry["held_out_log_loss"] <= entry["uncombined"]
    score = model.evaluate_stream(new)
    model.save(tmp_path / "model.zip")
    again = streamgp.load(tmp_path / "model.zip")
    np.testing.assert_array_equal(again.predict_proba(X[:50]), model.predict_proba(X[:50]))
    predictive = again.model_.predictive
    # An active set is calibrated class by class; all rows already speak in the other.
    assert bool(predictive.combination) == (how["selection"] == "ivm")
    again.model_ = replace(again.model_, predictive=replace(predictive, combination=()))
    assert score.log_loss <= again.evaluate_stream(new).log_loss
