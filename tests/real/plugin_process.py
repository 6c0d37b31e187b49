"""A plugin in a process of its own, seen through the JSON lines that it prints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tools.runtimes.machine import PATIENCE

RECORDER = Path(__file__).parent / "plugins/recorder.py"
WAIT_S = 15.0 * PATIENCE
Line = dict[str, Any]


class PluginProcess:
    """A running plugin; a context manager that stops it with SIGTERM."""

    def __init__(
        self,
        socket: Path,
        idx: str = "10",
        name: str = "recorder",
        policy: Mapping[str, bool] | None = None,
        events: str = "all",
    ):
        policy_text = {} if policy is None else {"TEST_POLICY": json.dumps(policy)}
        self.name = f"{idx}-{name}"
        self._changed = threading.Condition()
        self._lines: list[Line] = []
        self._errors: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, RECORDER, "--idx", idx, "--name", name, "--socket-path", socket, "--events", events],
            env={**os.environ, **policy_text},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._readers = [
            threading.Thread(target=self._read_lines, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def lines(self, event: str = "", **fields: Any) -> list[Line]:
        """The lines so far of that event (any if empty) whose fields have these values."""
        with self._changed:
            return [line for line in self._lines if _matches(line, event, fields)]

    def wait_for(self, event: str, count: int = 1, timeout_s: float = WAIT_S, **fields: Any) -> Line:
        """Wait for the line number `count` that matches, and return it."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while len(lines := [line for line in self._lines if _matches(line, event, fields)]) < count:
                remaining = deadline - time.monotonic()
                if remaining <= 0 or not self._changed.wait(remaining):
                    raise AssertionError(f"{self.name}: no line number {count} of {event} {fields}; {self.story()}")
            return lines[count - 1]

    def story(self) -> str:
        """What it printed, for messages of failed tests."""
        events = [f"{line['event']}({line.get('pod', '')})" for line in self._lines[-40:]]
        return f"it printed: {' '.join(events) or 'nothing'}; on stderr: {''.join(self._errors[-20:]) or 'nothing'}"

    def send(self, command: Line) -> None:
        """Write one line to its stdin."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def stop(self) -> int:
        """End it with SIGTERM; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for reader in self._readers:
            reader.join(WAIT_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return self.process.returncode

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            with self._changed:
                self._lines.append(json.loads(text))
                self._changed.notify_all()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for text in self.process.stderr:
            self._errors.append(text)


def _matches(line: Line, event: str, fields: Mapping[str, Any]) -> bool:
    return (not event or line["event"] == event) and all(line.get(key) == value for key, value in fields.items())
