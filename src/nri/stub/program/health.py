"""Readiness for the outside: systemd's notification socket, /healthz and /readyz over HTTP. Loaded when asked for.

Next: `nri.stub.program.process`, which serves it.
"""

from __future__ import annotations

import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from nri.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HealthServer", "notify"]


def notify(state: str) -> None:
    """Tell systemd, if it started us: "READY=1", "STOPPING=1"."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        sock.settimeout(1.0)
        try:
            sock.sendto(state.encode(), address)
        except OSError:
            return  # systemd does not listen; a plugin does not fail because of that


class HealthServer:
    """Serves `/healthz` (the process lives: 200) and `/readyz` (synchronized: 200, else 503).

    Raises:
        ConfigError: the address cannot be listened on.
    """

    def __init__(self, address: str, is_ready: Callable[[], bool]) -> None:
        host, _, port = address.rpartition(":")

        class Handler(BaseHTTPRequestHandler):
            timeout = 5.0

            def do_GET(self) -> None:  # the name that http.server looks for
                if self.path == "/healthz":
                    code, text = 200, "ok\n"
                elif self.path == "/readyz":
                    code, text = (200, "ready\n") if is_ready() else (503, "not synchronized with a runtime\n")
                else:
                    code, text = 404, "see /healthz and /readyz\n"
                self.send_response(code)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *arguments: object) -> None:
                """Log nothing: a probe every few seconds is not worth a line."""

        try:
            self._server = ThreadingHTTPServer((host or "127.0.0.1", int(port)), Handler)
        except OSError as error:
            raise ConfigError(
                "command line", "--health-addr", f"cannot listen on {address}: {error.strerror}"
            ) from None
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="nri-health", daemon=True).start()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
