"""Sources of pods: the last known pods of this node, and a notification when they change.

A pod is an API object: a dict with `metadata`, `spec` and `status`, whose `containerStatuses` have a `containerID` such
as `containerd://...`. Unknown fields are absent. Two fields are not the API's: `cgroupParent`, the pod's cgroup, and
`cgroups`, the containers' cgroups by name, where they are known.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Protocol

from nri.agent.model import PodManifest

__all__ = ["Known", "KnownPods", "PodSource", "notify", "start_time"]

_log = logging.getLogger(__name__)


def start_time(at_ns: int) -> str:
    """Return a time in nanoseconds since 1970 as the API has that of a pod's start."""
    return datetime.fromtimestamp(at_ns / 1e9, UTC).isoformat()


def notify(listeners: Iterable[Callable[[], None]]) -> None:
    """Call all listeners."""
    for listener in listeners:
        try:
            listener()
        except Exception:  # noqa: BLE001  an error of one listener must not affect the others
            _log.exception("a listener of changed pods failed")


class PodSource(Protocol):
    """A source of pods. `start` never blocks on a peer that is not there; `start` and `stop` may be called twice."""

    def pods(self) -> list[PodManifest]:
        """Return the known pods, which may be old: see `synced` and `problem`."""
        ...

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call a function after pods changed, possibly often and from any thread."""
        ...

    def start(self) -> None:
        """Start to read pods."""
        ...

    def stop(self) -> None:
        """Stop, and wait for the end; known pods are kept."""
        ...

    @property
    def synced(self) -> bool:
        """Whether all pods were listed at least once."""
        ...

    @property
    def problem(self) -> str:
        """The reason why the known pods may be old, in one line; "" if they are current."""
        ...


class Known:
    """The known pods of a source, with listeners. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pods: list[PodManifest] = []
        self._listeners: list[Callable[[], None]] = []
        self.synced = False
        self.problem = ""

    def pods(self) -> list[PodManifest]:
        """Return a copy of the list."""
        with self._lock:
            return list(self._pods)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call a function after each change."""
        with self._lock:
            self._listeners.append(listener)

    def replace(self, pods: Iterable[PodManifest]) -> None:
        """Replace all pods; listeners are called if the pods differ, or are the first."""
        new = list(pods)
        with self._lock:
            changed = new != self._pods or not self.synced
            self._pods, self.synced = new, True
            listeners = list(self._listeners) if changed else []
        notify(listeners)

    def failed(self, error: str) -> None:
        """Record that the source cannot be read, or with "" that it can again; known pods are kept."""
        if error and error != self.problem:
            _log.warning("pods may be old: %s", error)
        elif self.problem and not error:
            _log.info("pods are current again")
        self.problem = error


class KnownPods:
    """Base class of sources that answer from known pods."""

    def __init__(self, pods: Known) -> None:
        self._known = pods
        #: One line on the pods that are too large; "" if there are none.
        self.left_out = ""

    def pods(self) -> list[PodManifest]:
        """Return the known pods."""
        return self._known.pods()

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call a function after pods changed."""
        self._known.subscribe(listener)

    @property
    def synced(self) -> bool:
        """Whether all pods were listed at least once."""
        return self._known.synced

    @property
    def problem(self) -> str:
        """The reason why the known pods may be old or incomplete, in one line; "" if they are not."""
        return "; ".join(filter(None, (self._known.problem, self.left_out)))
