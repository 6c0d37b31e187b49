"""Interfaces of objects that come from outside: what is used of them, for the type checker.

Imported under `TYPE_CHECKING` only, so at run time this file is never read. It is a file of its own because the modules
that use it can be compiled (`docs/howto/fast.md`), and mypyc compiles no class inside an `if`.
"""

# ruff: noqa: D102 - the classes that have these methods say what they do

from __future__ import annotations

from typing import Any, Literal, Protocol, Self

__all__ = ["Message", "Receiving", "Reporter", "Socket", "Streaming", "Transport", "Waiting", "Watcher"]

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


class Reporter(Protocol):
    """Called at every step of an event, where and when it happens; for metrics, provenance and recorders.

    Both sides tell the same steps in the same words. The runtime's side: `event_begins`; for each plugin that takes the
    event `plugin_asked`, then `plugin_answered` and `reply_merged`, or `plugin_failed`; `event_ends`. The plugin's side
    the same with itself as the only plugin, and without merging; an event that has no handler only begins and ends.

    A reporter of the runtime's side may also have `plugin_changed(plugin, state, about)`: a plugin is now "active",
    "late", "open" (left out by its breaker) or "gone"; `about` has its kind, version, events, configuration and the
    reason, as texts by name, those that are known.

    The methods are called on the hot path, on the runtime's side from several threads at once: they must be quick, must
    not wait, and change nothing. Their errors are logged and go no further.

    Arguments:
        event: the RPC's name, `CreateContainer`; also `Configure`, `Synchronize`, `StateChange` and `Shutdown`, and on
            the runtime's side `UpdateContainers`, which a plugin asks of the runtime by itself: `plugin_asked` says
            which plugin, and the event ends with the runtime's reply.
        serial: number of the event, from 1, unique for the side that tells; it holds together the steps of one event
            while others overlap with it. Validators are asked with the serial of the creation.
        plugin: ``NN-name``.
        request, reply: the message as encoded for the wire, without envelope; empty where there is nothing to say. A
            merged result is to be parsed, not compared byte by byte: its parts may be in any order, a message
            in pieces, and beside them fields that this version does not know.
        error: what went wrong, as it was raised; None if nothing did.
        duration_s: seconds since the plugin was asked, or since the event began.
    """

    def event_begins(self, event: str, serial: int, request: bytes) -> None:
        """An event has come in: from the runtime's own code, or on the plugin's side over the wire.

        On the runtime's side, where nothing delays it, this is called when the first plugin has the request already.
        """

    def plugin_asked(self, plugin: str, event: str, serial: int, request: bytes) -> None:
        """The plugin is asked now, with what plugins before it have done to the request."""

    def plugin_answered(self, plugin: str, event: str, serial: int, reply: bytes, duration_s: float) -> None:
        """The plugin has answered: on the runtime's side nothing is merged yet, on its own side the reply is sent."""

    def plugin_failed(self, plugin: str, event: str, serial: int, error: Exception, duration_s: float) -> None:
        """The plugin raised, answered with a status, was late, or its connection ended."""

    def reply_merged(self, plugin: str, event: str, serial: int, error: Exception | None) -> None:
        """The plugin's reply is part of the result, or cannot be because of `error`: a conflict, a breach of policy."""

    def event_ends(self, event: str, serial: int, reply: bytes, error: Exception | None, duration_s: float) -> None:
        """The event is over: `reply` is the merged result, or what the plugin's side sent; empty with an `error`."""


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
