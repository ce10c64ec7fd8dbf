"""A resumed optimiser arrives at the same bits, without computing anything twice."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from streamgp.errors import CheckpointError
from streamgp.persistence import EvaluationLog, read_record, write_record

START = np.array([-1.2, 1.0, 0.7, 1.9])


class InterruptedRunError(Exception):
    """The power is gone."""


class Rosenbrock:
    """Counts its evaluations, and fails after a number of them."""

    def __init__(self, allowed: int = 10_000) -> None:
        self.count = 0
        self.allowed = allowed

    def __call__(self, x):
        if self.count == self.allowed:
            raise InterruptedRunError
        self.count += 1
        return rosen(x), rosen_der(x)


def optimise(log, start=START):
    return minimize(log, start, jac=True, method="L-BFGS-B", bounds=[(-2, 2)] * 4, options={"maxiter": 60})


@pytest.mark.parametrize("interrupted_after", [0, 1, 7, 20])
def test_resumed_optimiser_arrives_at_the_same_bits(tmp_path, interrupted_after):
    whole = Rosenbrock()
    expected = optimise(EvaluationLog(whole))
    assert whole.count > interrupted_after

    path = tmp_path / "log.zip"
    write_record(path, {}, EvaluationLog(None).arrays(), kind="log")
    with pytest.raises(InterruptedRunError):
        optimise(
            EvaluationLog(
                Rosenbrock(interrupted_after),
                on_evaluation=lambda log: write_record(path, {}, log.arrays(), kind="log"),
            )
        )
    _, earlier = read_record(path, kind="log")
    assert len(earlier["values"]) == interrupted_after

    rest = Rosenbrock()
    resumed = EvaluationLog(rest, earlier)
    found = optimise(resumed)
    assert rest.count == whole.count - interrupted_after
    assert len(resumed) == whole.count
    assert (found.nit, found.nfev) == (expected.nit, expected.nfev)
    for name in ("x", "fun", "jac"):
        assert np.asarray(found[name]).tobytes() == np.asarray(expected[name]).tobytes()


def test_finished_optimisation_is_replayed_without_an_objective():
    log = EvaluationLog(Rosenbrock())
    expected = optimise(log)
    np.testing.assert_array_equal(optimise(EvaluationLog(None, log.arrays())).x, expected.x)


def test_log_is_shielded_from_its_callers():
    def objective(x):
        x[:] = 5
        return 1.0, gradient

    gradient, point = np.ones(2), np.zeros(2)
    log = EvaluationLog(objective)
    returned = log(point)[1]
    for array in (gradient, point, returned):
        array[:] = 9
    arrays = log.arrays()
    np.testing.assert_array_equal(arrays["points"], [[0, 0]])
    np.testing.assert_array_equal(arrays["gradients"], [[1, 1]])
    replayed = EvaluationLog(None, arrays)
    replayed(np.zeros(2))[1][:] = 9
    np.testing.assert_array_equal(replayed.arrays()["gradients"], [[1, 1]])


def test_callback_sees_new_evaluations_only():
    seen = []
    log = EvaluationLog(Rosenbrock(), on_evaluation=lambda log: seen.append(len(log)))
    log(START)
    log(START + 1)
    resumed = EvaluationLog(Rosenbrock(), log.arrays(), on_evaluation=lambda log: seen.append(-len(log)))
    assert resumed.is_replaying
    for offset in range(3):
        resumed(START + offset)
    assert not resumed.is_replaying
    assert seen == [1, 2, -3]


def test_values_that_are_not_finite_are_replayed():
    log = EvaluationLog(lambda x: (np.inf, np.array([np.nan])))
    log(np.array([np.nan]))
    value, gradient = EvaluationLog(None, log.arrays())(np.array([np.nan]))
    assert value == np.inf
    assert np.isnan(gradient[0])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (np.array([1.0, np.nextafter(2.0, 3.0)]), r"parameter 1 = .*2\.0000000000000004.*the log has .*2\.0"),
        (np.array([1.0]), "at a point of 1 parameters, where the log has 2"),
    ],
)
def test_other_problem_is_refused(asked, message):
    log = EvaluationLog(lambda x: (0.0, x))
    log(np.array([1.0, 2.0]))
    with pytest.raises(
        CheckpointError, match=rf"evaluation 0 is asked for .*{message}.*not the same problem"
    ):
        EvaluationLog(Rosenbrock(), log.arrays())(asked)


def test_zeros_of_either_sign_are_different_points():
    log = EvaluationLog(lambda x: (0.0, x))
    log(np.array([0.0]))
    with pytest.raises(CheckpointError, match="not the same problem"):
        EvaluationLog(None, log.arrays())(np.array([-0.0]))


def test_unusable_logs_are_refused():
    good = {"points": np.zeros((2, 3)), "values": np.zeros(2), "gradients": np.zeros((2, 3))}
    with pytest.raises(CheckpointError, match="lacks gradients"):
        EvaluationLog(None, {name: array for name, array in good.items() if name != "gradients"})
    with pytest.raises(CheckpointError, match=r"values \(3,\)"):
        EvaluationLog(None, {**good, "values": np.zeros(3)})
    with pytest.raises(CheckpointError, match="not in the log, and there is no objective"):
        EvaluationLog(None)(START)
    with pytest.raises(ValueError, match=r"gradient has shape \(2,\)"):
        EvaluationLog(lambda x: (0.0, np.zeros(2)))(START)


def test_what_an_objective_keeps_for_its_next_call_is_saved_with_the_log():
    def counting(x):
        log.memory = {"calls": log.memory.get("calls", np.zeros(())) + 1.0}
        return float(log.memory["calls"]), x

    log = EvaluationLog(counting)
    log(np.array([1.0]))
    log = EvaluationLog(counting, log.arrays())
    assert log(np.array([1.0]))[0] == 1.0  # replayed
    assert log(np.array([2.0]))[0] == 2.0
