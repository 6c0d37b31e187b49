"""A daemon that serves the CRI as a separate process, and a runtime, which has a run directory in addition.

It ends by a signal or with `close()`; what it runs stays until its run directory is removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from tools.runtimes import leftovers
from tools.runtimes.config import cni_config, pod_network
from tools.runtimes.cri import Cri
from tools.runtimes.machine import PATIENCE, MissingError, last_line
from tools.runtimes.mounts import mount

START_TIMEOUT_S = 30.0 * PATIENCE
STOP_TIMEOUT_S = 10.0 * PATIENCE


def end_process(process: subprocess.Popen[bytes] | None, number: int, timeout_s: float = STOP_TIMEOUT_S) -> int | None:
    """End a process by a signal, or kill it at the deadline; returns its exit code, or None."""
    if process is None or process.poll() is not None:
        return None if process is None else process.returncode
    process.send_signal(number)
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


class Daemon:
    """A process with a log, and a client of what it serves.

    Args:
        what: what it is, for errors.
        cri_socket: where it will serve, in its run directory.
        log: the file to which its output is appended.
    """

    def __init__(self, what: str, cri_socket: Path, log: Path) -> None:
        self.what, self.cri_socket, self.log = what, cri_socket, log
        self.run_dir = cri_socket.parent
        self._process: subprocess.Popen[bytes] | None = None
        self._cri: Cri | None = None
        self._begun = 0

    @property
    def cri(self) -> Cri:
        """A client; only while it runs."""
        if self._cri is None:
            raise RuntimeError(f"{self.what} is not running: call start() first")
        return self._cri

    @property
    def pid(self) -> int:
        """Its process; only while it runs."""
        if self._process is None:
            raise RuntimeError(f"{self.what} is not running: call start() first")
        return self._process.pid

    def stop(self) -> int | None:
        """End it with SIGTERM; pods and containers stay. Returns its exit code, None if it did not run."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would; pods and containers stay."""
        self._end(signal.SIGKILL)

    def log_lines(self, pattern: str) -> list[str]:
        """The lines of its log that match."""
        return [line for line in self.log.read_text(errors="replace").splitlines() if re.search(pattern, line)]

    def _begin(self, words: Sequence[str | Path], **environment: str) -> None:
        """Start it and wait until it serves."""
        self._disconnect()
        with open(self.log, "ab") as log:
            self._begun = log.tell()
            # A separate session: Ctrl-C reaches only the owner, which then ends this process properly.
            self._process = subprocess.Popen(
                words,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._cri = Cri(self.cri_socket, self.run_dir.name)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._serves():
            if self._process.poll() is not None:
                raise MissingError(f"a running {self.what}", f"it ended: {last_line(self.log.read_text())}")
            if time.monotonic() > deadline:
                raise MissingError(f"a running {self.what}", f"it did not serve within {START_TIMEOUT_S:.0f} s")
            time.sleep(0.01)

    def _serves(self) -> bool:
        """Whether it serves by now: daemons of this project say so in their logs."""
        return b" ready: " in self.log.read_bytes()[self._begun :]

    def _end(self, number: int) -> int | None:
        process, self._process = self._process, None
        self._disconnect()
        return end_process(process, number)

    def _disconnect(self) -> None:
        if self._cri is not None:
            self._cri.close()
            self._cri = None


def _new_run_dir(place: str) -> Path:
    """A run directory whose pod network belongs to no other run."""
    used = {pod_network(path) for folder in leftovers.PLACES for path in Path(folder).glob(f"{leftovers.PREFIX}*")}
    while pod_network(run_dir := Path(tempfile.mkdtemp(prefix=leftovers.PREFIX, dir=place))) in used:
        run_dir.rmdir()
    return run_dir


class Runtime(Daemon, ABC):
    """A daemon in its own run directory, which is made here and holds all its files.

    They are `in_memory`: much faster than a disk, and inside a container an overlay cannot lie on another one.
    """

    def __init__(self, what: str, *, in_memory: bool = True) -> None:
        place = next((p for p in leftovers.PLACES if os.access(p, os.W_OK)), tempfile.gettempdir())
        with leftovers.alone():  # until it is marked, a sweep takes it for a dead owner's
            run_dir = _new_run_dir(place)
            if in_memory:
                mount("tmpfs", run_dir, "mode=0700")
            self._owner = leftovers.lock(run_dir)
        super().__init__(what, run_dir / "cri.sock", run_dir / "log")
        self.nri_socket = run_dir / "nri.sock"
        self.plugin_dir = run_dir / "plugins"
        self.plugin_config_dir = run_dir / "conf.d"
        for name in ("plugins", "conf.d", "cni", "logs"):
            (run_dir / name).mkdir()

    def enable_pod_network(self) -> None:
        """Give pods that ask for their own network one, on a bridge of this run's name."""
        (self.run_dir / "cni/10-bridge.conflist").write_text(cni_config(self.run_dir))

    @abstractmethod
    def start(self) -> None:
        """Start it and wait until it serves; bring images at the first start."""

    def close(self) -> None:
        """End everything and remove every trace: pods, processes, mounts, cgroups, bridge, files."""
        with contextlib.suppress(Exception):
            self.kill()
        leftovers.remove(self.run_dir)
        self._release()

    def detach(self) -> None:
        """Leave everything running after this process; `python -m tools.runtimes clean` ends it."""
        (self.run_dir / leftovers.KEEP).touch()
        self._release()

    def _release(self) -> None:
        self._disconnect()
        if self._owner >= 0:
            os.close(self._owner)
            self._owner = -1
