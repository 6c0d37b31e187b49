"""Signals are sent to a container's own first process, and to no other."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.engine.process.signals import number_of, send

#: Stands in for conmon: its arguments name the container and the bundle. It prints the PID and exit code of a child.
CONMON = """
import subprocess, sys
child = subprocess.Popen(["sleep", "300"])
print(child.pid, flush=True)
print(child.wait(), flush=True)
"""


@pytest.fixture
def conmon(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A conmon with its child's number."""
    process = subprocess.Popen(["python3", "-c", CONMON, "c1", str(tmp_path)], stdout=subprocess.PIPE, text=True)
    (tmp_path / "conmon.pid").write_text(str(process.pid))
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        yield process, child
    finally:
        for pid in (child, process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.wait()
        process.stdout.close()


def test_the_containers_first_process_gets_the_signal(
    tmp_path: Path, conmon: tuple[subprocess.Popen[str], int]
) -> None:
    process, child = conmon
    assert send(tmp_path, "c1", child, "SIGTERM")
    assert process.stdout is not None and int(process.stdout.readline()) == -signal.SIGTERM


def test_no_other_process_gets_a_signal(tmp_path: Path, conmon: tuple[subprocess.Popen[str], int]) -> None:
    _, child = conmon
    strange = subprocess.Popen(["sleep", "300"])
    try:
        assert not send(tmp_path, "c1", strange.pid, "KILL")  # not conmon's child
        assert not send(tmp_path, "c2", child, "KILL")  # not this container's conmon
        assert not send(tmp_path / "other", "c1", child, "KILL")
        assert not send(tmp_path, "c1", child, "NONSENSE")
        assert not send(tmp_path, "c1", 0, "KILL")
        assert strange.poll() is None and os.path.exists(f"/proc/{child}")
    finally:
        strange.kill()
        strange.wait()
    assert not send(tmp_path, "c1", strange.pid, "KILL")  # it is gone


def test_signals_have_names_and_numbers() -> None:
    assert [number_of(word) for word in ("TERM", "SIGTERM", "term", "15", "9", "RTMIN", "999", "RTMIN+3", "")] == [
        15, 15, 15, 15, 9, signal.SIGRTMIN, 0, 0, 0,
    ]  # fmt: skip
