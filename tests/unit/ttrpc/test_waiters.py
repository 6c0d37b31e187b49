"""Calls that wait for their response: whom a response wakes, and who is to look again."""

from __future__ import annotations

import pytest

from nri.errors import RpcError
from nri.ttrpc.envelope import Response
from nri.ttrpc.waiters import Callback, Reading, Waiter, payload_of


def test_a_thread_that_waits_is_woken_however_often_it_is_told() -> None:
    waiter = Waiter()
    assert not waiter.lock.acquire(blocking=False), "it waits from the beginning"
    waiter.wake()
    assert waiter.nudge(), "there is a thread to wake"
    assert waiter.lock.acquire(blocking=False)
    assert not waiter.lock.acquire(blocking=False), "two words are one wake-up"


def test_a_thread_that_reads_itself_needs_nobody_to_wake_it() -> None:
    reading = Reading()
    reading.wake()
    assert not reading.nudge()


def test_a_function_gets_the_response_or_none_at_the_end_of_the_connection() -> None:
    outcomes: list[Response | None] = []
    for response in (Response(b"x"), None):
        callback = Callback(outcomes.append)
        callback.response = response
        assert not callback.nudge(), "there is no thread to wake"
        callback.wake()
    assert [outcome and outcome.payload for outcome in outcomes] == [b"x", None]


def test_a_status_is_an_error_and_a_success_its_payload() -> None:
    assert payload_of(Response(b"x")) == b"x"
    with pytest.raises(RpcError, match="gone") as caught:
        payload_of(Response(b"x", 5, "gone"))
    assert caught.value.code == 5
