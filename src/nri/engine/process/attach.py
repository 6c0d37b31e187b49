"""Connect to a container's terminal or streams by conmon's attach socket. Several clients can be connected.

conmon sends output in packets. The first byte of a packet is the stream. conmon writes bytes from clients to the
container's stdin.
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
#: The longest packet that conmon reads. It cuts longer packets.
_CHUNK_BYTES = 8192


class Attachment:
    """A connection to a container's streams. The constructor raises EngineError if the conmon does not listen."""

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
        """Read the next output: the stream and the bytes. Returns None when the container has ended.

        Raises TimeoutError if there is no output within `timeout_s`.
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
        """Send bytes to the container's stdin. Raises BrokenPipeError if the container has ended."""
        for begin in range(0, len(data), _CHUNK_BYTES):
            self._socket.sendall(data[begin : begin + _CHUNK_BYTES])

    def send(self, data: bytes) -> int:
        """Send as many bytes as possible without waiting, and return their number.

        Raises OSError if the container has ended.
        """
        try:
            return self._socket.send(data[:_CHUNK_BYTES], socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def close_stdin(self) -> None:
        """End the input. The container's stdin ends, too, if the container was created with `stdin_once`."""
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
