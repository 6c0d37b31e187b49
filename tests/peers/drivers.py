"""Start the peers and talk to them: JSON lines in, JSON lines out, a deadline on every wait.

`LineProcess` is any program that speaks lines; `GoRuntime` adds the reference runtime's commands and `GoPlugin` the
scripted plugin's. Each is a context manager that ends its process, by its pid, whatever happened. README.md beside
this file lists the commands and lines.
"""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.peers.build import peer

Line = dict[str, Any]
PATIENCE_S = 20.0  # how long a test waits for what must come: generous, the machine is shared


class PeerError(AssertionError):
    """A peer answered with an error; `line` is the whole answer."""

    def __init__(self, line: Line) -> None:
        super().__init__(str(line.get("error", line)))
        self.line = line


class LineProcess:
    """A child process that reads and writes JSON lines; `lines` is everything that it said."""

    def __init__(self, argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None) -> None:
        self.argv = [str(part) for part in argv]
        self.lines: list[Line] = []
        self._answers: dict[int, Line] = {}
        self._sending = threading.Lock()
        self._news = threading.Condition()
        self._ended = False
        self._ids = itertools.count(1)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            self.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=None if env is None else dict(env),
        )
        self._reader = threading.Thread(target=self._read, name=f"lines of {self.argv[0]}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Of the child."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            try:
                line = json.loads(text)
            except ValueError:
                line = {"event": "unparsable", "text": text.decode(errors="replace")}
            with self._news:
                self.lines.append(line)
                if isinstance(line.get("id"), int):
                    self._answers[line["id"]] = line
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def send(self, line: Mapping[str, Any] | str) -> None:
        """Write one line to its stdin; a text goes as it is."""
        assert self._process.stdin is not None
        text = line if isinstance(line, str) else json.dumps(line)
        with self._sending:
            self._process.stdin.write(text.encode() + b"\n")
            self._process.stdin.flush()

    def close_stdin(self) -> None:
        """Tell it that there is no more to come."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def wait_for(self, wanted: Callable[[Line], bool], *, timeout_s: float = PATIENCE_S, what: str = "a line") -> Line:
        """The first line, old or new, that `wanted` accepts. AssertionError if none comes in time."""
        deadline = time.monotonic() + timeout_s
        looked_at = 0
        with self._news:
            while True:
                for line in self.lines[looked_at:]:
                    if wanted(line):
                        return line
                looked_at = len(self.lines)
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    why = f"ended with {self._process.poll()}" if self._ended else f"silent for {timeout_s} s"
                    raise AssertionError(f"waited for {what}; {self.argv[0]} {why}\n{self.tail()}")
                self._news.wait(left)

    def wait_event(self, event: str, count: int = 1, *, timeout_s: float = PATIENCE_S) -> Line:
        """The `count`-th line with this "event"."""
        seen = itertools.count(1)
        return self.wait_for(
            lambda line: line.get("event") == event and next(seen) >= count,
            timeout_s=timeout_s,
            what=f"{count} x event {event}",
        )

    def events(self, *names: str) -> list[Line]:
        """All lines so far that are events, or events of these names."""
        with self._news:
            return [line for line in self.lines if "event" in line and (not names or line["event"] in names)]

    def ask(self, command: Mapping[str, Any], *, timeout_s: float = PATIENCE_S) -> Line:
        """Send a command under a new id and await the line that carries the id."""
        number = next(self._ids)
        self.send({"id": number, **command})
        return self._answer(number, timeout_s, command)

    def _answer(self, number: int, timeout_s: float, command: object) -> Line:
        """Await the line with this id; as quick after a hundred thousand lines as after ten."""
        with self._news:
            self._news.wait_for(lambda: number in self._answers or self._ended, timeout_s)
            if number in self._answers:
                return self._answers.pop(number)
        return self.wait_for(lambda line: line.get("id") == number, timeout_s=0, what=f"reply to {command}")

    def wait(self, *, timeout_s: float = PATIENCE_S) -> int:
        """Await its end; the exit code."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.argv[0]} still runs after {timeout_s} s\n{self.tail()}") from None

    def kill(self, signum: int = signal.SIGKILL) -> None:
        """Send it a signal, if it still runs."""
        if self._process.poll() is None:
            os.kill(self.pid, signum)

    def tail(self, size_bytes: int = 4000) -> str:
        """The end of what it wrote to stderr."""
        end = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), size_bytes, max(0, end - size_bytes)).decode(errors="replace")

    def close(self) -> None:
        """End the process and free what it held; safe to call twice."""
        self.close_stdin()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait(10)
        self._reader.join(10)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class GoRuntime(LineProcess):
    """The reference's adaptation as a process. `release` is "" for the newest or "061" for 0.6.1."""

    def __init__(self, release: str = "") -> None:
        super().__init__([peer("refruntime" + release)])

    def command(self, cmd: str, *, timeout_s: float = PATIENCE_S, **arguments: Any) -> Any:
        """Carry out a command and give its reply. PeerError if it failed."""
        line = self.ask({"cmd": cmd, **arguments}, timeout_s=timeout_s)
        if not line["ok"]:
            raise PeerError(line)
        return line["reply"]

    def start(self, socket: str | Path = "", **options: Any) -> None:
        """Start the adaptation; options as in README.md (times in milliseconds)."""
        self.command("start", socket=str(socket), **options)

    def event(self, name: str, pod: Any = None, container: Any = None, **more: Any) -> Any:
        """Send an event through the plugins; pod and container as protobuf JSON. The merged reply."""
        return self.command("event", name=name, pod=pod, container=container, **more)

    def begin_event(self, name: str, pod: Any = None, container: Any = None, **more: Any) -> Callable[[], Line]:
        """Like `event`, without waiting: calling the result awaits the raw answer line."""
        number = next(self._ids)
        self.send({"id": number, "cmd": "event", "name": name, "pod": pod, "container": container, **more})
        return lambda: self._answer(number, PATIENCE_S, name)

    def wait_plugins(self, count: int = 1, *, timeout_s: float = PATIENCE_S, exactly: bool = False) -> list[str]:
        """Await that many plugins; their names by rising index."""
        reply = self.command(
            "wait_plugins", count=count, exactly=exactly, timeout_ms=int(timeout_s * 1000), timeout_s=timeout_s + 5
        )
        return list(reply["order"])

    def stop(self) -> None:
        """Stop the adaptation, keep the process."""
        self.command("stop")


class GoPlugin(LineProcess):
    """A scripted plugin on the reference's stub; the script's keys are in README.md."""

    def __init__(
        self, socket: str | Path, *, release: str = "", name: str = "ref", idx: str = "10", **script: Any
    ) -> None:
        text = json.dumps({"name": name, "idx": idx, "socket": str(socket), "stop_at_eof": True, **script})
        super().__init__([peer("refplugin" + release), "-script", text])

    def update(self, updates: Iterable[Any], *, timeout_s: float = PATIENCE_S) -> Line:
        """Ask the runtime for unsolicited updates; the result line (ok, failed, error)."""
        return self.ask({"cmd": "update", "updates": list(updates)}, timeout_s=timeout_s)

    def stop(self) -> None:
        """Leave the runtime in an orderly way."""
        self.send({"cmd": "stop"})


class FieldPlugin(LineProcess):
    """A plugin that behaves like one of the field's; README.md has the kinds, their annotations and options."""

    def __init__(self, socket: str | Path, kind: str, idx: str, **options: str | int | bool | Path) -> None:
        flags = [f"-{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in options.items()]
        super().__init__([peer("fieldplugin"), "-kind", kind, "-idx", idx, "-socket", socket, *flags])
        self.label = f"{idx}-{options.get('name', kind)}"


def install_plugin(folder: Path, idx: str, name: str, *, release: str = "", log: Path, **script: Any) -> Path:
    """Put the scripted plugin into a plugin folder as a pre-installed one; its lines go to `log`."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / f"{idx}-{name}"
    program.write_bytes(peer("refplugin" + release).read_bytes())
    program.chmod(0o755)
    program.with_name(program.name + ".json").write_text(json.dumps({"log": str(log), **script}))
    return program
