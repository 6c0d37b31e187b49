"""The course of one attack: node, healthy plugins, some calm, the attack, some calm, and everything that was counted.

Processes are started and ended here, each by its own handle. `run` returns an `Outcome`; it raises `Course` only if
the course itself could not be run. A `Setting` takes several attacks, as `tests.torture.soak` needs it. Next:
`tests.torture.judge`.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.torture.attack import Attack
from tests.torture.healthy import LABELS

ROOT = Path(__file__).resolve().parents[2]
#: Events before the attack begins and after it has ended, in seconds.
CALM_S = 0.2
PATIENCE_S = 60.0


class Course(Exception):
    """A program of the course did not do its part; the text says which."""


class Program:
    """One of the course's processes; speaks in lines."""

    def __init__(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self.name = arguments[0]
        self.process = subprocess.Popen(
            (sys.executable, "-m", *arguments),
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
            # Buffered, and flushed: Python's unbuffered stdout loses what a write that a stop interrupts leaves over.
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
        self._rest = b""

    def line(self, timeout_s: float = PATIENCE_S) -> str:
        """The next line that it prints."""
        stdout = self.process.stdout
        assert stdout is not None
        until = time.monotonic() + timeout_s
        while b"\n" not in self._rest:
            ready, _, _ = select.select([stdout], [], [], max(0.0, until - time.monotonic()))
            data = os.read(stdout.fileno(), 1 << 20) if ready else b""
            if not data:
                self.kill()
                stderr = self.process.stderr
                assert stderr is not None
                output = stderr.read().decode(errors="replace")[-3000:]
                raise Course(f"{self.name} {'ended' if ready else 'hangs'}: {output}")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def ask(self, command: str, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        """Send a line and have the answer."""
        stdin = self.process.stdin
        assert stdin is not None
        stdin.write(command.encode() + b"\n")
        answer: dict[str, Any] = json.loads(self.line(timeout_s))
        return answer

    def kill(self) -> None:
        """End it at once, and wait for it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


@dataclass
class Outcome:
    """Everything that was counted.

    Attributes:
        attack, seconds, timeout_s: what was run.
        events: per thread: event, pod, seconds, error.
        seen: per healthy plugin: event, pod, in order; `ended`: those whose connection ended.
        before, most, after: memory in KiB, descriptors, threads.
        log: what the node has logged, as bytes.
        count: what the hostile plugin has counted.
        shown: what `nri why` and others print of it, where the attack wants that.
        rest: what else the node told.
    """

    attack: Attack
    seconds: float
    timeout_s: float
    events: list[list[tuple[str, str, float, str]]] = field(default_factory=list)
    seen: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)
    log: bytes = b""
    count: dict[str, int] = field(default_factory=dict)
    shown: str = ""
    rest: dict[str, Any] = field(default_factory=dict)

    @property
    def worst_s(self) -> float:
        """How long the worst event took, in seconds."""
        return max((row[2] for thread in self.events for row in thread), default=0.0)

    @property
    def refused(self) -> int:
        """How many events failed."""
        return sum(bool(row[3]) for thread in self.events for row in thread)

    @property
    def memory_mib(self) -> float:
        """How much the node's memory grew, at its peak."""
        return (self.most["memory"] - self.before["memory"]) / 1024

    @property
    def log_lines(self) -> int:
        """How many lines were logged."""
        return self.log.count(b"\n")


class Setting:
    """A node with its healthy plugins, ready for attacks one after the other."""

    def __init__(self, attack: Attack, timeout_s: float, environment: Mapping[str, str] | None = None) -> None:
        self.timeout_s = timeout_s
        with ExitStack() as stack:
            self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nri-t-")))
            self.socket = f"{self._folder}/nri.sock"
            if attack.prepare is not None:
                attack.prepare(self._folder)
            self._node = stack.enter_context(Program("tests.torture.node", environment=environment))
            self._node.ask(json.dumps({"folder": str(self._folder), **attack.node, "timeout_s": timeout_s}))
            self._healthy = stack.enter_context(Program("tests.torture.healthy", self.socket))
            if self._healthy.line() != "ready" or not self._node.ask("ready " + " ".join(LABELS))["ready"]:
                raise Course("the healthy plugins do not take part")
            self._stack = stack.pop_all()
        self._logged = 0

    def hostile(self, attack: Attack, seconds: float) -> Program:
        """Start an attack's process."""
        return Program("tests.torture.attacker", attack.name, self.socket, str(seconds), str(self.timeout_s))

    def run(self, attack: Attack, seconds: float) -> Outcome:
        """Run one attack, from calm to calm."""
        outcome = Outcome(attack, seconds, self.timeout_s)
        self._node.ask("begin")
        time.sleep(CALM_S)
        with self.hostile(attack, seconds) as hostile:
            outcome.count = json.loads(hostile.line(seconds + PATIENCE_S))
            hostile.process.wait(PATIENCE_S)
        time.sleep(CALM_S)
        reply = self._node.ask("end", PATIENCE_S + 30 * self.timeout_s)
        outcome.shown = self.shown() if attack.check is not None else ""
        calls = self._healthy.ask("seen")
        log = (self._folder / "log").read_bytes()
        outcome.log, self._logged = log[self._logged :], len(log)
        for name in ("events", "before", "most", "after"):
            setattr(outcome, name, reply.pop(name))
        outcome.seen, outcome.ended, outcome.rest = calls["seen"], calls["ended"], reply
        return outcome

    def shown(self) -> str:
        """What an operator's terminal gets to see of the node."""
        start = "import sys; from nri.cli.entry import start; sys.exit(start())"
        command = (sys.executable, "-c", start, "why", "--admin-socket", f"{self._folder}/admin.sock")
        texts = []
        for argument in ("--plugins", "standing-1"):
            process = subprocess.run(
                (*command, argument), cwd=ROOT, capture_output=True, check=False, timeout=PATIENCE_S
            )
            texts.append((process.stdout + process.stderr).decode(errors="surrogateescape"))
        return "\n".join(texts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def run(attack: Attack, seconds: float, timeout_s: float) -> Outcome:
    """Run one attack on a node of its own and return what came of it."""
    with Setting(attack, attack.node.get("timeout_s", timeout_s)) as setting:
        return setting.run(attack, seconds)
