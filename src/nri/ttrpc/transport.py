"""A plain socket as the transport of a ttRPC connection with number 0: for sockets of containerd, shims, agents.

NRI's sockets carry two connections each and use `nri.mux.Trunk` instead.
"""

from __future__ import annotations

from nri.stream import Stream, connect_unix

_READ_BYTES = 65536


class SocketTransport(Stream):
    """A connected stream socket that carries one ttRPC connection."""

    __slots__ = ()

    @classmethod
    def connect(cls, path: str) -> SocketTransport:
        """Connect to a unix socket. Raises the kernel's OSError."""
        return cls(connect_unix(path))

    def send(self, conn_id: int, message: list[bytes], deadline: float | None) -> None:  # noqa: ARG002 - as Trunk
        """Write the pieces of a frame. `conn_id` is 0 and not sent."""
        self.write(b"".join(message), deadline)

    def receive(self, deadline: float | None) -> list[tuple[int, bytes]]:
        """Read once. Raises DeadlineExceeded, ConnectionClosed."""
        return [(0, self.read(_READ_BYTES, deadline))]

    def receive_now(self) -> list[tuple[int, bytes]]:
        """Read as `receive`, but without waiting."""
        return [(0, self.read_now(_READ_BYTES))]
