"""A plain socket as a transport: one ttRPC connection, number 0. For containerd's own sockets, shims, agents.

NRI's sockets carry two connections each and use `nri.mux.Trunk` instead; both fit `nri.ttrpc.Endpoint`.
"""

from __future__ import annotations

from nri.stream import Stream, connect_unix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.stream import Socket

__all__ = ["SocketTransport"]

_READ = 65536


class SocketTransport:
    """One connected stream socket that carries one ttRPC connection."""

    __slots__ = ("_stream",)

    def __init__(self, sock: Socket) -> None:
        self._stream = Stream(sock)

    @classmethod
    def connect(cls, path: str) -> SocketTransport:
        """Connect to a unix socket; OSError as the kernel says it."""
        return cls(connect_unix(path))

    def fileno(self) -> int:
        """The descriptor; -1 once closed."""
        return self._stream.fileno()

    def send(self, conn_id: int, message: bytes, deadline: float | None) -> None:  # noqa: ARG002 - as Trunk
        """Write one frame; `conn_id` is 0 and not on the wire."""
        self._stream.send(message, deadline)

    def receive(self, deadline: float | None) -> list[tuple[int, bytes]]:
        """Read once. DeadlineExceeded, ConnectionClosed."""
        return [(0, self._stream.receive(_READ, deadline))]

    def receive_now(self) -> list[tuple[int, bytes]]:
        """As `receive`, but only what is there already."""
        return [(0, self._stream.receive_now(_READ))]

    def shut(self) -> None:
        """End both directions; wakes a thread that waits in `receive`."""
        self._stream.shut()

    def shut_reading(self) -> None:
        """End reading; what is being answered can still be sent."""
        self._stream.shut_reading()

    def close(self) -> None:
        """Close the socket."""
        self._stream.close()
