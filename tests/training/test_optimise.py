"""Steps downhill that are logged, bounded, and end when time is up."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.training.optimise import OutOfTimeError, descend, in_time, logged

START = np.array([3.0, -2.0])


def bowl(point):
    return float(np.square(point - 1.0).sum()), 2.0 * (point - 1.0)


def test_the_end_is_the_smallest_value_within_the_bounds():
    log = logged(bowl, {}, lambda arrays: None)
    found, value = descend(log, START, np.array([[-5.0, 5.0], [-5.0, 0.5]]), 50, 100, lambda: False)
    np.testing.assert_allclose(found, [1.0, 0.5], atol=1e-6)
    assert value == pytest.approx(0.25)


def test_a_start_outside_of_the_bounds_is_moved_inside():
    log = logged(bowl, {}, lambda arrays: None)
    found, _ = descend(log, np.array([9.0, 9.0]), np.array([[-5.0, 5.0]] * 2), 1, 1, lambda: False)
    assert np.all(found <= 5.0)


def test_when_time_is_up_the_best_point_so_far_is_the_end():
    calls = []

    def late():
        return len(calls) >= 2

    def counted(point):
        calls.append(point)
        return bowl(point)

    found, value = descend(logged(counted, {}, lambda arrays: None), START, None, 50, 100, late)
    assert len(calls) == 2
    assert value == min(bowl(point)[0] for point in calls) == bowl(found)[0]


def test_time_that_is_up_within_the_first_evaluation_leaves_the_start():
    check = in_time(lambda: True)

    def slow(point):
        check()
        return bowl(point)

    found, value = descend(logged(slow, {}, lambda arrays: None), START, None, 50, 100, lambda: True)
    np.testing.assert_array_equal(found, START)
    assert value == np.inf
    with pytest.raises(OutOfTimeError):
        check()
    in_time(lambda: False)()


def test_saved_evaluations_are_not_made_again():
    saved = []
    first = descend(logged(bowl, {}, saved.append), START, None, 50, 100, lambda: False)

    def never(point):
        raise AssertionError("it was known")

    again = descend(logged(never, saved[-1], saved.append), START, None, 50, 100, lambda: False)
    np.testing.assert_array_equal(again[0], first[0])
