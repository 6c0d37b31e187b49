"""The signals that stop a program."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from nri.stub.program.stop import Stop


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_stops_and_says_the_exit_code(number: int, code: int) -> None:
    told: list[str] = []
    stop = Stop(lambda: told.append("stop"))
    stop.listen()
    assert not stop and told == []
    os.kill(os.getpid(), number)
    assert stop and stop.signal == number and told == ["stop"]
    assert stop.exit_code == code


def test_the_first_signal_decides() -> None:
    stop = Stop(lambda: None)
    stop.listen()
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    assert (stop.signal, stop.exit_code) == (signal.SIGTERM, 0)


def is_cut_short() -> bool:
    """Whether a signal ends a wait of ten seconds earlier."""
    stop = Stop(lambda: None)
    stop.listen()
    killer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM))
    killer.start()
    began = time.monotonic()
    stop.wait(10)
    killer.join()
    assert stop
    return time.monotonic() - began < 8


def test_a_signal_cuts_a_wait_short() -> None:
    assert any(is_cut_short() for _ in range(3)), "it does not, and not for coming in the instant before the wait"


def test_a_wait_ends_by_itself() -> None:
    stop = Stop(lambda: None)
    stop.wait(0.01)
    assert not stop


def test_one_that_two_threads_stop_at_once_is_stopped() -> None:
    class Released:
        """The lock of a wait that another thread ends between our look and our release."""

        def locked(self) -> bool:
            return True

        def release(self) -> None:
            raise RuntimeError("release unlocked lock")

    stop = Stop(lambda: None)
    stop._wake = Released()  # type: ignore[assignment]
    stop.take(signal.SIGTERM)
    assert stop
