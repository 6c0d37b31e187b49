"""The acts of a client of port forwarding, in any protocol: open connections, send, end or drop them, go.

One job: the events and the one interface that the transports of port forwarding share.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from nri.engine.streaming.channels.command import ClientGone

__all__ = ["ForwardChannels", "ForwardEvent", "PortClosed", "PortData", "PortHalfClosed", "PortOpened"]


class PortOpened(NamedTuple):
    """The client wants a connection to a port of the pod; `key` is its name from now on."""

    key: str
    port: int


class PortData(NamedTuple):
    """Bytes for a connection."""

    key: str
    data: bytes


class PortHalfClosed(NamedTuple):
    """The client sends no more on a connection, and may still read."""

    key: str


class PortClosed(NamedTuple):
    """The client has let go of a connection."""

    key: str


ForwardEvent = PortOpened | PortData | PortHalfClosed | PortClosed | ClientGone


class ForwardChannels(Protocol):
    """The client's side of one port forwarding.

    Attributes:
        halves: the two directions of a connection end each by itself.
    """

    halves: bool

    def receive(self, data: bytes) -> Iterator[ForwardEvent]:
        """Take bytes of the client. Raises RemoteProtocolError, then it is over."""
        ...

    def consumed(self, key: str, size: int) -> None:
        """So many bytes of a connection are done with."""
        ...

    def room(self, key: str) -> int:
        """The number of bytes that may be sent on a connection now."""
        ...

    def send(self, key: str, data: bytes) -> None:
        """Send what the port said."""
        ...

    def end(self, key: str) -> None:
        """The port says no more; it may still listen."""
        ...

    def close(self, key: str, error: str = "") -> None:
        """A connection is over, or there is none because of an error."""
        ...

    def expire(self, now: float) -> None:
        """Let go of what the client began and did not complete. `now` is in monotonic seconds."""
        ...

    @property
    def over(self) -> bool:
        """Whether no more connections can come, and none is left."""
        ...

    def finish(self) -> None:
        """Say that all was said."""
        ...

    def take(self) -> bytes:
        """Take out the bytes that are to be sent."""
        ...
