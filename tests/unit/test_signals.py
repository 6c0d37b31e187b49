"""The signals that stop a program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from nri import signals
from nri.signals import Stop
from tests.support.signals import signal_in_a_wait


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_stops_the_program_with_its_exit_code(number: int, code: int) -> None:
    messages: list[str] = []
    stop = Stop(lambda: messages.append("stop"))
    stop.listen()
    assert not stop and messages == []
    os.kill(os.getpid(), number)
    assert stop and stop.signal == number and messages == ["stop"]
    assert stop.exit_code == code


def test_a_signal_just_before_the_wait_is_not_lost() -> None:
    with signal_in_a_wait(signal.SIGTERM):
        stop = Stop()
        stop.listen()
        assert stop.wait_for_signal() == signal.SIGTERM


def test_an_action_follows_its_signal_in_the_waiting_thread_and_does_not_stop() -> None:
    stop, threads = Stop(), list[threading.Thread]()
    stop.listen()

    def act() -> None:
        threads.append(threading.current_thread())
        os.kill(os.getpid(), signal.SIGHUP if len(threads) < 3 else signal.SIGTERM)

    stop.call_after(signal.SIGHUP, act)
    os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGHUP)
    assert not threads
    assert stop.wait_for_signal() == signal.SIGTERM
    assert threads == [threading.main_thread()] * 3


def test_another_thread_can_end_the_wait_for_a_signal() -> None:
    stop = Stop()
    killer = threading.Timer(0.05, stop.take, (signal.SIGHUP,))
    killer.start()
    assert stop.wait_for_signal() == signal.SIGHUP
    killer.join()


def test_only_the_thread_that_listens_is_woken_by_signals() -> None:
    matches: list[int] = []
    Stop().listen()
    other = threading.Thread(target=lambda: matches.append(signals.wake_fd()))
    other.start()
    other.join()
    assert matches == [-1]
    os.kill(os.getpid(), signal.SIGINT)
    assert signal.SIGINT in os.read(signals.wake_fd(), 64)


def test_a_second_signal_can_end_the_process_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    stop = Stop(second_ends=True)
    stop.take(signal.SIGHUP)
    assert (stop.wait_for_signal(), ended) == (signal.SIGHUP, [])
    stop.take(signal.SIGINT)
    assert ended == [1]


def test_the_first_signal_decides() -> None:
    stop = Stop()
    stop.listen()
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    assert (stop.signal, stop.exit_code) == (signal.SIGTERM, 0)


def is_cut_short() -> bool:
    """Whether a signal ends a wait of ten seconds earlier."""
    stop = Stop()
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
    stop = Stop()
    stop.wait(0.01)
    assert not stop


def test_stopping_twice_has_no_further_effect() -> None:
    stop = Stop()
    for _ in range(2):
        stop.take(signal.SIGTERM)
    assert stop


#: A program whose end would wait for a thread for ever.
STUCK = """
import signal, sys, threading
from nri.signals import Stop
stop = Stop()
stop.listen()
threading.Thread(target=threading.Event().wait, name="stuck").start()
print("ready", flush=True)
stop.wait_for_signal()
stop.end_process_in(0.2, lambda names: print(names, flush=True))
"""


def test_a_process_ends_although_a_thread_waits_forever() -> None:
    with subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        program.terminate()
        try:
            assert program.wait(20) == 0
        finally:
            program.kill()
        assert "stuck" in program.stdout.read()
