"""Interfaces of objects that come from outside: what is used of them, for the type checker.

Imported under `TYPE_CHECKING` only, so at run time this file is never read. It is a file of its own because the modules
that use it can be compiled (`docs/howto/fast.md`), and mypyc compiles no class inside an `if`.
"""

# ruff: noqa: D102 - the classes that have these methods say what they do

from __future__ import annotations

from typing import Any, Literal, Protocol, Self

__all__ = ["Message", "Receiving", "Reporter", "Socket", "Step", "Streaming", "Transport", "Waiting", "Watcher"]

#: Who sends many messages in one call.
Streaming = Literal["client", "server", "both"]


class Message(Protocol):
    """A protobuf message, of any package."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's name
    @classmethod
    def FromString(cls, s: bytes, /) -> Self: ...  # noqa: N802 - protobuf's name


class Socket(Protocol):
    """A socket, as far as it is used: the objects of `socket` and of `_socket` both have this."""

    def fileno(self) -> int: ...
    def send(self, data: bytes | memoryview, flags: int = ..., /) -> int: ...
    def recv(self, size: int, flags: int = ..., /) -> bytes: ...
    def close(self) -> None: ...
    def shutdown(self, how: int, /) -> None: ...
    def setblocking(self, flag: bool, /) -> None: ...
    def setsockopt(self, level: int, name: int, value: bytes, /) -> None: ...


class Transport(Protocol):
    """Bytes in and out of numbered connections: `nri.mux.Trunk`, or `SocketTransport` with number 0 only."""

    def fileno(self) -> int: ...
    def send(self, conn_id: int, message: list[bytes], deadline: float | None) -> None: ...
    def receive(self, deadline: float | None) -> list[tuple[int, bytes]]: ...
    def receive_now(self) -> list[tuple[int, bytes]]: ...
    def flush(self, deadline: float | None) -> None: ...
    def shut(self) -> None: ...
    def shut_reading(self) -> None: ...
    def close(self) -> None: ...


#: A step of an event: kind, when it happened, plugin, reply, error, and how long it took; see `Reporter`.
Step = tuple[
    Literal["begins", "asked", "answered", "failed", "merged", "ends"], float, str, bytes, Exception | None, float
]


class Reporter(Protocol):
    """Told of every step of an event; for metrics, provenance and recorders.

    Both sides tell the same steps in the same words. The runtime's side: "begins"; for each plugin that takes the event
    "asked", then "answered" and "merged", or "failed"; "ends". The plugin's side the same with itself as the only
    plugin, and without merging; an event that has no handler only begins and ends. "merged" with an error is a reply
    that cannot be part of the result: a conflict, a breach of policy.

    A reporter of the runtime's side may also have `plugin_changed(plugin, state, about)`: a plugin is now "active",
    "late", "open" (left out by its breaker) or "gone"; `about` has its kind, version, events, configuration and the
    reason, as texts by name, those that are known.
    """

    def note(self, event: str, serial: int, request: bytes, steps: list[Step]) -> None:
        """Take note of an event: of the steps that it has, and of those that will be added to the same list.

        This is called when an event has to wait, or a plugin has been sent its request; once more, with a list that
        goes on from there, where a plugin is sent another request than the one before it. A list whose last step is
        "ends" is the last one of its event: none of them grows any more. On the plugin's side the one list is whole.

        This is called on the hot path, on the runtime's side from several threads at once: it must be quick, must not
        wait, and change nothing. Its errors are logged and go no further.

        Args:
            event: the RPC's name, `CreateContainer`; also `Configure`, `Synchronize`, `StateChange` and `Shutdown`, and
                on the runtime's side `UpdateContainers`, which a plugin asks of the runtime by itself: "asked" says
                which plugin, and the event ends with the runtime's reply.
            serial: number of the event, from 1, unique for the side that tells; it holds together the steps of one
                event while others overlap with it. Validators are asked with the serial of the creation.
            request: what "begins" and "asked" of these steps have, as encoded for the wire, without envelope: what came
                in, with what plugins before have done to it.
            steps: kind; when it happened, in monotonic seconds; the plugin,
                ``NN-name``, or ""; the reply as encoded: a plugin's, or the merged result, which is to be parsed, not
                compared byte by byte, as its parts may be in any order, a message in pieces, and beside them fields
                that this version does not know; the error, as it was raised, or None; seconds since the plugin was
                asked, or since the event began.
        """


class Waiting(Protocol):
    """One that waits for a response: a call of `nri.ttrpc.waiters`, or a stream."""

    response: Any

    def wake(self) -> None:
        """Tell that the response is there, or that the connection has ended."""

    def nudge(self) -> bool:
        """Have it look again: perhaps no thread is reading now. False if there is no thread to wake."""


class Receiving(Waiting, Protocol):
    """One that gets the data of a stream: `nri.ttrpc.services.inbox.Inbox`."""

    def arrived(self, data: Any) -> None:
        """Take in a message, or the end of the peer's half: a `nri.ttrpc.halves.Data`."""


class Watcher(Protocol):
    """One that learns whether the descriptor of a connection is read: `nri.ttrpc.monitor.IdleWatcher`."""

    armed: bool
    resting: bool
    used: float
    close_s: float

    def busy(self) -> None: ...
    def idle(self) -> None: ...
    def rest(self, now: float) -> None: ...
