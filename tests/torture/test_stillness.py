"""A torture run counts unless the machine was paused."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.torture import stillness
from tests.torture.stillness import Stillness, faults_of

STOPS = """
import os, signal, sys, time
os.kill(int(sys.argv[1]), signal.SIGSTOP)
time.sleep(0.5)
os.kill(int(sys.argv[1]), signal.SIGCONT)
"""


def test_a_stopped_process_is_detected() -> None:
    with Stillness() as still:
        subprocess.run([sys.executable, "-c", STOPS, str(os.getpid())], check=True)
    assert still.worst_s > 0.4


@pytest.mark.parametrize(("worst_s", "runs"), [(0.1, 1), (5.0, 1 + stillness.AGAIN)])
def test_a_fault_counts_at_once_unless_the_machine_was_paused(
    monkeypatch: pytest.MonkeyPatch, worst_s: float, runs: int
) -> None:
    monkeypatch.setattr(Stillness, "__enter__", lambda self: self)
    monkeypatch.setattr(Stillness, "__exit__", lambda self, *_: setattr(self, "worst_s", worst_s))
    finished: list[int] = []
    assert faults_of(lambda: finished.append(1) or ["wrong"], 0.25) == ["wrong"]
    assert len(finished) == runs


def test_a_successful_run_is_not_repeated() -> None:
    finished: list[int] = []
    assert faults_of(lambda: finished.append(1) or [], -1.0) == []
    assert finished == [1]
