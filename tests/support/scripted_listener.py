"""A socket on which a scripted runtime serves one plugin after the other."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

from tests.support.scripted_runtime import ScriptedRuntime


class Listener:
    """A runtime that takes one plugin after the other and plays a script to each, in a thread."""

    def __init__(self, path: Path, script: Callable[[ScriptedRuntime], None]) -> None:
        self.path = path
        self.errors: list[BaseException] = []
        self._script = script
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._socket.accept()
            except OSError:
                return
            runtime = ScriptedRuntime(sock)
            try:
                self._script(runtime)
            except (EOFError, OSError):
                pass
            except BaseException as error:
                self.errors.append(error)
            finally:
                runtime.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        assert not self.errors, f"the scripted runtime saw something unexpected: {self.errors}"
