"""The attach socket: a container's terminal or streams, for as many as want to watch and type.

Conmon sends one packet for each piece of output, its first byte says which stream; what is written goes to the
container's stdin. The socket is opened through its folder's descriptor, so that a long path does not matter.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Self

from nri.engine.support.command import readable
from nri.engine.support.errors import EngineError

STDOUT, STDERR = 2, 3
_PACKET = 1 << 16
#: conmon reads this much at a time, and cuts what is longer.
_CHUNK = 8192


class Attachment:
    """A connection to a container's streams. Raises EngineError if its conmon does not listen."""

    def __init__(self, bundle: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        folder = -1
        try:
            folder = os.open(bundle, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            self._socket.connect(f"/proc/self/fd/{folder}/attach")
        except OSError as error:
            self._socket.close()
            raise EngineError(f"cannot attach: conmon of {bundle} does not listen ({error.strerror})") from error
        finally:
            if folder >= 0:
                os.close(folder)

    def fileno(self) -> int:
        """The socket, for select."""
        return self._socket.fileno()

    def read(self, timeout_s: float | None = None) -> tuple[int, bytes] | None:
        """The next piece: which stream, and the bytes; None when the container has ended.

        Raises TimeoutError if none comes in time.
        """
        ready = readable(self._socket.fileno(), timeout_s)
        if not ready:
            raise TimeoutError(f"the container wrote nothing for {timeout_s:g} s")
        try:
            packet = self._socket.recv(_PACKET)
        except ConnectionResetError:
            return None
        return (packet[0], packet[1:]) if packet else None

    def write(self, data: bytes) -> None:
        """Send bytes to the container's stdin. Raises BrokenPipeError when it has ended."""
        for begin in range(0, len(data), _CHUNK):
            self._socket.sendall(data[begin : begin + _CHUNK])

    def send(self, data: bytes) -> int:
        """Send as much of the bytes as goes without waiting; returns how many. Raises OSError when it has ended."""
        try:
            return self._socket.send(data[:_CHUNK], socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def close_stdin(self) -> None:
        """Say that no more input comes; the container reads an end if its stdin is open for one client only."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the container has ended

    def close(self) -> None:
        """Leave; the container runs on."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
