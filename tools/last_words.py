"""Run a command with its output passed on, and keep what has to be said again below a table: its last words.

A log of CI is cut in the middle, so the reason of a failure is only seen if it stands at the very end. Rules: of pytest
these are the lines of its summary (FAILED, ERROR); of anything else, and of a pytest that has not come to one, the last
lines; never more than `LAST` or `SUMMARY`. A process that outlives the command and holds its output is not waited for.
Next: `tools/check.py`, which prints the table.
"""

from __future__ import annotations

import codecs
import os
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

#: So many last lines of a command are kept, and so many of pytest's summary.
LAST = 30
SUMMARY = 100
#: How long after its end more of its output is waited for, in seconds.
_GRACE_S = 5.0

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FAILED = re.compile(r"(FAILED|ERROR) ")


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
        plain = _COLOURS.sub("", line).rstrip()
        self._last.append(plain)
        if _FAILED.match(plain) and len(self._summary) < SUMMARY:
            self._summary.append(plain)

    def lines(self) -> list[str]:
        """The lines to say again."""
        if self._line:
            self._keep(self._line)
            self._line = ""
        return self._summary or [line for line in self._last if line]


def run(
    argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], output: TextIO | None = None
) -> tuple[int, list[str]]:
    """Run a command without input, its output on ours or on `output`; returns its exit code and its last words."""
    words = LastWords(output or sys.stdout)
    with subprocess.Popen(
        argv, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        passing = threading.Thread(target=_pass_on, args=(process.stdout.fileno(), words), daemon=True)
        passing.start()
        try:
            code = process.wait()
        except BaseException:
            process.kill()
            raise
        passing.join(_GRACE_S)
        words.ended = True
    return code, words.lines()


def _pass_on(pipe: int, words: LastWords) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    # After the end the pipe's number may be that of the next command's.
    while not words.ended and (chunk := os.read(pipe, 1 << 16)) and not words.ended:
        words.say(decoder.decode(chunk))
