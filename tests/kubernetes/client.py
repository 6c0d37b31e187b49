"""Kubelet's HTTP interface: its pods, their logs, commands in them, and what it measures.

Rules: each call is a connection of its own with a deadline; kubelet's certificate is its own and not checked; an answer
other than 200 is an `AnswerError`. Next: `websocket`, over which commands with streams go.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from tests.kubernetes.websocket import ERROR, STDERR, STDIN, STDOUT, WebSocket

TIMEOUT_S = 30.0
CHUNK = 32 << 10
NAMESPACE = "default"
V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
Json = dict[str, Any]


class AnswerError(Exception):
    """Kubelet answered with another status than 200."""

    def __init__(self, what: str, status: int, text: str) -> None:
        super().__init__(f"{what}: HTTP {status}: {text}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Executed:
    """What a command in a container came to."""

    stdout: bytes
    stderr: bytes
    code: int


class KubeletClient:
    """Asks the kubelet at that port, with a token if it wants one."""

    def __init__(self, port: int, address: str = "127.0.0.1", token: str = "") -> None:
        self.port = port
        self.address = address
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE

    def answers(self) -> bool:
        """Whether it tells its pods by now."""
        try:
            self.pods()
        except (OSError, http.client.HTTPException, AnswerError):
            return False
        return True

    def get(self, path: str, query: Mapping[str, object] | None = None, method: str = "GET") -> str:
        """The text of an answer."""
        connection = http.client.HTTPSConnection(self.address, self.port, timeout=TIMEOUT_S, context=self._tls)
        try:
            target = f"{path}?{urlencode(query, doseq=True)}" if query else path
            connection.request(method, target, headers=self._headers)
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        finally:
            connection.close()
        if answer.status != http.HTTPStatus.OK:
            raise AnswerError(f"{method} {path}", answer.status, text.strip())
        return text

    def pods(self) -> dict[str, Json]:
        """All pods by name, with their status, as kubelet sees them."""
        items = json.loads(self.get("/pods"))["items"] or []
        return {item["metadata"]["name"]: item for item in items}

    def logs(self, pod: str, container: str, **query: object) -> str:
        """A container's log. `query` as in PodLogOptions: ``previous``, ``tailLines``, ``timestamps``, ..."""
        return self.get(f"/containerLogs/{NAMESPACE}/{pod}/{container}", query)

    def run(self, pod: str, container: str, *command: str) -> str:
        """What a command prints, without streams (CRI's ExecSync)."""
        return self.get(f"/run/{NAMESPACE}/{pod}/{container}", {"cmd": " ".join(command)}, "POST")

    def summary(self) -> Json:
        """What kubelet measures of the node and its pods."""
        document: Json = json.loads(self.get("/stats/summary"))
        return document

    def exec(
        self, pod: str, container: str, command: Sequence[str], stdin: bytes = b"", protocol: str = V4
    ) -> Executed:
        """Run a command with streams (CRI's Exec) and these bytes on its stdin, which ends if the protocol says so."""
        with self.open_exec(pod, container, command, stdin=bool(stdin), protocol=protocol) as stream:
            if stdin:
                for at in range(0, len(stdin), CHUNK):
                    stream.send(STDIN, stdin[at : at + CHUNK])
                if protocol == V5:
                    stream.end(STDIN)
            return collect(stream)

    def open_exec(
        self,
        pod: str,
        container: str,
        command: Sequence[str],
        *,
        stdin: bool = False,
        tty: bool = False,
        protocol: str = V4,
    ) -> WebSocket:
        """The streams of a command that runs."""
        expected = {"command": list(command), "output": 1, **({"input": 1} if stdin else {})}
        expected |= {"tty": 1} if tty else {"error": 1}
        return self.open(f"/exec/{NAMESPACE}/{pod}/{container}?{urlencode(expected, doseq=True)}", protocol)

    def open_attach(self, pod: str, container: str, *, stdin: bool = False, tty: bool = False) -> WebSocket:
        """The streams of a container's own process."""
        expected = {"output": 1, **({"input": 1} if stdin else {}), **({"tty": 1} if tty else {"error": 1})}
        return self.open(f"/attach/{NAMESPACE}/{pod}/{container}?{urlencode(expected)}", V4)

    def open_port(self, pod: str, port: int) -> WebSocket:
        """A connection to a port in a pod: bytes on channel 0, errors on channel 1."""
        return self.open(f"/portForward/{NAMESPACE}/{pod}?{urlencode({'port': port})}", V4)

    def open(self, target: str, *protocols: str) -> WebSocket:
        """A websocket to that path."""
        plain = socket.create_connection((self.address, self.port), timeout=TIMEOUT_S)
        try:
            connection = self._tls.wrap_socket(plain, server_hostname=self.address)
        except BaseException:
            plain.close()
            raise
        return WebSocket(connection, f"{self.address}:{self.port}", target, *protocols)


def collect(stream: WebSocket) -> Executed:
    """Read until the server says how the command ended."""
    streams = {STDOUT: b"", STDERR: b"", ERROR: b""}
    while (message := stream.receive()) is not None:
        channel, data = message
        streams[channel] += data
    return Executed(streams[STDOUT], streams[STDERR], _exit_code(streams[ERROR]))


def _exit_code(status: bytes) -> int:
    """The exit code in a metav1.Status; an error of another kind is an AnswerError."""
    assert status, "the stream ended without a status"
    document = json.loads(status)
    if document["status"] == "Success":
        return 0
    causes = (document.get("details") or {}).get("causes", [])
    codes = [int(cause["message"]) for cause in causes if cause["reason"] == "ExitCode"]
    if not codes:
        raise AnswerError("exec", int(document.get("code", 0)), str(document.get("message", status)))
    return codes[0]
