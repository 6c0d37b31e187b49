"""Split the bytes of a socket into chunks of its logical connections.

Payloads are passed on as they arrive: a frame may come in any number of pieces, and a piece may end one frame and start
the next. Chunks of a connection that is not open are dropped, as in the Go library. A header that announces more than
the maximum ends the connection before any memory is allocated for it. At most seven bytes are buffered between calls.
"""

from __future__ import annotations

from nri.errors import RemoteProtocolError
from nri.mux.frames import HEADER_LENGTH, MAX_FIRST_FRAME, MAX_PAYLOAD, unpack_header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Demux:
    """Splits the bytes of one trunk."""

    __slots__ = ("_conn_id", "_head", "between", "missing", "open")

    def __init__(self, open_ids: Iterable[int]) -> None:
        #: The connections whose chunks are returned.
        self.open = frozenset(open_ids)
        self._head = b""
        self._conn_id = 0
        #: Missing bytes of the current frame.
        self.missing = 0
        #: Whether the next byte begins a frame.
        self.between = True

    def receive(self, data: bytes) -> list[tuple[int, bytes]]:
        """Process bytes from the socket. Returns (connection id, chunk) in order, without empty chunks."""
        end = len(data)
        if self.between and end > HEADER_LENGTH:
            sole = _sole_message(data, end)
            if sole is not None:
                return [sole] if sole[0] in self.open else []
        chunks: list[tuple[int, bytes]] = []
        position = 0
        if self.missing:
            position = min(self.missing, end)
            self.missing -= position
            if self._conn_id in self.open:
                chunks.append((self._conn_id, data if position == end else data[:position]))
        elif self._head:
            data = self._head + data
            self._head = b""
            end = len(data)
        while end - position >= HEADER_LENGTH:
            conn_id, length = unpack_header(data, position)
            if length > MAX_PAYLOAD:
                raise RemoteProtocolError(f"conn {conn_id}: frame payload {length} bytes, maximum is {MAX_PAYLOAD}")
            position += HEADER_LENGTH
            stop = position + length
            if stop > end:
                self._conn_id, self.missing = conn_id, stop - end
                stop = end
            if stop > position and conn_id in self.open:
                chunks.append((conn_id, data[position:stop]))
            position = stop
        if position < end:
            self._head = data[position:]
        self.between = position == end and not self.missing
        return chunks


def _sole_message(data: bytes, end: int) -> tuple[int, bytes] | None:
    """Connection and payload if the bytes are a frame, or a message in two frames (the usual cases), else None."""
    conn_id, length = unpack_header(data)
    stop = HEADER_LENGTH + length
    if stop == end and length <= MAX_PAYLOAD:
        return conn_id, data[HEADER_LENGTH:]
    if length == MAX_FIRST_FRAME and end > stop + HEADER_LENGTH:
        second_id, length = unpack_header(data, stop)
        if second_id == conn_id and stop + HEADER_LENGTH + length == end:
            return conn_id, data[HEADER_LENGTH:stop] + data[stop + HEADER_LENGTH :]
    return None
