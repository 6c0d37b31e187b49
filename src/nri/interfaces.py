"""Protocols of objects that other modules pass in, for the type checker.

Imported only under `TYPE_CHECKING`, so this file is never read at run time. It is a separate file because the modules
that use it can be compiled (`docs/howto/fast.md`), and mypyc does not compile a class inside an `if`.
"""

# ruff: noqa: D102 - the implementing classes document these methods

from __future__ import annotations

from typing import Any, Literal, Protocol, Self

#: The sender of many messages in one call.
Streaming = Literal["client", "server", "both"]


class Message(Protocol):
    """A protobuf message, of any package."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's name
    @classmethod
    def FromString(cls, s: bytes, /) -> Self: ...  # noqa: N802 - protobuf's name


class Socket(Protocol):
    """The used methods of a socket, for objects of `socket` and of `_socket`."""

    def fileno(self) -> int: ...
    def send(self, data: bytes | memoryview, flags: int = ..., /) -> int: ...
    def recv(self, size: int, flags: int = ..., /) -> bytes: ...
    def close(self) -> None: ...
    def shutdown(self, how: int, /) -> None: ...
    def setblocking(self, flag: bool, /) -> None: ...
    def setsockopt(self, level: int, name: int, value: bytes, /) -> None: ...


class Transport(Protocol):
    """Numbered connections that send and receive bytes: `nri.mux.Trunk`, or `SocketTransport` with only number 0."""

    def fileno(self) -> int: ...
    def send(self, conn_id: int, message: list[bytes], deadline: float | None) -> None: ...
    def receive(self, deadline: float | None) -> list[tuple[int, bytes]]: ...
    def receive_now(self) -> list[tuple[int, bytes]]: ...
    def flush(self, deadline: float | None) -> None: ...
    def shut(self) -> None: ...
    def shut_reading(self) -> None: ...
    def close(self) -> None: ...


class Reporter(Protocol):
    """Called at every step of an event, for metrics and recorders.

    The runtime's side reports `event_begins`. For each plugin that gets the event it reports `plugin_asked`, then
    `plugin_answered` and `reply_merged`, or `plugin_failed`. Finally it reports `event_ends`. The plugin's side reports
    the same with itself as the only plugin, and without merging. An event without a handler only begins and ends.

    A reporter on the runtime's side may also have `plugin_changed(plugin, state, about)`: a plugin is now "active",
    "late", "open" (left out by its breaker) or "gone". `about` has the plugin's known kind, version, events,
    configuration and reason, as strings by name.

    The methods are called on the hot path, on the runtime's side by several threads at once. They must be quick, must
    not block, and must not change anything. Their errors are only logged.

    Arguments:
        event: the RPC's name, `CreateContainer`; also `Configure`, `Synchronize`, `StateChange` and `Shutdown`. On the
            runtime's side also `UpdateContainers`, a plugin's own request: `plugin_asked` has the plugin, and the event
            ends with the runtime's reply.
        serial: the number of the event, from 1, unique on its side. It identifies the steps of overlapping events.
            Validators are called with the serial of the creation.
        plugin: ``NN-name``.
        request: the encoded message without its envelope; it may be empty.
        reply: likewise. Decode a merged result instead of comparing its bytes: its fields may be in any order and in
            pieces, with unknown fields in between.
        error: the raised exception, or None.
        duration_s: seconds since the plugin was called, or since the event began.
    """

    def event_begins(self, event: str, serial: int, request: bytes) -> None:
        """An event begins: called by the runtime's code, or on the plugin's side by a request.

        On the runtime's side, the first plugin may already have the request when this is called.
        """

    def plugin_asked(self, plugin: str, event: str, serial: int, request: bytes) -> None:
        """The plugin is called, with the changes of earlier plugins in the request."""

    def plugin_answered(self, plugin: str, event: str, serial: int, reply: bytes, duration_s: float) -> None:
        """The plugin has answered: on the runtime's side before the merge, on the plugin's side after sending."""

    def plugin_failed(self, plugin: str, event: str, serial: int, error: Exception, duration_s: float) -> None:
        """The plugin raised, answered with a status, was late, or its connection ended."""

    def reply_merged(self, plugin: str, event: str, serial: int, error: Exception | None) -> None:
        """The plugin's reply was merged, or could not be because of `error`: a conflict, a breach of policy."""

    def event_ends(self, event: str, serial: int, reply: bytes, error: Exception | None, duration_s: float) -> None:
        """The event is over: `reply` is the merged result, or the plugin's reply; empty with an `error`."""


class Waiting(Protocol):
    """A waiting call of `nri.ttrpc.waiters`, or a stream."""

    response: Any

    def wake(self) -> None:
        """Report that the response has arrived, or that the connection has ended."""

    def nudge(self) -> bool:
        """Wake the waiting thread, so that it becomes the reader if there is no reader. False without such a thread."""


class Receiving(Waiting, Protocol):
    """A receiver of a stream's data: `nri.ttrpc.services.inbox.Inbox`."""

    def arrived(self, data: Any) -> None:
        """Store a message, or the end of the peer's half: a `nri.ttrpc.halves.Data`."""


class Watcher(Protocol):
    """An object that is notified whether a thread reads a connection: `nri.ttrpc.monitor.IdleWatcher`."""

    armed: bool
    resting: bool
    used: float
    close_s: float

    def busy(self) -> None: ...
    def idle(self) -> None: ...
    def release(self, now: float) -> None: ...
