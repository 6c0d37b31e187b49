"""The trunk: one socket that carries several logical connections.

A trunk has the four methods that `nri.ttrpc.Endpoint` needs (`send`, `receive`, `receive_now`, `close`). Opening a
logical connection is local and sends nothing, so all ids are opened before the first read: a frame for an id that is
not open would be lost. There is no queue: the reading thread splits the bytes at once.
"""

from __future__ import annotations

from nri.mux.demux import Demux
from nri.mux.frames import HEADER_LENGTH, cut, unpack_header
from nri.stream import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

    from nri.interfaces import Socket

# Enough for every ordinary request in one read. Reads in the middle of a large frame are longer.
_READ_BYTES: Final = 65536
_LARGE_READ_BYTES: Final = 1 << 18


class Trunk(Stream):
    """A connected stream socket, shared by the logical connections `open_ids`.

    One thread may send while another receives; two senders or two receivers must take turns (`Endpoint` does).
    """

    __slots__ = ("_demux",)

    def __init__(self, sock: Socket, open_ids: Iterable[int] = (1, 2), *, wake_fd: int = -1) -> None:
        """`wake_fd` is as for `Stream`."""
        super().__init__(sock, wake_fd=wake_fd)
        self._demux = Demux(open_ids)

    def send(self, conn_id: int, message: list[bytes], deadline: float | None) -> None:
        """Write the pieces of a message on a logical connection. Raises DeadlineExceeded if the peer does not read."""
        self.write(cut(conn_id, *message), deadline)

    def receive(self, deadline: float | None) -> list[tuple[int, bytes]]:
        """Read once.

        Returns (connection id, chunk), perhaps an empty list. Raises DeadlineExceeded, ConnectionClosed.
        """
        demux = self._demux
        data = self.read(_LARGE_READ_BYTES if demux.missing > _READ_BYTES else _READ_BYTES, deadline)
        if demux.between and len(data) > HEADER_LENGTH:
            conn_id, length = unpack_header(data)
            if length == len(data) - HEADER_LENGTH and conn_id in demux.open:  # one message, the usual case
                return [(conn_id, data[HEADER_LENGTH:])]
        return demux.receive(data)

    def receive_now(self) -> list[tuple[int, bytes]]:
        """Read as `receive`, but without waiting."""
        return self._demux.receive(self.read_now(_READ_BYTES))
