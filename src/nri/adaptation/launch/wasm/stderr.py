"""The stderr of a plugin in WebAssembly: a pipe to which wasmtime writes and from which a thread of this module reads.

Wasmtime could also call a function for each piece, but from its own threads. A thread that returned to Python after the
interpreter had ended aborted the process.
"""

from __future__ import annotations

import os
import select
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK_BYTES = 1 << 16
#: `close` waits this many seconds for the thread, which ends when wasmtime has closed the pipe.
_CLOSE_S = 2.0


class StderrPipe:
    """A pipe whose content is passed to `write`, on any thread, until `close`. Raises OSError or RuntimeError.

    Attributes:
        path: the path that wasmtime opens; valid until `opened`.
    """

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._reading = threading.Lock()
        self._read_end, self._write_end = os.pipe2(os.O_CLOEXEC)
        self.path = f"/proc/self/fd/{self._write_end}"
        os.set_blocking(self._read_end, False)
        self._thread = threading.Thread(target=self._run, name="nri-wasm-stderr", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            os.close(self._read_end)
            os.close(self._write_end)
            raise

    def opened(self) -> None:
        """Close the descriptor behind `path`: wasmtime has opened the pipe by now, or will not open it."""
        os.close(self._write_end)

    def drain(self) -> bool:
        """Pass on all bytes written so far. Returns False once the other end is closed, or after `close`."""
        with self._reading:
            while self._read_end >= 0:
                try:
                    data = os.read(self._read_end, _CHUNK_BYTES)
                except BlockingIOError:
                    return True
                if not data:
                    return False
                self._write(data)
        return False

    def close(self) -> None:
        """Pass on the remaining bytes, and wait for the end of the thread.

        Call it after the plugin's store is closed.
        """
        self._thread.join(_CLOSE_S)
        with self._reading:
            os.close(self._read_end)
            self._read_end = -1

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._read_end, select.POLLIN)
        with suppress(OSError):
            while poll.poll() and self.drain():
                pass
