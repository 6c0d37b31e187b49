"""An HTTP server with scripted answers: each request takes the next one, and all requests are kept.

It does not replace a real apiserver or kubelet: other tests use these. Here are the answers that they rarely give,
and those of servers that are not an apiserver.
"""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.needs import need_tool

Answer = Callable[[BaseHTTPRequestHandler], None]


class HttpServer:
    """The server; `asked` has method, path, query and headers of each request, and its body."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answers: list[Answer] = []
        #: What is answered when nothing is left.
        self.otherwise: Answer = status(500, "the script is at its end")
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer._serve(self)

            do_POST = do_PATCH = do_GET  # noqa: N815  http.server's names

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass  # a client that goes away is what tests are about

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port

    def script(self, *answers: Answer) -> None:
        """Have the next requests answered so."""
        self.answers += answers

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        where = urlsplit(request.path)
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        query = {key: values[0] for key, values in parse_qs(where.query).items()}
        with self._lock:
            self.asked.append(
                {
                    "method": request.command,
                    "path": where.path,
                    "query": query,
                    "headers": dict(request.headers),
                    "body": json.loads(body) if body else None,
                }
            )
            answer = self.answers.pop(0) if self.answers else self.otherwise
        answer(request)

    @contextmanager
    def listening(self, certificate: Path | None = None) -> Iterator[HttpServer]:
        """Serve while the block lasts, with TLS if there is a certificate."""
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.server.shutdown()
            self.server.server_close()
            thread.join()


def body(data: bytes, code: int = 200, **headers: str) -> Answer:
    """An answer of bytes."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(code)
        for key, value in headers.items():
            request.send_header(key.replace("_", "-"), value)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    return answer


def page(tree: Any, code: int = 200) -> Answer:
    """An answer of JSON."""
    return body(json.dumps(tree).encode(), code, Content_Type="application/json")


def status(code: int, message: str, **more: Any) -> Answer:
    """A refusal as the API writes it."""
    return page({"kind": "Status", "code": code, "message": message, **more}, code)


def stream(*pieces: bytes, hold: threading.Event | None = None) -> Answer:
    """An answer in pieces that ends with the connection; it stays open until `hold` is set."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Connection", "close")
        request.end_headers()
        request.close_connection = True
        for piece in pieces:
            request.wfile.write(piece)
            request.wfile.flush()
        if hold is not None:
            hold.wait(60)

    return answer


def truncated(data: bytes) -> Answer:
    """An answer whose connection ends in its middle."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.close_connection = True
        request.wfile.write(data[: len(data) // 2])

    return answer


def endless(data: bytes) -> Answer:
    """An answer that repeats the same data until the client ends the connection."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Connection", "close")
        request.end_headers()
        request.close_connection = True
        with suppress(OSError):
            while True:
                request.wfile.write(data)

    return answer


def cut(request: BaseHTTPRequestHandler) -> None:
    """No answer: the connection ends."""
    request.close_connection = True
    request.connection.shutdown(socket.SHUT_RDWR)


def make_certificate(folder: Path, name: str = "node-1", *, address: str = "") -> Path:
    """A certificate with its key in one file, which is its own CA; also for an IP address."""
    path, key = folder / "certificate.pem", folder / "key.pem"
    words = [need_tool("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    words += [
        "-nodes",
        "-days",
        "2",
        "-subj",
        f"/CN={name}",
        "-addext",
        f"subjectAltName=DNS:{name}{address and f',IP:{address}'}",
    ]
    subprocess.run([*words, "-keyout", key, "-out", path], check=True, capture_output=True, timeout=60)
    path.write_text(path.read_text() + key.read_text())
    return path
