"""The agent's registration at a runtime: its events, and a lock against a second agent with the same name.

Runtimes let two plugins with the same name register. Both would then set the same values, and every container would be
refused as a conflict. The lock is a file next to the runtime's socket, which is visible to all processes that can
register. There is no lock if the folder is not writable.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from nri.api.events import EventMask
from nri.errors import ConfigError, NriError
from nri.files import Lock
from nri.text import plain

#: The events to subscribe to, unless the runtime's configuration lists events.
EVENTS: Final = EventMask.of(
    "RunPodSandbox", "RemovePodSandbox", "CreateContainer", "PostCreateContainer", "StartContainer", "UpdateContainer",
    "PostUpdateContainer", "PostUpdatePodSandbox", "StopContainer", "RemoveContainer",
)  # fmt: skip


def subscription(listed: Sequence[str], known_events: EventMask) -> EventMask:
    """Return the events to subscribe to: the events in the runtime's configuration, or else all useful known events.

    Raises:
        ConfigError: an event does not exist, or no hook uses any of the events.
    """
    if not listed:
        return EVENTS & known_events
    source, hint = "the runtime's configuration", f"useful events: {EVENTS}"
    try:
        chosen = EventMask.parse(",".join(listed)) & EVENTS
    except ValueError as error:
        raise ConfigError(source, "events", str(error), hint) from None
    if not chosen:
        raise ConfigError(source, "events", f"{', '.join(listed)}: no hook uses these events", hint)
    return chosen


class TakenError(NriError):
    """A plugin with the same name is already registered on this machine."""


class Registration:
    """A context manager that holds the lock of one plugin at one socket.

    Args:
        socket: path of the runtime's socket.
        label: the full name of the plugin, ``NN-name``.

    Raises:
        TakenError: another plugin holds the lock; raised on entering.
    """

    def __init__(self, socket: str, label: str) -> None:
        self._label, self._socket = label, socket
        self._path = f"{os.path.dirname(socket)}/.{label}.lock"
        self._lock: Lock | None = None

    def __enter__(self) -> Self:
        try:
            self._lock = Lock(self._path, str(os.getpid()))
        except BlockingIOError as error:
            holder = plain(error.strerror or "", 20)
            holder_text = "this process" if holder == str(os.getpid()) else f"process {holder or 'unknown'}"
            raise TakenError(
                f"{holder_text} has already registered plugin {self._label} at {self._socket}; with two plugins of one"
                " name, every container would be refused"
            ) from None
        except OSError:
            pass  # the folder is not writable, or does not support locks
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.close()
