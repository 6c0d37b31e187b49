"""The agent's registration at a runtime: its events, and a lock against a second agent of the same name.

Runtimes let two plugins of one name register; both would then set the same values, and every container would be refused
as a conflict. The lock is a file next to the runtime's socket, which all processes that can register see. A folder that
cannot be written has no lock.
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

__all__ = ["EVENTS", "Registration", "TakenError", "subscription"]

#: The events that are subscribed to, unless the runtime's configuration names others.
EVENTS: Final = EventMask.of(
    "RunPodSandbox", "RemovePodSandbox", "CreateContainer", "PostCreateContainer", "StartContainer", "UpdateContainer",
    "PostUpdateContainer", "PostUpdatePodSandbox", "StopContainer", "RemoveContainer",
)  # fmt: skip


def subscription(listed: Sequence[str], known_events: EventMask) -> EventMask:
    """Return the events to subscribe to: those that the runtime's configuration lists, else all of use that it knows.

    Raises:
        ConfigError: an event does not exist, or no hook decides at any of them.
    """
    if not listed:
        return EVENTS & known_events
    source, hint = "the runtime's configuration", f"of use here: {EVENTS}"
    try:
        chosen = EventMask.parse(",".join(listed)) & EVENTS
    except ValueError as error:
        raise ConfigError(source, "events", str(error), hint) from None
    if not chosen:
        raise ConfigError(source, "events", f"{', '.join(listed)}: no hook decides at any of these", hint)
    return chosen


class TakenError(NriError):
    """Another process, or another part of this one, has registered this plugin already."""


class Registration:
    """The lock of one plugin at one socket; a context manager.

    Args:
        socket: path of the runtime's socket.
        label: the plugin, ``NN-name``.

    Raises:
        TakenError: on entering: another process has it.
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
            who = "this process" if holder == str(os.getpid()) else f"process {holder or 'unknown'}"
            raise TakenError(
                f"plugin {self._label} is registered at {self._socket} by {who} already: of two with one name every"
                " container would be refused"
            ) from None
        except OSError:
            pass  # the folder cannot be written, or does not support locks
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.close()
