"""A plugin as a program of its own, and a listening socket on which a scripted runtime takes its connections."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tests.support.scripted_runtime import PATIENCE_S, ScriptedRuntime

PLUGIN = '''
import sys
import nri

class PodName(nri.Plugin):
    """Tell every container which pod it runs in."""

    def create_container(self, pod, container):
        return nri.Adjustment().add_env("POD_NAME", pod.name)

    {more}

if __name__ == "__main__":
    PodName.main()
'''


def plugin_file(folder: Path, more: str = "pass", name: str = "pod_name.py") -> Path:
    """The ten-line plugin as a file, with more members."""
    file = folder / name
    file.write_text(PLUGIN.format(more=textwrap.indent(textwrap.dedent(more).strip(), "    ").strip()))
    return file


class PluginProgram:
    """A running plugin process; its stdout and stderr are in a file."""

    def __init__(
        self, folder: Path, *arguments: str | Path, env: Mapping[str, str] | None = None, **options: object
    ) -> None:
        self.output = folder / "output.txt"
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, *map(str, arguments)],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env=None if env is None else dict(env),
                **options,  # type: ignore[call-overload]
            )

    def text(self) -> str:
        """What it has printed so far."""
        return self.output.read_text()

    def wait_text(self, part: str) -> None:
        """Wait until it has printed this."""
        self.wait_match(re.escape(part))

    def wait_match(self, pattern: str) -> None:
        """Wait until it has printed what matches."""
        until = time.monotonic() + PATIENCE_S
        while re.search(pattern, self.text()) is None:
            assert time.monotonic() < until, f"{pattern!r} was not printed, but: {self.text()}"
            time.sleep(0.01)

    def exit_code(self) -> int:
        """Wait for its end."""
        try:
            return int(self.process.wait(PATIENCE_S))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the plugin does not end; it printed: {self.text()}") from None

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.exit_code()

    def cpu_s(self) -> float:
        """CPU seconds that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def plugin_program(folder: Path, *arguments: str | Path, **options: object) -> Iterator[PluginProgram]:
    """A plugin process that is gone when the test is over."""
    program = PluginProgram(folder, *arguments, **options)  # type: ignore[arg-type]
    try:
        yield program
    finally:
        if program.process.poll() is None:
            program.process.kill()
            program.process.wait()


class Listener:
    """A runtime's socket."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._accepted: list[ScriptedRuntime] = []
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.bind(str(path))
        self.sock.listen(8)
        self.sock.settimeout(PATIENCE_S)

    def accept(self) -> ScriptedRuntime:
        """The next plugin that connects."""
        runtime = ScriptedRuntime(self.sock.accept()[0])
        self._accepted.append(runtime)
        return runtime

    def close(self) -> None:
        """Close all connections, stop listening and remove the socket, as a runtime that ends does."""
        for runtime in self._accepted:
            runtime.close()
        self.sock.close()
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
