"""A terminal handed over by a runtime; a program of the test is the runtime."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from nri.engine.process import console
from nri.engine.process.console import start_with_terminal
from nri.engine.support.errors import CommandTimeout, ToolMissing

HAND_OVER = """
import os, socket, sys
path = next(word for word in sys.argv if word.startswith("--console-socket=")).partition("=")[2]
master, slave = os.openpty()
with socket.socket(socket.AF_UNIX) as sock:
    sock.connect(path)
    socket.send_fds(sock, [b"/dev/pts/x"], [master])
os.write(slave, sys.argv[-1].encode() + b"\\n")
sys.exit(3)
"""


def argv(folder: Path, program: str) -> list[str]:
    file = folder / "runtime.py"
    file.write_text(program)
    return [sys.executable, str(file), "exec", "c1"]


def test_the_terminal_comes_with_what_the_program_wrote(tmp_path: Path) -> None:
    process, terminal = start_with_terminal(argv(tmp_path, HAND_OVER), "c1", tmp_path)
    try:
        assert os.read(terminal, 100) == b"c1\r\n"
        assert not os.get_inheritable(terminal)
        assert process.wait(20) == 3
    finally:
        os.close(terminal)


def test_a_program_that_could_not_be_started_has_a_terminal_at_its_end(tmp_path: Path) -> None:
    process, terminal = start_with_terminal(argv(tmp_path, "raise SystemExit(126)"), "c1", tmp_path)
    try:
        with pytest.raises(OSError, match="Input/output error"):
            os.read(terminal, 100)
        assert process.wait(20) == 126
    finally:
        os.close(terminal)


def test_a_runtime_that_hands_over_nothing_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "_TIMEOUT_S", 0.2)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(CommandTimeout, match="the terminal for exec in c1"):
        start_with_terminal(argv(tmp_path, "import time; time.sleep(60)"), "c1", tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_runtime_that_is_not_there_leaves_nothing_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ToolMissing):
        start_with_terminal(["/none/crun", "exec", "c1"], "c1", tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before
