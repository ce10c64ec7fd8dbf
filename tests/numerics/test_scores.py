"""Compiled scores of the probit likelihood: the formulas of the papers, and bounds that hide no good row."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.data.targets import ClassTargets
from streamgp.likelihoods import Probit
from streamgp.numerics.scores import FARTHEST, probit_score, score_limits
from streamgp.posterior import Marginals
from streamgp.selection import IVM, HeadScores
from streamgp.selection.ivm import _COMPILED

SCORES = ("information_gain", "entropy_reduction")
BIAS = 0.3


def rows(generator, count=20_000):
    """Codes, means and variances of very different sizes."""
    variance = np.exp(generator.uniform(np.log(1e-12), np.log(1e8), count))
    mean = generator.standard_normal(count) * np.sqrt(1.0 + variance) * 3.0
    return generator.integers(0, 2, count).astype(float), mean, variance


def scored(scores, codes, mean, variance):
    return scores(np.arange(len(codes)), codes, Marginals(mean[:, None], variance[:, None]))[:, 0]


@pytest.mark.parametrize("score", SCORES)
def test_compiled_scores_are_those_of_the_formulas(generator, score):
    codes, mean, variance = rows(generator)
    heads = HeadScores(IVM(score=score), ClassTargets(np.arange(2)), (Probit(BIAS),))
    found = scored(heads, codes, mean, variance)
    wanted, _, _ = heads.selection.candidate_scores(Probit(BIAS), 2 * codes - 1, mean, variance)
    assert 0 < np.isfinite(wanted).sum() < len(wanted)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(wanted))
    kept = np.isfinite(wanted)
    np.testing.assert_allclose(found[kept], wanted[kept], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("share", [0.5, 0.1, 0.001])
def test_limits_hide_rows_below_the_floor_only_and_most_of_them(generator, score, share):
    codes, mean, variance = rows(generator)
    heads = HeadScores(IVM(score=score), ClassTargets(np.arange(2)), (Probit(BIAS),))
    all_scores = scored(heads, codes, mean, variance)
    floor = float(np.quantile(all_scores[np.isfinite(all_scores)], 1 - share))
    found = scored(heads.above(floor), codes, mean, variance)
    kept = all_scores >= floor
    np.testing.assert_array_equal(found[kept], all_scores[kept])
    assert set(found[~kept]) <= {-np.inf, *all_scores[~kept]}
    assert np.isinf(found[~kept]).mean() > 0.5


@pytest.mark.parametrize("score", SCORES)
def test_scores_fall_with_the_margin_and_grow_with_the_variance(score):
    kind = _COMPILED[IVM(score=score).score_function(Probit())]
    margins, variances = np.linspace(-FARTHEST, 8.0, 200), 2.0 ** np.arange(-30, 41)
    table = np.array([[probit_score(kind, z, a)[0] for a in variances] for z in margins])
    assert np.all(np.diff(table, axis=0) <= 1e-12 * np.abs(table[1:]))
    assert np.all(np.diff(table, axis=1) >= -1e-11 * np.abs(table[:, 1:]))


@pytest.mark.parametrize("floor", [-np.inf, 0.0, 1e300])
def test_floors_that_tell_nothing_and_floors_that_nothing_reaches(generator, floor):
    limits = score_limits(0, floor)
    assert np.all(np.isinf(limits)) if floor <= 0 else np.all(limits <= 0)
