"""Calls that wait for their response, and the thread that a response wakes."""

from __future__ import annotations

import pytest

from nri.errors import RpcError
from nri.ttrpc.envelope import Response
from nri.ttrpc.waiters import Callback, Reading, Waiter, payload_of


def test_a_waiting_thread_is_woken_once_for_repeated_signals() -> None:
    waiter = Waiter()
    assert not waiter.lock.acquire(blocking=False), "it waits from the beginning"
    waiter.wake()
    assert waiter.nudge(), "there is a thread to wake"
    assert waiter.lock.acquire(blocking=False)
    assert not waiter.lock.acquire(blocking=False), "two words are one wake-up"


def test_a_reading_thread_is_not_woken() -> None:
    reading = Reading()
    reading.wake()
    assert not reading.nudge()


def test_a_callback_gets_the_response_or_none_at_the_end_of_the_connection() -> None:
    outcomes: list[Response | None] = []
    for response in (Response(b"x"), None):
        callback = Callback(outcomes.append)
        callback.response = response
        assert not callback.nudge(), "there is no thread to wake"
        callback.wake()
    assert [outcome and outcome.payload for outcome in outcomes] == [b"x", None]


def test_a_status_raises_and_a_success_returns_its_payload() -> None:
    assert payload_of(Response(b"x")) == b"x"
    with pytest.raises(RpcError, match="gone") as caught:
        payload_of(Response(b"x", 5, "gone"))
    assert caught.value.code == 5
