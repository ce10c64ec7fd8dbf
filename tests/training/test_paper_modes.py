"""Literal modes: the papers' algorithms as printed, against naive versions of them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.multiclass import OneVsRestClassifier

import streamgp
from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.errors import ParameterError
from streamgp.inference.active_evidence import evidence
from streamgp.kernels import RBF, White
from streamgp.likelihoods import Probit
from streamgp.selection import FPASS, PASS, RowKeys
from streamgp.training.problem import _entropy
from tests.reference.pass_dense import predictive_active_set

KERNEL = RBF(4.0, 1.0) + White(0.3)


def rings(rows, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((rows, 2))
    return X, np.where(np.hypot(*X.T) + 0.1 * generator.standard_normal(rows) > 1.2, 1, 0)


def literal(selection, n_active, X, y, **parameters):
    model = StreamGPClassifier(
        n_active, selection=selection, standardize=False, random_state=0, **{"kernel": KERNEL, **parameters}
    )
    return model.fit(X, y)


def in_random_order(rows):
    """The order in which a fit of seed 0 draws and visits its rows."""
    return np.argsort(RowKeys(_entropy(0, 0))(np.arange(rows)), kind="stable")


def subsets(rows, size):
    return [np.sort(part) for part in np.array_split(in_random_order(rows), -(-rows // size))]


def test_pass_is_algorithm_1():
    X, y = rings(90)
    selection = PASS.paper(n_init=12, block_rows=30)
    model = literal(selection, 90, X, y, learn_hyperparameters=False)
    assert selection.p_inc == 0.6
    assert selection.p_del == 0.99
    expected = predictive_active_set(
        KERNEL,
        Probit(),
        X,
        np.where(y == 1, 1.0, -1.0),
        np.sort(in_random_order(90)[:12]),
        subsets(90, 30),
        2,
        removes=lambda p: np.flatnonzero(p > 0.99),
        adds=lambda p: np.flatnonzero(p < 0.6),
    )
    assert model.active_rows_.tolist() == expected
    assert "calibrate" not in model.recipe_


def test_fpass_exchanges_a_fixed_share_whatever_it_is_worth():
    X, y = rings(150)
    model = literal(FPASS.paper(block_rows=50, p_exc=0.1, n_pass=2), 30, X, y, learn_hyperparameters=False)
    expected = predictive_active_set(
        KERNEL,
        Probit(),
        X,
        np.where(y == 1, 1.0, -1.0),
        np.sort(in_random_order(150)[:30]),
        subsets(150, 50),
        2,
        removes=lambda p: np.argsort(-p, kind="stable")[:3],
        adds=lambda p: np.sort(np.argsort(p, kind="stable")[:3]),
    )
    assert model.active_rows_.tolist() == expected
    blocks = [entry for entry in model.history_ if "entered" in entry]
    assert [(entry["entered"], entry["left"]) for entry in blocks] == [([3], [3])] * 6


def test_a_row_of_weight_two_is_two_rows_for_both():
    X, y = rings(90)
    weights = 1 + np.arange(90) % 2
    arguments = (KERNEL, Probit(), X, np.where(y == 1, 1.0, -1.0))
    selection = PASS.paper(n_init=12, block_rows=30)
    model = StreamGPClassifier(90, selection=selection, standardize=False, random_state=0, kernel=KERNEL)
    model.set_params(learn_hyperparameters=False).fit(X, y, sample_weight=weights)
    expected = predictive_active_set(
        *arguments,
        np.sort(in_random_order(90)[:12]),
        subsets(90, 30),
        2,
        removes=lambda p: np.flatnonzero(p > 0.99),
        adds=lambda p: np.flatnonzero(p < 0.6),
        weights=weights,
    )
    assert model.active_rows_.tolist() == expected
    model.set_params(n_active=20, selection=FPASS.paper(block_rows=45, p_exc=0.1, n_pass=2))
    model.fit(X, y, sample_weight=weights)
    expected = predictive_active_set(
        *arguments,
        np.sort(in_random_order(90)[:20]),
        subsets(90, 45),
        2,
        removes=lambda p: np.argsort(-p, kind="stable")[:2],
        adds=lambda p: np.sort(np.argsort(p, kind="stable")[:2]),
        weights=weights,
    )
    assert model.active_rows_.tolist() == expected


def test_hyperparameters_are_those_of_largest_evidence_in_every_block():
    X, y = rings(200)
    model = literal(PASS.paper(n_init=30, block_rows=100, n_pass=1), 200, X, y, kernel=None)
    steps = [entry for entry in model.history_ if entry["stage"] == "select: exchange"]
    done = [entry for entry in steps if "block" in entry or "kernel" in entry]
    stages = ["block" if "block" in entry else "update" for entry in done]
    assert stages == ["update", "block", "update", "block"]
    kernel = model.kernel_
    assert [type(term) for term in kernel.terms] == [RBF, White]
    assert model.likelihood_ == (Probit(0.0),)


def test_the_update_is_an_optimum_of_the_evidence_alone():
    X, y = rings(80)
    signs = np.where(y == 1, 1.0, -1.0)
    # Nothing can enter or leave: the kernel is that of the first, and last, active set.
    selection = PASS.paper(n_init=80, block_rows=80, n_pass=1)
    model = literal(selection, 80, X, y)
    found = evidence(model.kernel_, Probit(), X, signs)
    bounds = model.kernel_.log_bounds
    inside = np.abs(model.kernel_.log_parameters[:, None] - bounds).min(axis=1) > 1e-3
    assert np.abs(found.kernel_gradient[inside]).max() < 0.3
    assert found.value > evidence(KERNEL, Probit(), X, signs).value


def mirror(rows):
    return -rows[None]


def three_rings(rows):
    X, _ = rings(rows)
    return X, np.digitize(np.hypot(*X.T), [0.8, 1.4])


@pytest.mark.parametrize(
    "selection",
    [PASS.paper(n_init=20, block_rows=75, n_pass=1), FPASS.paper(block_rows=75, n_pass=1)],
    ids=lambda each: type(each).__name__,
)
def test_every_class_is_a_model_with_its_own_parameters(selection, tmp_path):
    X, y = three_rings(150)
    model = literal(selection, 100 if isinstance(selection, PASS) else 25, X, y)
    assert model.recipe_ == "each class: (select: draw -> select: exchange -> infer: ep)"
    alone = OneVsRestClassifier(clone(model)).fit(X, y).estimators_
    assert model.active_rows_.tolist() == [row for part in alone for row in part.active_rows_.tolist()]
    for own, part in zip(model.kernel_, alone, strict=True):
        np.testing.assert_allclose(own.log_parameters, part.kernel_.log_parameters, atol=1e-6)
    assert model.log_evidence_ == pytest.approx(sum(part.log_evidence_ for part in alone), abs=1e-6)
    assert model.history_[-1]["n_active"] == [len(part.active_rows_) for part in alone]
    expected = np.column_stack([part.predict_proba(X)[:, 1] for part in alone])
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-6)
    assert model.score(X, y) > 0.9
    model.save(tmp_path / "model")
    loaded = streamgp.load(tmp_path / "model")
    assert loaded.kernel_ == model.kernel_
    np.testing.assert_allclose(loaded.predict_proba(X), model.predict_proba(X), atol=1e-12)


def test_every_class_is_resumed_where_it_was_killed(tmp_path, monkeypatch):
    X, y = three_rings(120)
    selection = FPASS.paper(block_rows=60, n_pass=1)
    whole = literal(selection, 20, X, y)
    module = streamgp.training.select.exchange
    real, calls = module.read_block, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) > 3:  # in the second class
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(module, "read_block", interrupted)
    with pytest.raises(KeyboardInterrupt):
        literal(selection, 20, X, y, checkpoint=tmp_path / "fit")
    monkeypatch.undo()
    resumed = literal(selection, 20, X, y, checkpoint=tmp_path / "fit")
    assert resumed.active_rows_.tolist() == whole.active_rows_.tolist()
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))


def test_versions_are_those_of_the_active_rows_of_each_class():
    X, y = three_rings(240)
    mirrored = PASS.paper(n_init=20, block_rows=60, n_pass=1, virtual=mirror, p_inc_virtual=0.6)
    model = literal(mirrored, 240, X, y, learn_hyperparameters=False)
    plain = PASS.paper(n_init=20, block_rows=60, n_pass=1)
    first = literal(plain, 240, X, y, learn_hyperparameters=False)
    starts, before = ([*each.active_starts_, len(each.active_rows_)] for each in (model, first))
    assert {tuple(pair) for pair in model.active_rows_[:, 1:]} == {(0,), (1,)}
    for c in range(3):
        own = set(model.active_rows_[starts[c] : starts[c + 1], 0].tolist())
        assert own <= set(first.active_rows_[before[c] : before[c + 1]].tolist())


def test_what_a_literal_mode_cannot_do_is_refused():
    X, y = rings(60)
    with pytest.raises(ParameterError, match=r"PASS\.paper\(\) goes only with inference='ep'"):
        literal(PASS.paper(), 20, X, y, inference="fitc")
    with pytest.raises(ParameterError, match=r"FPASS\.paper\(\) goes only with learn_hyperparameters=True"):
        literal(FPASS.paper(), 20, X, y, learn_hyperparameters="evidence")
    with pytest.raises(ParameterError, match="is for two classes, but the targets are real numbers"):
        StreamGPRegressor(20, selection=FPASS.paper()).fit(X, X[:, 0])
    with pytest.raises(ParameterError, match=r"wants \d+ active rows, but n_active=21"):
        literal(PASS.paper(n_init=20, p_inc=0.9), 21, X, y, learn_hyperparameters=False)
    with pytest.raises(ParameterError, match="p_exc"):
        PASS.paper(p_exc=0.5)
    with pytest.raises(ParameterError, match="p_del"):
        FPASS.paper(p_del=0.5)
