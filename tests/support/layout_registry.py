"""A registry on loopback that serves what it is given and checks nothing: images of `oci_layouts`, or bytes."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from tests.support.oci_layouts import MEDIA, digest

_MANIFEST = f"{MEDIA}.manifest.v1+json"


class LayoutRegistry:
    """Serves blobs by their digests and manifests by name and tag; ends with the block."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.tags: dict[str, tuple[str, bytes]] = {}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.answer(self)

            def do_HEAD(self) -> None:
                registry.answer(self)

            def log_message(self, *_: Any) -> None:
                """Nothing: tests read what the engine says."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.host = f"localhost:{self._server.server_address[1]}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request of the distribution API."""
        _, _, path = request.path.partition("/v2/")
        name, kind, last = path.rpartition("/manifests/") if "/manifests/" in path else path.rpartition("/blobs/")
        media, data = "application/octet-stream", b"{}" if not path else None
        if kind == "/blobs/":
            data = self.blobs.get(last)
        elif kind:
            media, data = self.tags.get(f"{name}:{last}") or (_MANIFEST, self.blobs.get(last))
        request.send_response(200 if data is not None else 404)
        request.send_header("Content-Type", media)
        request.send_header("Content-Length", str(len(data or b"")))
        request.end_headers()
        if data and request.command == "GET":
            request.wfile.write(data)

    def put(self, name: str, manifest: bytes, media: str = _MANIFEST) -> str:
        """Have a manifest under a name with a tag; returns the name to pull it by."""
        self.tags[name] = (media, manifest)
        self.blobs[digest(manifest)] = manifest
        return f"{self.host}/{name}"

    def push(self, name: str, source: str) -> str:
        """Have an image of `oci_layouts.layout` under a name with a tag; returns the name to pull it by."""
        folder = Path(source.split(":")[1])
        for path in (folder / "blobs/sha256").iterdir():
            self.blobs[f"sha256:{path.name}"] = path.read_bytes()
        row = json.loads((folder / "index.json").read_text())["manifests"][0]
        return self.put(name, self.blobs[row["digest"]])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
