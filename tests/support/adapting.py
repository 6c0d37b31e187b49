"""For tests of the adaptation: a client that speaks bytes as it likes, waiting, files, and what must not leak."""

from __future__ import annotations

import gc
import os
import socket
import threading
import weakref
from pathlib import Path
from struct import pack
from typing import Any

from nri.api import messages as m
from nri.api import naming
from nri.mux import frames as mux
from nri.testing import FakeRuntime
from nri.ttrpc import frames
from nri.ttrpc.envelope import encode_request, request_prefix
from tests.support.waiting import PATIENCE_S, wait_for

#: Of a runtime that counts how often it starts a program: one that is slow to start is not killed for it.
PATIENT: dict[str, Any] = {"registration_timeout_s": 60.0, "request_timeout_s": 20.0}


def change(path: Path, text: str) -> None:
    """Write a file in one step, as editors do: nobody who watches it reads half of it."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.replace(path)


def request(method: str, message: Any, stream_id: int = 1) -> bytes:
    """A request of a plugin as bytes of the trunk."""
    data = encode_request(request_prefix(naming.RUNTIME_SERVICE, method), message.SerializeToString())
    return mux.cut(naming.RUNTIME_SERVICE_CONN, frames.pack(stream_id, frames.REQUEST, data))


def register(name: str = "raw", idx: str = "10", stream_id: int = 1) -> bytes:
    """RegisterPlugin as bytes."""
    return request("RegisterPlugin", m.RegisterPluginRequest(plugin_name=name, plugin_idx=idx), stream_id)


def response(stream_id: int, message: Any = None) -> bytes:
    """An answer to a request of the runtime as bytes of the trunk."""
    payload = b"" if message is None else message.SerializeToString()
    data = b"\x12" + bytes(_varint(len(payload))) + payload if payload else b""
    return mux.cut(naming.PLUGIN_SERVICE_CONN, frames.pack(stream_id, frames.RESPONSE, data))


def _varint(value: int) -> list[int]:
    out = []
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return [*out, value]


def garbage_frame(conn_id: int, length: int) -> bytes:
    """The header of a frame that announces so many bytes."""
    return pack(">II", conn_id, length)


class RawPlugin:
    """A plugin made of bytes: it registers and answers what it is told to, and nothing else.

    `close` hangs up. A test that fails before that leaves no open socket behind, which a later test would fail for.
    """

    def __init__(self, runtime: FakeRuntime, name: str = "raw", idx: str = "10", events: int = 0x3FFF) -> None:
        self.label = f"{idx}-{name}"
        self.runtime = runtime
        self.events = events
        self.sock, reference = socket.socketpair()
        self.sock.settimeout(PATIENCE_S)
        weakref.finalize(self, self.sock.close)
        runtime.connect(reference)
        self.name, self.idx = name, idx

    def join(self) -> RawPlugin:
        """Register, and answer Configure and Synchronize."""
        self.sock.sendall(register(self.name, self.idx))
        self.wait_for(b"Configure")
        self.sock.sendall(response(1, m.ConfigureResponse(events=self.events)))
        self.wait_for(b"Synchronize")
        self.sock.sendall(response(3))
        assert self.runtime.adaptation.ready([self.label], PATIENCE_S), self.runtime.plugins
        return self

    def wait_for(self, text: bytes) -> bytes:
        """Read until these bytes have come."""
        observed = b""
        while text not in observed:
            data = self.sock.recv(65536)
            assert data, f"the runtime closed the connection before {text!r}"
            observed += data
        return observed

    def ended(self) -> bool:
        """Whether the runtime closes the connection; waits for it."""
        try:
            while self.sock.recv(65536):
                pass
        except ConnectionResetError:
            pass
        return True

    def close(self) -> None:
        """Hang up."""
        self.sock.close()


class Leaks:
    """Threads and descriptors before and after."""

    def __init__(self) -> None:
        gc.collect()
        self.threads = threading.active_count()
        self.descriptors = self._descriptors()

    @staticmethod
    def _descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    def check(self, slack: int = 0) -> None:
        """Wait until there are no more than before."""
        wait_for(
            lambda: threading.active_count() <= self.threads + slack, f"no thread is left over: {threading.enumerate()}"
        )

        def given_back() -> bool:
            gc.collect()
            return self._descriptors() <= self.descriptors + slack

        wait_for(given_back, "every descriptor is given back")
