"""Report the end of each container once, even if it ended while no engine was running.

conmon writes the exit code before it ends, so one thread waits for the ends of conmon processes. If conmon ends without
writing an exit code, it was killed. Then its container is killed, too, and reported with the exit code 137 and the
reason MonitorLost.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from nri.engine.process.conmon import NUMBER_BYTES, PERSIST, find_conmon
from nri.engine.process.runtime import Runtime
from nri.engine.support.errors import EngineError, NotFound
from nri.files import read_regular

#: The reason of an end without an exit code from conmon.
MONITOR_LOST = "MonitorLost"
OOM_KILLED = "OOMKilled"
_MAX_CODE = 255
KILLED = 128 + signal.SIGKILL
_WAIT_S = 10.0
_log = logging.getLogger(__name__)


class Exit(NamedTuple):
    """The end of a container. `reason` is Completed, Error, OOMKilled, or MonitorLost (conmon was killed)."""

    container_id: str
    code: int
    finished_at_ns: int
    reason: str


def read_exit(container_id: str, bundle: Path) -> Exit | None:
    """Read the exit code that conmon has written. Returns None if there is no valid exit code."""
    path = bundle / PERSIST / container_id
    try:
        code, finished_at_ns = int(read_regular(path, NUMBER_BYTES)), path.stat().st_mtime_ns
    except (OSError, ValueError):
        return None
    if not 0 <= code <= _MAX_CODE:
        return None  # damaged: no process ends with such a code
    oom = any((folder / "oom").exists() for folder in (bundle, path.parent))
    reason = OOM_KILLED if oom and code else "Error" if code else "Completed"
    return Exit(container_id, code, finished_at_ns, reason)


class _WatchedContainer(NamedTuple):
    container_id: str
    bundle: Path
    runtime: Runtime


class Exits:
    """Watches conmon processes, and calls `on_exit` once for each container that ends.

    `on_exit` may be called before :meth:`watch` returns. It must not wait long, because one thread reports all ends.
    """

    def __init__(self, on_exit: Callable[[Exit], None]) -> None:
        self._on_exit = on_exit
        self._selector = selectors.DefaultSelector()
        self._descriptors: dict[str, int] = {}
        self._wake_read, self._wake_write = os.pipe()
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="nri-engine-exits", daemon=True)
        self._thread.start()

    def watch(self, container_id: str, bundle: Path, runtime: Runtime) -> None:
        """Report the end of a container when it ends, or at once if it has already ended."""
        watched = _WatchedContainer(container_id, bundle, runtime)
        descriptor = _open(bundle, container_id)
        if descriptor < 0:
            self._report(watched)
            return
        with self._lock:
            self._selector.register(descriptor, selectors.EVENT_READ, watched)
            self._descriptors[container_id] = descriptor
        os.write(self._wake_write, b"0")

    def forget(self, container_id: str) -> None:
        """Do not report the end of a container, because the caller causes it. No effect if it was already reported."""
        with self._lock:
            descriptor = self._descriptors.pop(container_id, -1)
            if descriptor >= 0:
                self._selector.unregister(descriptor)
                os.close(descriptor)

    def close(self) -> None:
        """Stop watching. conmon processes and containers continue to run."""
        self._closing.set()
        os.write(self._wake_write, b"0")
        self._thread.join()
        for key in [*self._selector.get_map().values()]:
            os.close(key.fd)
        os.close(self._wake_write)
        self._selector.close()

    def _run(self) -> None:
        while not self._closing.is_set():
            for key, _ in self._selector.select():
                if key.data is None:
                    os.read(key.fd, 4096)
                    continue
                with self._lock:
                    if self._descriptors.get(key.data.container_id) != key.fd:
                        continue  # `forget` was called meanwhile
                    del self._descriptors[key.data.container_id]
                    self._selector.unregister(key.fd)
                os.close(key.fd)
                try:
                    self._report(key.data)
                except Exception:  # noqa: BLE001  the thread reports the ends of all other containers
                    _log.exception("the end of container %s could not be read", key.data.container_id)

    def _report(self, watched: _WatchedContainer) -> None:
        exit_ = read_exit(watched.container_id, watched.bundle)
        if exit_ is not None:
            self._call(exit_)
            return
        # On another thread, because killing takes time, and other ends would wait for it.
        try:
            threading.Thread(target=self._monitor_lost, args=(watched,), name="nri-engine-lost", daemon=True).start()
        except RuntimeError:  # no thread can be started now
            self._monitor_lost(watched)

    def _monitor_lost(self, watched: _WatchedContainer) -> None:
        try:
            end_lost(watched.runtime, watched.container_id)
        except Exception as error:  # noqa: BLE001  the end must be reported in any case
            _log.warning("container %s lost its conmon and could not be killed: %s", watched.container_id, error)
        self._call(Exit(watched.container_id, KILLED, time.time_ns(), MONITOR_LOST))

    def _call(self, exit_: Exit) -> None:
        try:
            self._on_exit(exit_)
        except Exception:  # noqa: BLE001  the thread reports the ends of all other containers
            _log.exception("the end of container %s could not be handled", exit_.container_id)


def end_lost(runtime: Runtime, container_id: str) -> None:
    """Kill a container without conmon, and wait until its main process has ended."""
    try:
        pid = runtime.state(container_id).pid
    except NotFound:
        return
    try:
        descriptor = os.pidfd_open(pid) if pid > 0 else -1
    except ProcessLookupError:
        return
    runtime.kill(container_id, "KILL")
    if descriptor < 0:
        return
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            if not selector.select(_WAIT_S):
                raise EngineError(f"its main process is still running {_WAIT_S:g} s after SIGKILL")
    finally:
        os.close(descriptor)


def _open(bundle: Path, container_id: str) -> int:
    """Open a pidfd of the container's conmon. Returns -1 if the conmon has ended.

    The pid is checked again after opening, because it could have been reused.
    """
    pid = find_conmon(bundle, container_id)
    if not pid:
        return -1
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return -1
    if find_conmon(bundle, container_id) != pid:
        os.close(descriptor)
        return -1
    return descriptor
