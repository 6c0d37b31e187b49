"""A node: a user-mode Linux kernel over this machine's root directory, a command in it, and its exit code."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.nodes import kernel
from tools.runtimes.machine import MissingError, Say

INIT = Path(__file__).with_name("init.sh")
ROOT = INIT.parents[2]
#: Where a command in the node leaves a file that `run` brings out.
REPORT = "/srv/report"
_LOOK_S = 0.2
_LAST_LINES = 25


class NodeError(Exception):
    """The node ended without an exit code, or did not end in time."""


@dataclass(frozen=True, slots=True)
class Node:
    """Runs commands, each in a node that starts for it and ends with it.

    The node sees this machine's root directory, read-only, with memory over it: the same Python, runc and containerd.
    It has its own kernel, processes, cgroups (v2 alone) and network (loopback and `interface`).

    Args:
        deadline_s: for a command, the start of the node included.
        systemd: whether systemd is process 1.
        interface: the interface of this machine whose packets are those of the node's `vec0`.
        disk: a file with an ext4 file system that keeps what the node writes; without it memory does, and all is lost.
    """

    deadline_s: float
    systemd: bool = False
    memory_mib: int = 4096
    cpus: int = 2
    say: Say = print
    interface: str = ""
    disk: Path | None = None

    def run(self, command: Sequence[str], environment: Mapping[str, str], report: Path | None = None) -> int:
        """Run a command in the project's folder as root; returns its exit code.

        Its output is printed as it comes. What it leaves in `REPORT` becomes the file `report`. `MissingError` names
        what this machine lacks, `NodeError` the reason for a missing exit code.
        """
        if os.geteuid() != 0:
            raise MissingError("root", "the node reads this machine's root directory; run the command with sudo")
        program = kernel.install(self.say)
        with tempfile.TemporaryDirectory(prefix="nri-n-") as name:
            folder = Path(name)
            job = folder / "job"
            job.mkdir()
            (job / "run").write_text(_script(command, environment))
            self._write_init(folder)
            self.say(f"node: starting ({'systemd, ' if self.systemd else ''}cgroup v2, {self.memory_mib} MiB)")
            with open(folder / "console", "wb") as console:
                node = subprocess.Popen(
                    ("setpriv", "--pdeathsig", "KILL", str(program), *self._arguments(folder)),
                    stdin=subprocess.DEVNULL, stdout=console, stderr=console,
                    env={**os.environ, "TMPDIR": str(folder), "HOME": str(folder)}, start_new_session=True,
                )  # fmt: skip
            try:
                _print_until_end(node, job / "output", self.deadline_s)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(node.pid, signal.SIGKILL)  # each process of the node is one of this machine
                node.wait()
            code = job / "code"
            if not code.exists():
                raise NodeError(f"it ended without an exit code; {_last_lines(folder / 'console')}")
            if report is not None and (job / "report").exists():
                report.write_bytes((job / "report").read_bytes())
            return int(code.read_text())

    def _arguments(self, folder: Path) -> list[str]:
        return [
            *(f"umid=nri-{folder.name}", f"mem={self.memory_mib}M", f"ncpus={self.cpus}", "seccomp=on"),
            *("root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={folder}/init"),
            *("con=null", "con0=fd:0,fd:1"),
            *([f"ubd0={self.disk}"] if self.disk else []),
            *([f"vec0:transport=raw,ifname={self.interface},depth=128"] if self.interface else []),
        ]

    def _write_init(self, folder: Path) -> None:
        values = {"JOB": str(folder / "job"), "CHECKOUT": str(ROOT), "SYSTEMD": "1" if self.systemd else ""}
        values["DISK"] = "1" if self.disk else ""
        shebang, _, script = INIT.read_text().partition("\n")
        lines = [shebang, *(f"{name}={shlex.quote(value)}" for name, value in values.items()), script]
        (folder / "init").write_text("\n".join(lines))
        (folder / "init").chmod(0o755)


def _script(command: Sequence[str], environment: Mapping[str, str]) -> str:
    exports = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    return "\n".join([*exports, f"cd {shlex.quote(str(ROOT))}", f"exec {shlex.join(command)}", ""])


def _print_until_end(node: subprocess.Popen[bytes], output: Path, deadline_s: float) -> None:
    """Print what the command prints, until the node ends."""
    end, printed = time.monotonic() + deadline_s, 0
    while True:
        running = node.poll() is None
        if output.exists():
            with open(output, "rb") as file:
                file.seek(printed)
                text = file.read()
            printed += len(text)
            print(text.decode(errors="replace"), end="", flush=True)
        if not running:
            return
        if time.monotonic() > end:
            raise NodeError(f"it did not end within {deadline_s:.0f} s")
        time.sleep(_LOOK_S)


def _last_lines(console: Path) -> str:
    lines = [line for line in console.read_text(errors="replace").splitlines() if line.strip()]
    return "\n".join(["the last lines of its console:", *lines[-_LAST_LINES:]])
