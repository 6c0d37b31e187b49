"""A runtime whose every byte a test decides: the other side of a plugin, for faults that no real runtime shows.

`ScriptedRuntime` speaks frames by the pure cores of `nri.mux` and `nri.ttrpc`, but sends whatever it is told to, `raw`
included. Every wait has a deadline.
"""

from __future__ import annotations

import socket
import time
import weakref
from typing import Any

from nri.api import messages as m
from nri.api.naming import PLUGIN_SERVICE, PLUGIN_SERVICE_CONN, RUNTIME_SERVICE_CONN
from nri.mux import Demux
from nri.mux import frames as mux
from nri.ttrpc import frames
from nri.ttrpc.envelope import (
    Request,
    Response,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    request_prefix,
)

PATIENCE_S = 10.0


class ScriptedRuntime:
    """The runtime's end of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sock.settimeout(PATIENCE_S)
        weakref.finalize(self, sock.close)  # a test that fails before `close` leaves nothing to a later one
        self._demux = Demux((PLUGIN_SERVICE_CONN, RUNTIME_SERVICE_CONN))
        self._readers = {PLUGIN_SERVICE_CONN: frames.FrameReader(), RUNTIME_SERVICE_CONN: frames.FrameReader()}
        self._arrived: list[tuple[int, tuple[int, int, int, bytes | None, int]]] = []
        self.next_id = 1

    # -- sending ------------------------------------------------------------------------------------------------------

    def raw(self, data: bytes) -> None:
        """Bytes on the trunk, as they are."""
        self.sock.sendall(data)

    def request_bytes(
        self,
        method: str,
        message: Any = None,
        *,
        timeout_s: float = 2.0,
        stream_id: int = 0,
        service: str = PLUGIN_SERVICE,
    ) -> bytes:
        """The trunk's bytes of one request to the plugin; `message` is a protobuf message or bytes."""
        if not stream_id:
            stream_id, self.next_id = self.next_id, self.next_id + 2
        payload = message if isinstance(message, bytes) else b"" if message is None else message.SerializeToString()
        data = encode_request(request_prefix(service, method), payload, int(timeout_s * 1e9))
        return mux.cut(PLUGIN_SERVICE_CONN, frames.pack(stream_id, frames.REQUEST, data))

    def send(self, method: str, message: Any = None, **options: Any) -> None:
        """Send a request and do not wait."""
        self.raw(self.request_bytes(method, message, **options))

    def call(self, method: str, message: Any = None, **options: Any) -> Response:
        """Send a request and wait for its response."""
        self.send(method, message, **options)
        return self.response()

    def answer(self, request: Request, message: Any = None, code: int = 0, text: str = "") -> None:
        """Answer a request of the plugin."""
        payload = b"" if message is None else message.SerializeToString()
        data = encode_response(payload, code, text)
        self.raw(mux.cut(RUNTIME_SERVICE_CONN, frames.pack(request.stream_id, frames.RESPONSE, data)))

    # -- receiving ----------------------------------------------------------------------------------------------------

    def _frame(self, conn_id: int) -> tuple[int, int, int, bytes | None, int]:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            for i, (arrived_on, frame) in enumerate(self._arrived):
                if arrived_on == conn_id:
                    del self._arrived[i]
                    return frame
            data = self.sock.recv(65536)
            if not data:
                raise EOFError("the plugin has closed the connection")
            for arrived_on, chunk in self._demux.receive(data):
                self._arrived += [(arrived_on, frame) for frame in self._readers[arrived_on].receive(chunk)]
        raise TimeoutError("nothing came from the plugin")

    def response(self) -> Response:
        """The next response of the plugin."""
        stream_id, kind, _, data, _ = self._frame(PLUGIN_SERVICE_CONN)
        assert kind == frames.RESPONSE, f"the plugin sent type {kind} where a response was expected"
        assert data is not None
        response = decode_response(data)
        response.stream_id = stream_id
        return response

    def request(self) -> Request:
        """The next request of the plugin."""
        stream_id, _, _, data, _ = self._frame(RUNTIME_SERVICE_CONN)
        assert data is not None
        request = decode_request(data)
        request.stream_id = stream_id
        return request

    def closed_by_plugin(self) -> bool:
        """Wait for the end of the connection; False if something else came first."""
        try:
            self._frame(PLUGIN_SERVICE_CONN)
        except (EOFError, ConnectionError):
            return True
        return False

    # -- the usual beginning ------------------------------------------------------------------------------------------

    def register(self) -> m.RegisterPluginRequest:
        """Take the registration and accept it."""
        request = self.request()
        assert request.method == "RegisterPlugin", f"the plugin began with {request}"
        self.answer(request)
        return m.RegisterPluginRequest.FromString(request.payload)

    def configure(
        self, config: str = "", *, name: str = "scripted", version: str = "v1", nri: str = "v0.12.5"
    ) -> Response:
        """Configure the plugin; returns its response."""
        request = m.ConfigureRequest(
            config=config,
            runtime_name=name,
            runtime_version=version,
            NRI_version=nri,
            registration_timeout=5000,
            request_timeout=2000,
        )
        return self.call("Configure", request)

    def begin(self, **options: Any) -> m.ConfigureResponse:
        """Register, configure, synchronize with nothing; returns what the plugin subscribed to."""
        self.register()
        response = self.configure(**options)
        assert not response.code, f"Configure failed: {response.message}"
        assert not self.call("Synchronize", m.SynchronizeRequest()).code
        return m.ConfigureResponse.FromString(response.payload)

    def close(self) -> None:
        """Close the connection."""
        self.sock.close()
