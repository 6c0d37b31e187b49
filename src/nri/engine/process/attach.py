"""conmon's attach socket: a container's terminal or streams, for any number of clients.

conmon sends a packet for each piece of output, whose first byte is the stream. Bytes from clients go to the container's
stdin.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Self

from nri.engine.support.command import wait_readable
from nri.engine.support.errors import EngineError

STDOUT, STDERR = 2, 3
_PACKET = 1 << 16
#: conmon reads this many bytes at a time, and cuts longer packets.
_CHUNK_BYTES = 8192


class Attachment:
    """A connection to a container's streams. EngineError if its conmon does not listen."""

    def __init__(self, bundle: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        folder = -1
        try:
            # Connect relative to the folder, because the path of a socket is limited to about 100 bytes.
            folder = os.open(bundle, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            self._socket.connect(f"/proc/self/fd/{folder}/attach")
        except OSError as error:
            self._socket.close()
            raise EngineError(f"cannot attach: conmon of {bundle} does not listen ({error.strerror})") from error
        finally:
            if folder >= 0:
                os.close(folder)

    def fileno(self) -> int:
        """The socket's descriptor, for select."""
        return self._socket.fileno()

    def read(self, timeout_s: float | None = None) -> tuple[int, bytes] | None:
        """The next output as stream and bytes; None when the container has ended.

        TimeoutError if there is none in time.
        """
        ready = wait_readable(self._socket.fileno(), timeout_s)
        if not ready:
            raise TimeoutError(f"the container wrote nothing for {timeout_s:g} s")
        try:
            packet = self._socket.recv(_PACKET)
        except ConnectionResetError:
            return None
        return (packet[0], packet[1:]) if packet else None

    def write(self, data: bytes) -> None:
        """Send bytes to the container's stdin. BrokenPipeError if it has ended."""
        for begin in range(0, len(data), _CHUNK_BYTES):
            self._socket.sendall(data[begin : begin + _CHUNK_BYTES])

    def send(self, data: bytes) -> int:
        """Send as many bytes as possible without waiting; returns the number. OSError if it has ended."""
        try:
            return self._socket.send(data[:_CHUNK_BYTES], socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def close_stdin(self) -> None:
        """End the input; the container sees the end if its stdin is for one client only."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the container has ended

    def close(self) -> None:
        """Disconnect; the container continues to run."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
