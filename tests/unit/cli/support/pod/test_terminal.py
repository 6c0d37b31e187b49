"""A terminal lent to a program: raw meanwhile, and as before afterwards."""

from __future__ import annotations

import os
import pty
import signal
import sys
import termios
from pathlib import Path

import pytest

from nri.cli.errors import Failure
from nri.cli.support.pod.terminal import ends


def test_it_is_raw_while_it_is_lent_and_its_changes_of_size_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    monkeypatch.setattr(sys, "stdin", os.fdopen(slave, closefd=False))
    before, handler = termios.tcgetattr(slave), signal.getsignal(signal.SIGWINCH)
    with ends(stdin=True, tty=True, leave=True) as streams:
        assert not termios.tcgetattr(slave)[3] & termios.ICANON
        signal.raise_signal(signal.SIGWINCH)
        assert streams.leave and streams.resized is not None and os.read(streams.resized, 8)
    assert termios.tcgetattr(slave) == before and signal.getsignal(signal.SIGWINCH) is handler
    os.close(master)
    os.close(slave)


def test_without_a_terminal_there_are_only_streams(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with ends(stdin=False, tty=False) as streams:
        assert (streams.stdin, streams.resized) == (None, None)
        streams.write("stdout", b"out\xff")
        streams.write("stderr", b"err")
    with pytest.raises(Failure, match="-t needs -i, and a terminal"), ends(stdin=False, tty=True):
        pass
    captured = capfd.readouterr()
    assert (captured.out[:3], captured.err) == ("out", "err")
