"""A plain socket as a transport: one ttRPC connection, number 0. For containerd's own sockets, shims, agents.

NRI's sockets carry two connections each and use `nri.mux.Trunk` instead; both fit `nri.ttrpc.Endpoint`.
"""

from __future__ import annotations

from nri.stream import Stream, connect_unix

__all__ = ["SocketTransport"]

_READ = 65536


class SocketTransport(Stream):
    """One connected stream socket that carries one ttRPC connection."""

    __slots__ = ()

    @classmethod
    def connect(cls, path: str) -> SocketTransport:
        """Connect to a unix socket; OSError as the kernel says it."""
        return cls(connect_unix(path))

    def send(self, conn_id: int, message: list[bytes], deadline: float | None) -> None:  # noqa: ARG002 - as Trunk
        """Write one frame, which comes in pieces; `conn_id` is 0 and not on the wire."""
        self.write(b"".join(message), deadline)

    def receive(self, deadline: float | None) -> list[tuple[int, bytes]]:
        """Read once. DeadlineExceeded, ConnectionClosed."""
        return [(0, self.read(_READ, deadline))]

    def receive_now(self) -> list[tuple[int, bytes]]:
        """Read as `receive` does, but only what is there already."""
        return [(0, self.read_now(_READ))]
