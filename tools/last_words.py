"""Run a command with its output passed on, and keep what has to be said again below a table: its last words.

A log of CI is cut in the middle, so the reason of a failure is only seen if it is at the very end. Rules: of pytest
these are the lines of its summary (FAILED, ERROR); of anything else, and of a pytest that has not come to one, the last
lines; never more than `LAST` or `SUMMARY`. A process that outlives the command and holds its output is not waited for.
Next: `tools/check.py`, which prints the table.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

#: So many last lines of a command are kept, and so many of pytest's summary; of each so many characters.
LAST = 30
SUMMARY = 100
_LINE = 500
#: How long after its end more of its output is waited for, in seconds.
GRACE_S = 5.0

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FAILED = re.compile(r"(FAILED|ERROR) ")
# Commands that run, each the leader of a process group: Ctrl-C reaches them through `interrupt` alone, and once.
_running: set[subprocess.Popen[bytes]] = set()


class LastWords:
    """Passes text on to an output, and keeps the end of it and pytest's summary."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._last: deque[str] = deque(maxlen=LAST)
        self._summary: list[str] = []
        self._line = ""
        #: The command has ended, and what still comes is not its own.
        self.ended = False

    def say(self, text: str) -> None:
        """Print some output, and keep it."""
        self._output.write(text)
        self._output.flush()
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._keep(line)

    def _keep(self, line: str) -> None:
        plain = _COLOURS.sub("", line).rstrip()[:_LINE]
        self._last.append(plain)
        if _FAILED.match(plain) and len(self._summary) < SUMMARY:
            self._summary.append(plain)

    def lines(self) -> list[str]:
        """The lines to say again."""
        if self._line:
            self._keep(self._line)
            self._line = ""
        return self._summary or [line for line in self._last if line]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended; `processor_s` is what it and the processes that it waited for have used of processors."""

    code: int
    last_words: list[str]
    processor_s: float


def run(argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], output: TextIO | None = None) -> Ended:
    """Run a command without input, its output on ours or on `output`."""
    words = LastWords(output or sys.stdout)
    with subprocess.Popen(
        argv, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        process_group=0,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        _running.add(process)
        passing = threading.Thread(target=_pass_on, args=(process.stdout.fileno(), words), daemon=True)
        passing.start()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        _running.discard(process)
        used = _processor_s(process.pid)
        passing.join(GRACE_S)
        words.ended = True
    return Ended(process.wait(), words.lines(), used)


def _processor_s(process: int) -> float:
    """The processor time of a process that has ended and is not yet reaped."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def interrupt(signal_number: int = signal.SIGINT) -> None:
    """Send the commands that run what Ctrl-C would, or another signal."""
    for process in list(_running):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal_number)


def _pass_on(pipe: int, words: LastWords) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    # After the end the pipe's number may be that of the next command's.
    while not words.ended and (chunk := os.read(pipe, 1 << 16)) and not words.ended:
        words.say(decoder.decode(chunk))
