"""Learning of local blocks: near and far rows of the sample give kernel, noise and family."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.data import open_rows
from streamgp.kernels import RBF, Laplacian, Matern12, Matern32, Matern52
from streamgp.likelihoods import Gaussian, Logit, Probit
from streamgp.settings import fit_settings
from streamgp.training.fit import begin
from streamgp.training.learn import local
from streamgp.training.learn.local import Courses, Trial, _finalists, learn_local
from streamgp.training.learn.local_climb import Learned, score
from streamgp.training.learn.local_rows import (
    Course,
    affordable_course,
    course_bytes,
    make_lesson,
    rows_by_share,
)
from streamgp.training.stage import run
from streamgp.training.starts import Starts

STARTS = Starts(1.0, (1.0,), per_feature=True, with_linear=False, with_polynomials=False)


@pytest.fixture(autouse=True)
def short_courses(monkeypatch):
    """Tens of rows where a fit takes hundreds: the same code in a tenth of the time."""
    monkeypatch.setattr(
        local, "FOR_REAL_TARGETS", Courses(Course(3, 60, 1, 100, 20, 10), Course(4, 80, 1, 150, 40, 15))
    )
    monkeypatch.setattr(
        local, "FOR_TWO_CLASSES", Courses(Course(2, 60, 1, 100, 0, 3), Course(3, 80, 2, 100, 0, 8))
    )
    monkeypatch.setattr(
        local, "FOR_SEVERAL_CLASSES", Courses(Course(2, 50, 1, 80, 0, 2), Course(2, 60, 1, 100, 0, 5))
    )
    monkeypatch.setattr(local, "START_ROWS", 150)


def learn(X, y, *, starts=STARTS, seed=0, **parameters):
    """The draft after the stage, and what the history says about it."""
    real = y.dtype.kind == "f"
    kind = StreamGPRegressor if real else StreamGPClassifier
    estimator = kind(30, selection="random", inference="fitc", validation=False, **parameters)
    settings = fit_settings(estimator.get_params(deep=False), seed=seed)
    task = "regression" if real else "classification"
    problem, _, draft = begin(open_rows((X, y)), task, settings)
    draft, [entry] = run((learn_local(starts),), problem, draft, None)
    return draft, entry


def waves(rows, seed=0, noise=0.1):
    """A smooth function of the first two of four features."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((rows, 4))
    return X, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + noise * generator.standard_normal(rows)


def test_noise_and_the_order_of_lengthscales_are_those_of_the_teacher():
    X, y = waves(3000)
    draft, entry = learn(X, y)
    [likelihood] = draft.likelihoods
    assert 0.5 * 0.01 / y.var() < likelihood.noise < 2.0 * 0.01 / y.var()
    first, second, *idle = draft.kernel.lengthscale
    assert first < second < 0.5 * min(idle)
    names = [name for name, _ in entry["tried"]]
    assert names[:5] == ["Matern52", "Matern32", "RBF", "Matern12", "Laplacian"]
    assert names[5].endswith(", one lengthscale")
    assert {name for name, _ in entry["taught"]} >= {"Matern52", "Matern32", "RBF", "Matern12"}
    assert isinstance(draft.kernel, RBF | Matern52)


def test_a_function_of_steps_along_the_axes_gets_a_laplacian():
    generator = np.random.default_rng(5)
    X = generator.uniform(-1.0, 1.0, (3000, 4))
    boxes = (X[:, 0] > 0.2) * 1.0 + (X[:, 1] > -0.3) * (X[:, 2] > 0.0) - 0.5 * (X[:, 3] > 0.5)
    draft, _ = learn(X, boxes + 0.1 * generator.standard_normal(3000))
    assert isinstance(draft.kernel, Laplacian)
    assert len(draft.kernel.lengthscale) == 4


def test_a_rough_function_gets_a_rough_kernel():
    generator = np.random.default_rng(1)
    X = generator.uniform(-1.0, 1.0, (3000, 1))
    order, steps = np.argsort(X[:, 0]), generator.standard_normal(3000)
    y = np.empty(3000)
    y[order] = np.cumsum(steps)
    draft, _ = learn(X, y)
    assert type(draft.kernel).__name__ in ("Matern12", "Matern32")


def test_no_family_that_is_near_the_best_is_lost_by_a_short_trial():
    def trials(likelihood, **scores):
        kinds = {"rbf": RBF, "five": Matern52, "three": Matern32, "one": Matern12}
        learned = {name: Learned(kinds[name](1.0, 1.0), (likelihood,)) for name in scores}
        return [Trial(learned[name], score) for name, score in scores.items()]

    tried = trials(Gaussian(0.1), rbf=-0.3, five=-0.2, one=-0.45, three=-0.6)
    again = tried[1]._replace(score=-0.21)
    assert _finalists([again, *tried]) == [tried[place].learned for place in (1, 0, 2)]
    assert _finalists(trials(Probit(), rbf=-0.3, five=-0.2))[0].kernel == Matern52(1.0, 1.0)
    assert len(_finalists(trials(Probit(), rbf=-0.3, five=-0.2))) == 1
    assert _finalists([]) == []


def test_families_are_judged_as_the_model_will_be_calibrated():
    """Too little noise costs a kernel its density, which calibration mends, not its means."""
    X, y = waves(600, seed=9)
    settings = fit_settings(StreamGPRegressor(30, inference="fitc").get_params(deep=False), seed=0)
    problem, _, _ = begin(open_rows((X, y)), "regression", settings)
    lesson = make_lesson(problem, rows_by_share(problem), Course(3, 100, 1, 200, 20, 4), RBF(1.0, 1.0))
    right, sure, blunt = (
        score(problem, lesson, Learned(RBF(1.0, lengthscale), (Gaussian(noise),)))
        for lengthscale, noise in ((1.0, 0.02), (1.0, 0.002), (20.0, 0.02))
    )
    assert right - 0.4 < sure < right  # as learned, without calibration, it is one nat behind
    assert blunt < sure - 0.5


def test_noise_does_not_run_to_zero_on_a_sparse_sample():
    generator = np.random.default_rng(2)
    # Far apart and hard to tell from noise: without a floor the noise of such rows can be anything.
    X, y = generator.standard_normal((400, 9)), generator.standard_normal(400)
    y = y + 2.0 * np.sin(4.0 * X[:, 0])
    draft, _ = learn(X, y)
    assert draft.likelihoods[0].noise > 0.01


def test_pure_noise_is_called_noise():
    generator = np.random.default_rng(3)
    X = generator.standard_normal((2000, 3))
    y = generator.standard_normal(2000)
    draft, _ = learn(X, y, standardize=False)
    [likelihood] = draft.likelihoods
    gram = draft.kernel.gram(X[:400]) + likelihood.noise * np.eye(400)
    means = draft.kernel.block(X[400:800], X[:400]) @ np.linalg.solve(gram, y[:400])
    assert np.mean(means**2) < 0.05
    assert 0.8 < draft.kernel.variance + likelihood.noise < 1.25
    draft, _ = learn(X, (generator.random(2000) < 0.3).astype(int))
    assert draft.kernel.variance < 1.0


@pytest.mark.parametrize("likelihood", [None, Logit()])
def test_the_lengthscales_of_two_classes(likelihood):
    X, latent = waves(2000, seed=4)
    draft, entry = learn(X, (latent > 0.2).astype(int), likelihood=likelihood)
    first, second, *idle = draft.kernel.lengthscale
    assert first < second < min(idle)
    assert isinstance(draft.likelihoods[0], Probit if likelihood is None else Logit)
    assert len(entry["tried"]) == 5


def test_several_classes_share_their_kernel():
    X, latent = waves(2000, seed=5)
    y = np.digitize(latent, [-0.7, 0.0, 0.7])
    draft, _ = learn(X, y)
    first, second, *idle = draft.kernel.lengthscale
    assert first < second < min(idle)
    shares = np.bincount(y) / len(y)
    assert [likelihood.bias for likelihood in draft.likelihoods] == pytest.approx(ndtri(shares))


def test_a_given_kernel_keeps_its_family():
    X, y = waves(800, seed=6)
    kernel = Matern32(1.0, 2.0)
    draft, entry = learn(X, y, starts=None, kernel=kernel)
    assert isinstance(draft.kernel, Matern32)
    assert draft.kernel != kernel
    assert entry["tried"] == []
    draft, _ = learn(X, (y > 0).astype(int), starts=None, kernel=kernel)
    assert isinstance(draft.kernel, Matern32)


def test_the_same_seed_gives_the_same_bits_and_another_one_another_sample():
    X, y = waves(600, seed=7)
    one, again, other = (learn(X, y, seed=seed, starts=None, kernel=RBF(1.0, 1.0))[0] for seed in (0, 0, 1))
    assert one.kernel == again.kernel
    assert one.likelihoods == again.likelihoods
    assert one.kernel != other.kernel


def test_when_time_is_up_one_family_has_been_tried():
    X, y = waves(600, seed=8)
    draft, entry = learn(X, y, max_seconds=0.0)
    assert [name for name, _ in entry["tried"]] == ["Matern52"]
    assert isinstance(draft.kernel, Matern52)


def test_rare_classes_keep_their_share():
    generator = np.random.default_rng(9)
    X = generator.standard_normal((30_000, 2))
    y = (np.arange(30_000) % 100 == 0).astype(int)
    estimator = StreamGPClassifier(
        20, selection="random", inference="fitc", memory_budget="16MiB", validation=False
    )
    settings = fit_settings(estimator.get_params(deep=False), seed=0)
    problem, _, _ = begin(open_rows((X, y)), "classification", settings)
    drawn = problem.sample.targets
    assert not problem.holds_all_rows
    assert drawn.mean() > 0.05
    kept = rows_by_share(problem)
    assert len(np.unique(kept)) == len(kept)
    assert 0.008 < drawn[kept].mean() < 0.012
    assert (drawn[kept] == 0).sum() == (drawn == 0).sum()


def test_few_rows_all_alike_and_a_constant_feature():
    X = np.ones((40, 2))
    draft, _ = learn(X, np.linspace(0.0, 1.0, 40))
    assert np.isfinite(draft.kernel.log_parameters).all()
    assert draft.likelihoods[0].noise > 0.3
    X, y = waves(60, seed=10)
    X[:, 3] = 7.0
    for targets in (y, (y > 0).astype(int)):
        draft, _ = learn(X, targets)
        assert np.isfinite(draft.kernel.log_parameters).all()


def test_little_memory_gives_smaller_courses():
    whole, shape = Course(12, 250, 1, 1000, 150, 12), (RBF(1.0, (1.0,) * 4), Gaussian(), 4)
    needed = course_bytes(whole, *shape)
    assert affordable_course(whole, *shape, needed) == whole
    smaller = affordable_course(whole, *shape, needed // 4)
    assert smaller.rows < whole.rows
    assert course_bytes(smaller, *shape) <= needed // 4
    room = affordable_course(whole, *shape, 2 * needed)
    assert room.workers > 1
    assert course_bytes(room, *shape) <= 2 * needed
    assert room.rows == whole.rows
