from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from streamgp.inference.active_set import ActiveSet, Candidates, catch_up, refresh_factor
from streamgp.kernels import RBF, Linear
from streamgp.likelihoods import Gaussian, Probit
from streamgp.selection import IVM
from streamgp.training.greedy import Learner, grow
from tests.reference import ivm_dense

SCORES = {
    "information_gain": ivm_dense.information_gain,
    "entropy_reduction": ivm_dense.entropy_reduction,
}


def probit_moments(target, mean, variance):
    z = target * (mean + 0.1) / np.sqrt(1 + variance)
    slope = target * np.exp(norm.logpdf(z) - norm.logcdf(z)) / np.sqrt(1 + variance)
    return slope, slope * (slope + (mean + 0.1) / (1 + variance))


def gaussian_moments(target, mean, variance):
    return (target - mean) / (variance + 0.2), 1 / (variance + 0.2)


LIKELIHOODS = {Probit(bias=0.1): probit_moments, Gaussian(noise=0.2): gaussian_moments}


TWIN = 3


def problem(generator, n=150, p=3):
    X = generator.standard_normal((n, p))
    X[n // 2] = X[TWIN]  # a duplicate
    y = np.where(np.sin(2 * X[:, 0]) + 0.3 * generator.standard_normal(n) > 0, 1.0, -1.0)
    return X, y


def one_for_both(rows, y):
    """The rows, one name for two that are equal: rounding decides which of them is the first."""
    twin = len(y) // 2
    return [TWIN if row == twin and y[twin] == y[TWIN] else row for row in rows]


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
@pytest.mark.parametrize("kernel", [RBF(2.0, 1.5), RBF(2.0, 1.5) + Linear(0.3)], ids=repr)
def test_inclusions_are_those_of_the_textbook(generator, score, likelihood, kernel):
    X, y = problem(generator)
    candidates = Candidates.new(np.arange(len(X)), X, y, kernel, 40)
    [active] = grow(
        [Learner(ActiveSet.empty(40, 3), candidates, likelihood)], kernel, IVM(score, hot=None), 40, generator
    )
    first = int(active.rows[0])
    expected = ivm_dense.select(kernel.gram(X), y, LIKELIHOODS[likelihood], 40, SCORES[score], first=first)
    assert one_for_both(active.rows.tolist(), y) == one_for_both(expected.active, y)
    np.testing.assert_allclose(active.factor, expected.factor, atol=1e-8)
    np.testing.assert_allclose(candidates.stubs, expected.stubs, atol=1e-8)
    np.testing.assert_allclose(candidates.mean, expected.mean, atol=1e-8)
    np.testing.assert_allclose(candidates.variance, expected.variance, atol=1e-8)
    np.testing.assert_allclose(active.sites.precision, expected.precision, rtol=1e-7)


@pytest.mark.parametrize("hot", [20, 60])
def test_delayed_updates_leave_an_exact_representation(generator, hot):
    X, y = problem(generator)
    kernel, likelihood = RBF(2.0, 1.5), Probit()
    candidates = Candidates.new(np.arange(len(X)), X, y, kernel, 40)
    selection = IVM(hot=hot, delay=7)
    [active] = grow(
        [Learner(ActiveSet.empty(40, 3), candidates, likelihood)], kernel, selection, 40, generator
    )
    assert active.count == 40
    assert len(set(active.rows.tolist())) == 40
    fresh = Candidates.new(np.arange(len(X)), X, y, kernel, 40)
    factor, targets = active.factor.copy(), active.projected_targets.copy()
    refresh_factor(active, kernel)
    np.testing.assert_allclose(active.factor, factor, atol=1e-9)
    np.testing.assert_allclose(active.projected_targets, targets, atol=1e-9)
    catch_up(active, fresh, kernel, since=0)
    np.testing.assert_allclose(candidates.stubs, fresh.stubs, atol=1e-9)
    np.testing.assert_allclose(candidates.mean, fresh.mean, atol=1e-9)
    np.testing.assert_allclose(candidates.variance, fresh.variance, atol=1e-9)


def test_the_first_pick_is_random_where_scores_tie_and_best_where_not(generator):
    X, y = problem(generator)

    def first(kernel, seed):
        candidates = Candidates.new(np.arange(len(X)), X, y, kernel, 1)
        learner = Learner(ActiveSet.empty(1, 3), candidates, Probit())
        return int(grow([learner], kernel, IVM(), 1, np.random.default_rng(seed))[0].rows[0])

    assert len({first(RBF(), seed) for seed in range(8)}) > 3
    assert len({first(RBF() + Linear(), seed) for seed in range(8)}) == 1


@pytest.mark.parametrize("hot", [None, 30])
def test_learners_that_share_rows_have_exact_representations(generator, hot):
    X, y = problem(generator)
    kernel = RBF(2.0, 1.5)
    learners = [
        Learner(ActiveSet.empty(40, 3), Candidates.new(np.arange(len(X)), X, t, kernel, 40), Probit())
        for t in (y, -y, np.where(X[:, 1] > 0, 1.0, -1.0))
    ]
    actives = grow(learners, kernel, IVM(hot=hot, delay=9), 40, generator)
    for active, learner in zip(actives, learners, strict=True):
        np.testing.assert_array_equal(active.rows, actives[0].rows)
        fresh = Candidates.new(np.arange(len(X)), X, learner.candidates.targets, kernel, 40)
        catch_up(active, fresh, kernel, since=0)
        np.testing.assert_allclose(learner.candidates.mean, fresh.mean, atol=1e-9)
        np.testing.assert_allclose(learner.candidates.variance, fresh.variance, atol=1e-9)


def test_asking_for_more_than_there_are_takes_all(generator):
    X, y = problem(generator, n=20)
    candidates = Candidates.new(np.arange(20), X, y, RBF(), 50)
    learner = Learner(ActiveSet.empty(50, 3), candidates, Probit())
    [active] = grow([learner], RBF(), IVM(), 50, generator)
    assert active.count == 20
    assert sorted(active.rows[:20]) == list(range(20))
