"""Port forwarding over a WebSocket, the old way: two channels for each port that the request names.

Rules: channel 2n has the bytes of port n, channel 2n+1 its error; each begins with the port, two bytes, the lower one
first. There is one connection for each port, made at once, and no half of it can be ended. Source: Kubernetes's
``v4.channel.k8s.io``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nri.engine.streaming.channels.command import ClientGone
from nri.engine.streaming.channels.forward import ForwardEvent, PortData, PortOpened
from nri.engine.streaming.channels.websocket_command import ChannelSocket

__all__ = ["PORT_LIMIT", "PROTOCOLS", "WebSocketForward"]

#: The protocols, the best first; the last one is that of no protocol at all.
PROTOCOLS = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io", "")
#: How many ports one request may name: a channel is one byte, or one character.
PORT_LIMIT = 32


class WebSocketForward:
    """The connections of one port forwarding."""

    halves = False

    def __init__(self, protocol: str, ports: Sequence[int]) -> None:
        self._channels = ChannelSocket(protocol)
        self._open = {str(number): 2 * number for number in range(len(ports))}
        self._wanted = [PortOpened(str(number), port) for number, port in enumerate(ports)]
        for number, port in enumerate(ports):
            for channel in (2 * number, 2 * number + 1):
                self._channels.send(channel, port.to_bytes(2, "little"))

    def receive(self, data: bytes) -> Iterator[ForwardEvent]:
        """Take bytes of the client; the first time, also none, yields the connections that are wanted."""
        while self._wanted:
            yield self._wanted.pop(0)
        for channel, found in self._channels.receive(data):
            if found and not channel & 1 and str(channel // 2) in self._open:
                yield PortData(str(channel // 2), found)
        if self._channels.socket.closed:
            yield ClientGone()

    def consumed(self, key: str, size: int) -> None:
        """Nothing: the socket itself has the only window."""

    def room(self, key: str) -> int:
        """No window, no limit."""
        return 1 << 30 if key in self._open else 0

    def send(self, key: str, data: bytes) -> None:
        """Send what the port said."""
        if key in self._open:
            self._channels.send(self._open[key], data)

    def end(self, key: str) -> None:
        """Nothing: a channel has no end of its own."""

    def close(self, key: str, error: str = "") -> None:
        """A connection is over."""
        channel = self._open.pop(key, None)
        if channel is not None and error:
            self._channels.send(channel + 1, error.encode(errors="replace"))

    def expire(self, now: float) -> None:
        """Nothing is ever half begun."""

    @property
    def over(self) -> bool:
        """Whether no connection is left."""
        return not self._open

    def finish(self) -> None:
        """Close."""
        self._channels.socket.close()

    def take(self) -> bytes:
        """Take out the bytes that are to be sent."""
        return self._channels.socket.take()
