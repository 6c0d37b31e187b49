"""The client's side of port forwarding: local sockets whose connections end at a port of a pod.

Each local connection has its own connection to the runtime's streaming server, so that a slow one does not block the
others. The bytes are transferred by the session that the engine's server uses; only its channels are the client's.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from math import inf

from nri.engine.streaming import spdy
from nri.engine.streaming.channels import ForwardEvent, PortClosed, PortData, PortHalfClosed, PortOpened
from nri.engine.streaming.forward import ForwardSession
from nri.engine.streaming.link import Limits, Link, Poller
from nri.engine.streaming.spdy_channels import FORWARD_PROTOCOL
from nri.errors import NriError, describe
from nri.pods.stream import open_spdy
from nri.text import plain

ReportLine = Callable[[str], None]
#: The most local connections at a time; further ones wait in the backlog of the socket.
_MAX_CONNECTIONS = 128
_BACKLOG = 64
_MAX_ERROR_BYTES = 16384
#: How long the end of the error stream may take after the end of the connection, in seconds.
_OUTCOME_TIMEOUT_S = 2.0
#: The key of the only connection of a session.
_KEY = "1"


def listen(address: str, port: int) -> socket.socket:
    """Listen on a local address; port 0 chooses a free port. Raises NriError if this fails."""
    try:
        family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((address, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise NriError(f"cannot listen on {plain(address)} port {port}: {error.strerror or error}") from None


def forward(listeners: Mapping[socket.socket, int], open_url: Callable[[int], str], report: ReportLine) -> None:
    """Forward the connections of listening sockets to the ports of a pod, until an exception ends the wait.

    Args:
        listeners: the ports of the pod by listening socket.
        open_url: returns the URL of a new stream to a port of the pod; may raise NriError.
        report: called with lines about connections, from several threads.
    """
    free = threading.BoundedSemaphore(_MAX_CONNECTIONS)
    poll = select.poll()
    by_descriptor = {listener.fileno(): listener for listener in listeners}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)

    def serve(connection: socket.socket, port: int) -> None:
        try:
            _serve(connection, port, open_url)
        except (NriError, OSError) as error:
            report(f"port {port}: {describe(error)}")
        finally:
            connection.close()
            free.release()

    while True:
        for descriptor, _ in poll.poll():
            listener = by_descriptor[descriptor]
            free.acquire()
            try:
                connection = listener.accept()[0]
            except OSError:  # the client has gone, or there are no free descriptors
                free.release()
                continue
            report(f"Handling connection for {listener.getsockname()[1]}")
            threading.Thread(target=serve, args=(connection, listeners[listener]), daemon=True).start()


def _serve(local: socket.socket, port: int, open_url: Callable[[int], str]) -> None:
    """Transfer the bytes of a local connection. Raises NriError if the runtime reports an error, OSError."""
    remote, first, _ = open_spdy(open_url(port), [FORWARD_PROTOCOL])
    with remote, closing(_NeverStopped()) as stop:
        channels = _ClientChannels(port)
        link = Link(remote)
        ForwardSession(link, Poller(stop.fileno()), channels, lambda _: local, Limits()).run(first)
        link.finish(Poller(stop.fileno()), 1.0)
    if channels.error:
        raise NriError(plain(channels.error.decode(errors="replace")))


class _NeverStopped:
    """A descriptor that never becomes readable, for a session that no server stops."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC)

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        os.close(self._descriptor)


class _ClientChannels:
    """The client's two streams of one forwarded connection: its bytes, and its error.

    Attributes:
        error: the beginning of the text on the error stream.
    """

    halves = True

    def __init__(self, port: int) -> None:
        self._spdy = spdy.Connection(client=True)
        headers = {"port": str(port), "requestid": _KEY}
        self._error_stream = self._spdy.open({"streamtype": "error", **headers})
        self._data_stream = self._spdy.open({"streamtype": "data", **headers})
        self._spdy.send(self._error_stream, b"", end=True)
        self._port = port
        self._opened = self._closed = self._has_outcome = False
        self._deadline = inf
        self.error = bytearray()

    def receive(self, data: bytes) -> Iterator[ForwardEvent]:
        """Receive bytes of the server; yields events, first that the connection is open."""
        if not self._opened:
            self._opened = True
            yield PortOpened(_KEY, self._port)
        for event in self._spdy.receive(data):
            if event.stream == self._error_stream:
                if isinstance(event, spdy.Data):
                    self.error += event.data[: _MAX_ERROR_BYTES - len(self.error)]
                else:
                    self._has_outcome = True
            elif isinstance(event, spdy.Data):
                yield PortData(_KEY, event.data)
            else:
                yield PortClosed(_KEY) if isinstance(event, spdy.Reset) else PortHalfClosed(_KEY)

    def consumed(self, key: str, size: int) -> None:
        """Report nothing, because Go's servers do not read window updates."""

    def send_window(self, key: str) -> int:  # noqa: ARG002  there is one connection
        """The number of bytes that may be sent to the port now."""
        return self._spdy.send_window(self._data_stream)

    def send(self, key: str, data: bytes) -> None:  # noqa: ARG002  there is one connection
        """Send bytes to the port."""
        self._spdy.send(self._data_stream, data)

    def end(self, key: str) -> None:  # noqa: ARG002  there is one connection
        """Report that the local client sends no more."""
        self._spdy.send(self._data_stream, b"", end=True)

    def close(self, key: str, error: str = "") -> None:  # noqa: ARG002  there is one connection
        """Close the connection. containerd reports its error only after that."""
        self._closed, self._deadline = True, time.monotonic() + _OUTCOME_TIMEOUT_S
        self._spdy.reset(self._data_stream)

    def expire(self, now: float) -> None:
        """Stop waiting for the end of the error stream if it does not come in time."""
        self._has_outcome = self._has_outcome or now > self._deadline

    @property
    def over(self) -> bool:
        """Whether the connection is closed, and its error is known."""
        return self._closed and self._has_outcome

    def finish(self) -> None:
        """Announce that no more streams are opened."""
        self._spdy.go_away()

    def take(self) -> bytes:
        """Take out the bytes to send."""
        return self._spdy.take()
