"""The server's side of a WebSocket after its handshake, without its socket: pieces of messages in, whole messages out.

Rules: wsproto does the frames; a long message is handed on piece by piece, so its length needs no bound; pings are
answered here. Source: RFC 6455.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage

__all__ = ["MessageSocket", "Piece"]


class Piece(NamedTuple):
    """A part of a message. `first` and `last` say where in it."""

    data: bytes
    first: bool
    last: bool


class MessageSocket:
    """Messages over the bytes of one connection. `closed` once either side has closed it."""

    def __init__(self) -> None:
        self._connection = Connection(ConnectionType.SERVER)
        self._out = bytearray()
        self._inside = False
        self.closed = False

    def receive(self, data: bytes) -> Iterator[Piece]:
        """Take bytes of the client; yields the pieces in them, texts as UTF-8."""
        if self.closed:
            return
        self._connection.receive_data(data)
        for event in self._connection.events():
            if isinstance(event, Ping):
                self._out += self._connection.send(event.response())
            elif isinstance(event, CloseConnection):  # also after a breach of the protocol, with its code
                self.closed = True
                if self._connection.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
                    self._out += self._connection.send(event.response())
                return
            elif isinstance(event, BytesMessage | TextMessage):
                yield self._piece(event)

    def _piece(self, event: BytesMessage | TextMessage) -> Piece:
        data = event.data.encode() if isinstance(event.data, str) else bytes(event.data)
        piece = Piece(data, not self._inside, event.message_finished)
        self._inside = not event.message_finished
        return piece

    def send(self, data: bytes, *, text: bool = False) -> None:
        """Send a message; nothing happens once the connection is closed."""
        if not self.closed:
            message = TextMessage(data=data.decode("ascii")) if text else BytesMessage(data=data)
            self._out += self._connection.send(message)

    def close(self) -> None:
        """Say that all was said."""
        if not self.closed:
            self.closed = True
            self._out += self._connection.send(CloseConnection(code=1000))

    def take(self) -> bytes:
        """Take out the bytes that are to be sent."""
        data = bytes(self._out)
        self._out.clear()
        return data
