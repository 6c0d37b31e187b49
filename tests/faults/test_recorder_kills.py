"""A recorder that is killed at any byte or at any moment: its file stays readable."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.trace.history import Event, Trace
from tests.support.commands import unmeasured
from tests.support.waiting import wait_for

#: Record many events per second that do not compress well; print the number and time of every twentieth.
PROGRAM = """
import os, resource, signal, sys, time
from nri.trace.recorder import Recorder
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
folder, most, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if limit:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
recorder = Recorder(folder, redact=False)
for serial in range(1, most + 1):
    request = os.urandom(1000)
    recorder.event_begins("StartContainer", serial, request)
    recorder.event_ends("StartContainer", serial, b"", None, 0.001)
    if serial % 20 == 0:
        print(serial, time.time_ns(), flush=True)
        time.sleep(0.005)
time.sleep(600)
"""


def recording(folder: Path, limit_: int, limit: int = 0) -> subprocess.Popen[str]:
    """Start it; with a limit, the process is killed by the write that would make the file longer than that."""
    command = [sys.executable, "-c", PROGRAM, str(folder), str(limit_), str(limit)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=unmeasured())


def events(folder: Path) -> tuple[list[Event], list[str]]:
    """The events that can be read whole, and what cannot be read."""
    trace = Trace(folder)
    return [event for event in trace.events() if event.whole], trace.problems


def serials(folder: Path) -> tuple[list[int], list[str]]:
    """The numbers of the events that can be read whole, and what cannot be read."""
    matches, problems = events(folder)
    return [entry.serial for entry in matches], problems


def readable_serials(folder: Path) -> Iterator[int]:
    """The numbers of the readable events; none before the first file exists."""
    yield from serials(folder)[0] if any(folder.glob("*.nritrace")) else ()


def test_a_recorded_event_is_soon_in_the_file(tmp_path: Path) -> None:
    with recording(tmp_path, 200) as process:
        try:
            wait_for(lambda: 200 in readable_serials(tmp_path), "the last event is written")
        finally:
            process.kill()
    assert serials(tmp_path) == (list(range(1, 201)), [])


def test_a_recorder_killed_at_any_moment_loses_at_most_the_last_second(tmp_path: Path) -> None:
    drawn = random.Random(26)
    for number in range(8):
        folder = tmp_path / str(number)
        with recording(folder, 100_000) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(drawn.randrange(1, 240))]
            process.kill()
        messages, told_ns = map(int, lines[-1].split())
        begun_ns = int(lines[0].split()[1])
        matches, problems = events(folder)
        assert [entry.serial for entry in matches] == list(range(1, len(matches) + 1)), f"some of {messages} miss"
        newest_ns = max((entry.began_ns for entry in matches), default=begun_ns)
        assert told_ns - newest_ns < 1_000_000_000, f"of {messages} events {len(matches)} are there"
        assert len(problems) <= 1 and all("truncated" in line for line in problems)


@pytest.mark.parametrize("seed", range(8))
def test_a_recorder_killed_at_any_byte_leaves_a_readable_file(tmp_path: Path, seed: int) -> None:
    limit = random.Random(seed).randrange(1, 700_000)
    with recording(tmp_path, 100_000, limit) as process:
        assert process.stdout is not None
        for _ in process.stdout:
            pass  # until it is killed
        assert process.wait() == -signal.SIGXFSZ
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size == limit
    matches, problems = serials(tmp_path)
    assert matches == list(range(1, len(matches) + 1))
    assert len(problems) <= 1 and all("truncated" in line for line in problems)


def test_a_file_cut_at_any_byte_has_the_events_of_its_complete_blocks(tmp_path: Path) -> None:
    with recording(tmp_path, 1500) as process:
        try:
            wait_for(lambda: 1500 in readable_serials(tmp_path), "the last event is written")
        finally:
            process.kill()
    (file,) = tmp_path.iterdir()
    content, drawn = file.read_bytes(), random.Random(26)
    before: list[int] = []
    for length in sorted(drawn.randrange(1, len(content)) for _ in range(120)):
        file.write_bytes(content[:length])
        matches, problems = serials(tmp_path)
        assert matches == list(range(1, len(matches) + 1)) and len(matches) >= len(before), length
        assert len(problems) <= 1, length
        before = matches
    assert before[-1] > 1000
