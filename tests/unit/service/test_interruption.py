"""A signal becomes one exception, and never inside a protected block."""

from __future__ import annotations

import os
import signal

import pytest

from nri.service.interruption import SIGNALS, SignalStop, Stopped


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_raises_and_later_ones_do_not(number: int) -> None:
    before = signal.getsignal(number)
    with SignalStop():
        with pytest.raises(Stopped) as caught:
            os.kill(os.getpid(), number)
        os.kill(os.getpid(), signal.SIGTERM)
    assert (caught.value.code, caught.value.signal) == (128 + number, signal.Signals(number).name)
    assert signal.getsignal(number) is before


def test_a_protected_block_ends_before_the_signal_raises() -> None:
    steps = []

    def work(stop: SignalStop) -> None:
        with stop.held():
            os.kill(os.getpid(), signal.SIGTERM)
            steps.append("after the signal")

    with SignalStop() as stop, pytest.raises(Stopped):
        work(stop)
    assert steps == ["after the signal"]


def test_a_signal_raises_even_if_the_protected_block_fails() -> None:
    def fail(stop: SignalStop) -> None:
        with stop.held():
            os.kill(os.getpid(), signal.SIGTERM)
            raise ValueError("the block fails")

    with SignalStop() as stop, pytest.raises(Stopped):
        fail(stop)


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with SignalStop():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_no_signal_raises_after_the_start_of_the_clean_up() -> None:
    with SignalStop() as stop:
        stop.finish()
        os.kill(os.getpid(), signal.SIGTERM)
