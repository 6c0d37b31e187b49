"""What may be killed for a program in a container: all that came of it, and no stranger."""

import subprocess
import time
from pathlib import Path

import pytest

from nri.engine.process import kills
from nri.engine.process.kills import kill_started
from nri.host import Root


def test_a_number_that_is_another_process_by_now_is_not_killed(tmp_path: Path) -> None:
    stranger = subprocess.Popen(["sleep", "60"])
    (tmp_path / "pid").write_text(str(stranger.pid))
    kill_started(tmp_path / "pid")
    time.sleep(0.1)
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()
    for text in (str(stranger.pid), "", "x"):
        (tmp_path / "pid").write_text(text)
        kill_started(tmp_path / "pid")


def test_what_was_started_is_killed_with_its_children(tmp_path: Path) -> None:
    script = f"sleep 60 & echo $! > {tmp_path}/child; sh -c 'echo $$ > $0; sleep 61; true' $0"
    runtime = subprocess.Popen(["sh", "-c", script, str(tmp_path / "pid")])
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.01)
    kill_started(tmp_path / "pid")
    assert runtime.wait(20) != 0
    subprocess.run(["kill", (tmp_path / "child").read_text().strip()], check=True)


FORKS = """\
import os, signal, sys, time
def fork(*_):
    if os.fork() == 0:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        open(sys.argv[2], "w").write(str(os.getpid()))
        time.sleep(60)
        os._exit(0)
signal.signal(signal.SIGUSR1, fork)
open(sys.argv[1], "w").write(str(os.getpid()))
while True:
    time.sleep(60)
"""


def test_what_a_program_starts_while_its_children_are_looked_for_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid_file, child = tmp_path / "pid", tmp_path / "child"
    (tmp_path / "forks.py").write_text(FORKS)
    words = ["sh", "-c", f"/usr/bin/env python3 {tmp_path}/forks.py $0 {child}; true", str(pid_file)]
    runtime = subprocess.Popen(words)
    while not pid_file.exists() or not pid_file.read_text():
        time.sleep(0.01)
    look = kills.children

    def forking(root: Root, pid: int) -> list[int]:
        found = look(root, pid)
        if not child.exists() and pid == int(pid_file.read_text()):
            subprocess.run(["kill", "-USR1", str(pid)], check=True)
            deadline = time.monotonic() + 1
            while not child.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
        return found

    monkeypatch.setattr(kills, "children", forking)
    kill_started(pid_file)
    runtime.wait(20)
    if child.exists():
        subprocess.run(["kill", "-9", child.read_text()], check=False)
        pytest.fail("it started another one, and nobody knows of that")
