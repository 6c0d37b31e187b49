"""Sources of pods: the last known pods of this node, and a notification when they change.

A pod is an API object: a dict with `metadata`, `spec` and `status`. The `containerStatuses` have a `containerID`, for
example `containerd://...`. Unknown fields are absent. Two fields are not in the API: `cgroupParent`, the pod's cgroup,
and `cgroups`, the known cgroups of containers by name.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Protocol

from nri.agent.model import PodManifest

_log = logging.getLogger(__name__)


def start_time(at_ns: int) -> str:
    """Return a time, given in nanoseconds since 1970, in the format of the API's `startTime`."""
    return datetime.fromtimestamp(at_ns / 1e9, UTC).isoformat()


def notify(listeners: Iterable[Callable[[], None]]) -> None:
    """Call all listeners."""
    for listener in listeners:
        try:
            listener()
        except Exception:  # noqa: BLE001  an error of one listener must not affect the others
            _log.exception("a listener of changed pods failed")


class PodSource(Protocol):
    """A source of pods. `start` does not wait for an absent peer; `start` and `stop` may be called twice."""

    def pods(self) -> list[PodManifest]:
        """Return the known pods. The list may be old: see `synced` and `problem`."""
        ...

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call a function after pods changed, from any thread."""
        ...

    def start(self) -> None:
        """Start to read pods."""
        ...

    def stop(self) -> None:
        """Stop, and wait until the threads have ended. Known pods are kept."""
        ...

    @property
    def synced(self) -> bool:
        """Whether all pods were listed at least once."""
        ...

    @property
    def problem(self) -> str:
        """The reason in one line why the list of pods may be out of date; "" if they are current."""
        ...


class PodList:
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
        """Replace all pods. Listeners are called if the pods differ, and after the first list."""
        new = list(pods)
        with self._lock:
            changed = new != self._pods or not self.synced
            self._pods, self.synced = new, True
            listeners = list(self._listeners) if changed else []
        notify(listeners)

    def failed(self, error: str) -> None:
        """Record why the source cannot be read; "" means that it can be read again. Known pods are kept."""
        if error and error != self.problem:
            _log.warning("the list of pods may be out of date: %s", error)
        elif self.problem and not error:
            _log.info("the list of pods is up to date again")
        self.problem = error


class KnownPods:
    """Base class of sources with a list of known pods."""

    def __init__(self, pods: PodList) -> None:
        self._pod_list = pods
        #: A line about pods that are too large; "" if there are no such pods.
        self.left_out = ""

    def pods(self) -> list[PodManifest]:
        """Return the known pods."""
        return self._pod_list.pods()

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call a function after pods changed."""
        self._pod_list.subscribe(listener)

    @property
    def synced(self) -> bool:
        """Whether all pods were listed at least once."""
        return self._pod_list.synced

    @property
    def problem(self) -> str:
        """The reason in one line why the list of pods may be out of date or incomplete; "" if it is neither."""
        return "; ".join(filter(None, (self._pod_list.problem, self.left_out)))
