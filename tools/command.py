"""Run a command, pass its output on, and keep the lines that are printed again below the table of stages.

A log of CI is cut in the middle, so the reason of a failure has to be at its end: the summary of pytest (FAILED,
ERROR), or the last lines of any other command and of a pytest without a summary.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

MAX_LAST_LINES = 30
MAX_SUMMARY_LINES = 100
MAX_LINE_CHARACTERS = 500
POLL_S = 0.1

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FAILED = re.compile(r"(FAILED|ERROR) ")
# Each running command leads a process group, so that Ctrl-C reaches it only through `interrupt`, and once.
_running: set[subprocess.Popen[bytes]] = set()


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended; `processor_s` is the processor time of the command and its children."""

    code: int
    last_lines: list[str]
    processor_s: float


def run(
    argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], output: TextIO | None = None
) -> CommandResult:
    """Run a command without input; write its output to `output`, by default to standard output, while it runs."""
    destination, text = output or sys.stdout, ""
    # A file and not a pipe: nobody has to wait for a child that outlives the command and holds its output.
    with tempfile.NamedTemporaryFile() as log, Path(log.name).open(encoding="utf-8", errors="replace") as reader:
        process = subprocess.Popen(
            argv, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            process_group=0,
        )  # fmt: skip
        _running.add(process)
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            chunk = reader.read()
            destination.write(chunk)
            destination.flush()
            text += chunk
            if ended:
                break
            time.sleep(POLL_S)
        _running.discard(process)
    process.returncode = os.waitstatus_to_exitcode(status)
    return CommandResult(process.returncode, lines_to_repeat(text), usage.ru_utime + usage.ru_stime)


def lines_to_repeat(text: str) -> list[str]:
    """The summary of pytest in an output, or its last lines."""
    lines = [line.rstrip()[:MAX_LINE_CHARACTERS] for line in _COLOURS.sub("", text).splitlines()]
    summary = [line for line in lines if _FAILED.match(line)]
    return summary[:MAX_SUMMARY_LINES] or [line for line in lines[-MAX_LAST_LINES:] if line]


def interrupt(signal_number: int = signal.SIGINT) -> None:
    """Send the running commands what Ctrl-C would send, or another signal."""
    for process in list(_running):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal_number)
