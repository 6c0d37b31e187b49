"""The ends of containers, each told once: also those that came while no engine ran, and those whose conmon was killed.

One thread that waits for conmons. Conmon writes the exit code before it ends, so its end is all that
has to be waited for (a pidfd, which cannot mean another process); a conmon that ends without leaving a code was killed:
its container has neither log nor exit code any more, so it is killed, and said to have ended with 137 and that reason.
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

#: The reason of an end of which conmon could not tell the code.
MONITOR_LOST = "MonitorLost"
OOM_KILLED = "OOMKilled"
_MOST_CODE = 255
KILLED = 128 + signal.SIGKILL
_WAIT_S = 10.0
_log = logging.getLogger(__name__)


class Exit(NamedTuple):
    """The end of a container. `reason` is Completed, Error, OOMKilled, or MonitorLost (its conmon was killed)."""

    container_id: str
    code: int
    finished_at_ns: int
    reason: str


def read_exit(container_id: str, bundle: Path) -> Exit | None:
    """Read what conmon left of a container that ended; None if it left nothing. Pure but for the files."""
    path = bundle / PERSIST / container_id
    try:
        code, finished_at_ns = int(read_regular(path, NUMBER_BYTES)), path.stat().st_mtime_ns
    except (OSError, ValueError):
        return None
    if not 0 <= code <= _MOST_CODE:
        return None  # as good as none: no process ends with it
    oom = any((folder / "oom").exists() for folder in (bundle, path.parent))
    reason = OOM_KILLED if oom and code else "Error" if code else "Completed"
    return Exit(container_id, code, finished_at_ns, reason)


class _Watched(NamedTuple):
    container_id: str
    bundle: Path
    runtime: Runtime


class Exits:
    """Watches conmons and calls `on_exit` once for each container, on a thread of its own.

    `on_exit` may be called before :meth:`watch` returns, and must not wait long: the other ends wait behind it.
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
        """Tell this container's end when it comes, or at once if it has come already."""
        watched = _Watched(container_id, bundle, runtime)
        descriptor = _open(bundle, container_id)
        if descriptor < 0:
            self._tell(watched)
            return
        with self._lock:
            self._selector.register(descriptor, selectors.EVENT_READ, watched)
            self._descriptors[container_id] = descriptor
        os.write(self._wake_write, b"0")

    def forget(self, container_id: str) -> None:
        """Do not report this container's end, because the caller brings it about; no error if it was reported."""
        with self._lock:
            descriptor = self._descriptors.pop(container_id, -1)
            if descriptor >= 0:
                self._selector.unregister(descriptor)
                os.close(descriptor)

    def close(self) -> None:
        """Stop watching; conmons and containers run on."""
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
                        continue  # forgotten just now
                    del self._descriptors[key.data.container_id]
                    self._selector.unregister(key.fd)
                os.close(key.fd)
                try:
                    self._tell(key.data)
                except Exception:  # noqa: BLE001  the ends of all other containers come through this thread
                    _log.exception("the end of container %s could not be read", key.data.container_id)

    def _tell(self, watched: _Watched) -> None:
        found = read_exit(watched.container_id, watched.bundle)
        if found is not None:
            self._call(found)
            return
        # Killing and waiting take their time, and the ends of other containers do not wait for that if they need not.
        try:
            threading.Thread(target=self._lost, args=(watched,), name="nri-engine-lost", daemon=True).start()
        except RuntimeError:  # no threads are left for now
            self._lost(watched)

    def _lost(self, watched: _Watched) -> None:
        try:
            end_lost(watched.runtime, watched.container_id)
        except Exception as error:  # noqa: BLE001  whoever waits for the end gets it, and ends what is left
            _log.warning("container %s lost its conmon and could not be killed: %s", watched.container_id, error)
        self._call(Exit(watched.container_id, KILLED, time.time_ns(), MONITOR_LOST))

    def _call(self, found: Exit) -> None:
        try:
            self._on_exit(found)
        except Exception:  # noqa: BLE001  the ends of all other containers come through this thread
            _log.exception("the end of container %s could not be taken up", found.container_id)


def end_lost(runtime: Runtime, container_id: str) -> None:
    """Kill a container without conmon, and wait until its first process is gone."""
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
                raise EngineError(f"it is still there {_WAIT_S:g} s after SIGKILL")
    finally:
        os.close(descriptor)


def _open(bundle: Path, container_id: str) -> int:
    """A pidfd of the container's conmon, -1 if that is gone: opened first, then looked at, so it is no other's."""
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
