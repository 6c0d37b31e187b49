"""A source of pods: the pods of this node that it knows last, and a word when they have changed.

A pod is an API object: a dict with `metadata`, `spec` and `status`, whose `containerStatuses` have a `containerID` such
as `containerd://...`. Fields that a source does not know are absent; what the API has no place for, the folder of a
pod's cgroups, is `cgroupParent`, and those of its containers are `cgroups`, by name, where they are known. Next: `nri`,
`apiserver`, `kubelet`, `cri`, `files`.
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
    """Call those who want to hear of changes."""
    for listener in listeners:
        try:
            listener()
        except Exception:  # noqa: BLE001  a listener's error is not the source's, which has more to tell
            _log.exception("changed pods could not be looked at")


class PodSource(Protocol):
    """A source of pods. `start` never blocks on a peer that is not there; `start` and `stop` may be called twice."""

    def pods(self) -> list[PodManifest]:
        """Return the pods that are known, which may be old: see `synced` and `problem`."""
        ...

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Have a function called after pods have changed; it may be called often, and by any thread."""
        ...

    def start(self) -> None:
        """Begin to learn of pods."""
        ...

    def stop(self) -> None:
        """End, and wait for that; what is known stays known."""
        ...

    @property
    def synced(self) -> bool:
        """Whether all pods have been learned of at least once."""
        ...

    @property
    def problem(self) -> str:
        """The reason why what is known may be old, in one line; "" if it is not."""
        ...


class Known:
    """The pods that a source knows, with those who want to hear of changes. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pods: list[PodManifest] = []
        self._listeners: list[Callable[[], None]] = []
        self.synced = False
        self.problem = ""

    def pods(self) -> list[PodManifest]:
        """Return all, as a list of the caller's own."""
        with self._lock:
            return list(self._pods)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Have a function called after each change."""
        with self._lock:
            self._listeners.append(listener)

    def replace(self, pods: Iterable[PodManifest]) -> None:
        """Know these pods and no others; listeners are called if they differ from those before, or are the first."""
        new = list(pods)
        with self._lock:
            changed = new != self._pods or not self.synced
            self._pods, self.synced = new, True
            listeners = list(self._listeners) if changed else []
        notify(listeners)

    def failed(self, error: str) -> None:
        """Note that the source cannot be asked, and what is known stays; "" as soon as it can be asked again."""
        if error and error != self.problem:
            _log.warning("pods may be old: %s", error)
        self.problem = error


class KnownPods:
    """The part of a source that answers questions, by what it knows."""

    def __init__(self, known: Known) -> None:
        self._known = known
        #: Which pods are too large to be known, in one line; "" if none are.
        self.left_out = ""

    def pods(self) -> list[PodManifest]:
        """Return the pods that are known."""
        return self._known.pods()

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Have a function called after pods have changed."""
        self._known.subscribe(listener)

    @property
    def synced(self) -> bool:
        """Whether all pods have been learned of at least once."""
        return self._known.synced

    @property
    def problem(self) -> str:
        """The reason why what is known may be old, or lacks pods, in one line; "" if it is not."""
        return "; ".join(filter(None, (self._known.problem, self.left_out)))
