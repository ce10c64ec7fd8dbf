"""Calls side by side: results in order, errors told, as many threads as are allowed."""

from __future__ import annotations

import threading

import pytest

from streamgp.passes.run import limited_threads
from streamgp.passes.side_by_side import side_by_side


def test_calls_meet_on_two_threads_and_their_results_are_in_order():
    meeting = threading.Barrier(2, timeout=60)

    def call(number):
        meeting.wait()
        return number

    with limited_threads(4), side_by_side(2) as over:
        assert list(over(call, range(6))) == list(range(6))


@pytest.mark.parametrize(("workers", "threads"), [(1, 4), (4, 1)])
def test_one_thread_is_enough_where_no_more_are_allowed(workers, threads):
    with limited_threads(threads), side_by_side(workers) as over:
        assert list(over(lambda _: threading.get_ident(), range(3))) == [threading.get_ident()] * 3


def test_an_error_reaches_the_caller():
    def call(number):
        if number == 2:
            raise ZeroDivisionError

    with limited_threads(2), side_by_side(2) as over, pytest.raises(ZeroDivisionError):
        list(over(call, range(4)))
