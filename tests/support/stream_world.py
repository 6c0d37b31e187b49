"""A streaming server with real programs of this machine behind it, and clients that speak to it over real sockets.

One job: tests of the server that need no container. Its "OCI runtime" is a script that starts the program and stays
above it until it ends, as runtimes do.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from nri.engine.process.attach import Attachment
from nri.engine.process.execution import Execution
from nri.engine.process.runtime import Runtime
from nri.engine.streaming import Limits, StreamingServer, connect_port
from nri.engine.support.errors import EngineError
from tests.support.stream_clients import SpdyClient, WebSocketClient

RUNTIME = """#!{python} -IS
import json, os, signal, sys
said = sys.argv
with open(said[said.index("--process") + 1]) as file:
    spec = json.load(file)
resized = [signal.SIGWINCH]
signal.pthread_sigmask(signal.SIG_BLOCK, resized)
program = os.fork()
if not program:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, resized)
    os.execvp(spec["args"][0], spec["args"])
signal.signal(signal.SIGWINCH, lambda *_: os.kill(program, signal.SIGWINCH))
signal.pthread_sigmask(signal.SIG_UNBLOCK, resized)
with open(said[said.index("--pid-file") + 1], "w") as file:
    file.write(str(program))
code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
sys.exit(code if code >= 0 else 128 - code)
"""
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


class World:
    """The server, and a backend whose container is this machine."""

    def __init__(self, folder: Path) -> None:
        script = folder / "runtime"
        script.write_text(RUNTIME.format(python=sys.executable))
        script.chmod(0o755)
        self.runtime = Runtime(str(script), folder / "state")
        self.started: list[Execution] = []
        self.connect: Callable[[int], socket.socket] = lambda port: connect_port(None, port)
        self._servers: list[StreamingServer] = []
        self.limited()

    def limited(self, **limits: float) -> None:
        """A server with other limits from now on."""
        self.server = StreamingServer("127.0.0.1", 0, self, Limits(**limits))  # type: ignore[arg-type]
        self.server.start()
        self._servers.append(self.server)

    def exec(self, container_id: str, argv: Sequence[str], *, tty: bool, stdin: bool) -> Execution:
        process = {"args": [*argv], "terminal": tty}
        self.started.append(Execution(self.runtime, container_id, process, stdin=stdin))
        return self.started[-1]

    def attach(self, container_id: str) -> Attachment:
        raise EngineError("nothing to attach to")

    def resize(self, container_id: str, width: int, height: int) -> None:
        raise EngineError("no terminal")

    def open_port(self, pod_id: str, port: int) -> socket.socket:
        return self.connect(port)

    def run(self, *argv: str, stdin: bool = False) -> SpdyTalk:
        """A SPDY client of a program with its streams open."""
        talk = SpdyTalk(self.server.exec_url("c", argv, stdin=stdin, stdout=True), "v4.channel.k8s.io")
        for kind in ("error", "stdout", *(("stdin",) if stdin else ())):
            talk.open(streamtype=kind)
        return talk

    def close(self) -> None:
        for server in self._servers:
            server.stop()


def request(url: str, *headers: str, method: str = "POST") -> tuple[socket.socket, bytes]:
    """A connection with the request for a URL."""
    where, _, path = url.removeprefix("http://").partition("/")
    host, _, port = where.rpartition(":")
    lines = [f"{method} /{path} HTTP/1.1", f"Host: {where}", *headers, "", ""]
    connection = socket.create_connection((host.strip("[]"), int(port)), 20)
    return connection, "\r\n".join(lines).encode()


def ask(url: str, *headers: str, method: str = "POST") -> str:
    """Everything that is answered to a request."""
    connection, data = request(url, *headers, method=method)
    with connection:
        connection.sendall(data)
        return rest_of(connection).decode()


def rest_of(connection: socket.socket) -> bytes:
    """All that comes until the end."""
    results = b""
    with contextlib.suppress(ConnectionResetError):
        while data := connection.recv(65536):
            results += data
    return results


class Talk:
    """A connection that was switched to another protocol."""

    def __init__(self, url: str, *headers: str, method: str) -> None:
        self.socket, data = request(url, *headers, method=method)
        self.socket.sendall(data)
        answer = b""
        while b"\r\n\r\n" not in answer:
            more = self.socket.recv(1)
            assert more, answer
            answer += more
        assert answer.startswith(b"HTTP/1.1 101 "), answer
        self.ended = False

    def take(self, data: bytes) -> None:
        raise NotImplementedError

    def pump(self) -> None:
        """Take what comes next."""
        data = self.socket.recv(65536)
        self.ended = not data
        self.take(data)

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Take what comes until the condition holds."""
        deadline = time.monotonic() + 20
        while not condition():
            assert not self.ended and time.monotonic() < deadline, f"{what} did not happen"
            self.pump()

    def flood(self, piece: bytes, times: int = 64) -> int:
        """Send the same bytes until the server takes no more; returns how often it took them."""
        self.socket.settimeout(0.5)
        for sent in range(times):
            try:
                self.socket.sendall(piece)
            except TimeoutError:
                return sent
        return times

    def close(self) -> None:
        self.socket.close()


class SpdyTalk(Talk):
    """SPDY over a socket. `streams` are the ids by kind, or by request and kind."""

    def __init__(self, url: str, protocol: str) -> None:
        headers = ("Connection: Upgrade", "Upgrade: SPDY/3.1", f"X-Stream-Protocol-Version: {protocol}")
        super().__init__(url, *headers, method="POST")
        self.client = SpdyClient()
        self.streams: dict[str, int] = {}

    def take(self, data: bytes) -> None:
        self.client.read(data)

    def open(self, **headers: str) -> int:
        stream, data = self.client.open(headers)
        self.streams[headers.get("requestid", "") + headers["streamtype"]] = stream
        self.socket.sendall(data)
        return stream

    def say(self, kind: str, data: bytes, *, end: bool = False) -> None:
        self.socket.sendall(self.client.send(self.streams[kind], data, end=end))

    def heard(self, kind: str) -> bytes | bytearray:
        return self.client.data.get(self.streams[kind], b"")

    def has_ended(self, kind: str) -> bool:
        return self.streams[kind] in self.client.ended


class WebSocketTalk(Talk):
    """A WebSocket over a socket; `messages` are those of the server."""

    def __init__(self, url: str, protocol: str) -> None:
        headers = [
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {KEY}",
        ]
        headers += [f"Sec-WebSocket-Protocol: {protocol}"] if protocol else []
        super().__init__(url, *headers, method="GET")
        self.client = WebSocketClient()
        self.messages: list[bytes] = []

    def take(self, data: bytes) -> None:
        if data:
            self.messages += self.client.read(data)

    def say(self, data: bytes | str) -> None:
        self.socket.sendall(self.client.send(data))


def is_running(execution: Execution) -> bool:
    """Whether the program of an exec still runs, or is not waited for."""
    return os.path.exists(f"/proc/{execution.pid}")
