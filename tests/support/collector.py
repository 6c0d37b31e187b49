"""A collector of OpenTelemetry on loopback, for tests of what sends spans."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Collector:
    """Receives OTLP over HTTP. It answers with the first of `statuses`, if there is one."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self.resources: list[dict[str, Any]] = []
        self.paths: set[str] = set()
        self.statuses: list[int] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status = collector.statuses.pop(0) if collector.statuses else 200
                if status == 200:
                    collector.paths.add(self.path)
                    for row in data["resourceSpans"]:
                        collector.resources.append(row["resource"])
                        collector.spans += [span for scope in row["scopeSpans"] for span in scope["spans"]]
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
