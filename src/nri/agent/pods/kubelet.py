"""Pods from the kubelet of this node: its own list, asked for again and again over HTTPS.

The list is the kubelet's view: it has static pods under the uid that their folders have, and changes of the apiserver
as soon as the kubelet has seen them. Rules: every answer has a deadline and a bound; the token is read again each time,
because it is rotated in its file. Next: `nri.agent.pods.cri`.
"""

from __future__ import annotations

import http.client
import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from nri.agent.pods.source import Known, KnownPods, Pod, without_ours
from nri.agent.settings.kubelet_address import KubeletAddress, kubelet_address
from nri.agent.worker import Worker
from nri.config.syntax import parse_json
from nri.errors import ConfigError
from nri.files import read_regular
from nri.text import plain

if TYPE_CHECKING:
    from nri.agent.settings import AgentSettings

__all__ = ["KubeletPods", "pods_of"]

_log = logging.getLogger(__name__)
_TOKEN_BYTES = 1 << 16
_ACCOUNT_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105  a path
_PATH = "/pods"
#: Bytes of an answer.
MOST_BYTES = 64 << 20
#: One read of the connection, and a whole answer, in seconds.
READ_S, ANSWER_S = 5.0, 15.0
_TOO_LATE = "the answer takes too long"


class KubeletPods(KnownPods):
    """The source of pods that asks the kubelet.

    Args:
        settings: `pods.kubelet`, `pods.kubelet_token`, `pods.kubelet_ca` and `pods.interval` are read.

    Raises:
        ConfigError: the file of the CA cannot be used.
    """

    def __init__(self, settings: AgentSettings) -> None:
        super().__init__(Known())
        where = kubelet_address(settings.pods.kubelet)
        self._host, self._port = where.host, where.port
        self._tls = _context(settings.pods.kubelet_ca, where) if where.tls else None
        self._token = settings.pods.kubelet_token or (_ACCOUNT_TOKEN if os.path.exists(_ACCOUNT_TOKEN) else "")
        if self._token and not settings.pods.kubelet_ca:
            _log.warning("pods.kubelet_ca is not set: the token goes to whatever listens at %s", settings.pods.kubelet)
        self._worker = Worker("pods of the kubelet", lambda _: self.ask(), settings.pods.interval)

    def start(self) -> None:
        """Begin to ask, in a thread of its own."""
        self._worker.start()

    def stop(self) -> None:
        """Ask no longer; what is known stays known."""
        self._worker.stop()

    def ask(self) -> None:
        """Ask once."""
        try:
            pods = pods_of(self._answer())
        except (OSError, http.client.HTTPException, ValueError) as error:
            words = plain(str(error) or type(error).__name__, 300)
            self._known.failed(f"the kubelet at {self._host}:{self._port}: {words}")
            return
        self._known.failed("")
        self._known.replace(pods)

    def _answer(self) -> bytes:
        """The body of the answer. OSError, HTTPException or ValueError if there is none that can be used."""
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {_token(self._token)}"
        deadline = time.monotonic() + ANSWER_S
        connection: http.client.HTTPConnection
        if self._tls is None:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=READ_S)
        else:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=READ_S, context=self._tls)
        try:
            connection.connect()
            with _ending(connection.sock):
                connection.request("GET", _PATH, headers=headers)
                answer = connection.getresponse()
                if answer.status != 200:
                    hint = {401: "is the token good?", 403: "see nri-agent-kubelet in deploy/agent/rbac.yaml"}
                    raise ValueError(f"HTTP {answer.status} {hint.get(answer.status, '')}".strip())
                parts, size = [], 0
                while part := answer.read1(1 << 16):
                    parts.append(part)
                    size += len(part)
                    if size > MOST_BYTES:
                        raise ValueError(f"the answer is bigger than {MOST_BYTES} bytes")
                    if time.monotonic() > deadline:
                        raise TimeoutError(_TOO_LATE)
                return b"".join(parts)
        except (OSError, http.client.HTTPException):
            if time.monotonic() > deadline:
                raise TimeoutError(_TOO_LATE) from None
            raise
        finally:
            connection.close()


@contextmanager
def _ending(connection: socket.socket) -> Iterator[None]:
    """End a connection when its time is over: the timeout of each read ends no head of an answer that trickles."""
    with socket.socket(fileno=os.dup(connection.fileno())) as again:

        def end() -> None:
            with suppress(OSError):  # it has ended by itself
                again.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(ANSWER_S, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


def _token(path: str) -> str:
    """The token in a file. ValueError for one that no header can hold, because http.client's error has it in it."""
    found = read_regular(path, _TOKEN_BYTES).decode().strip()
    if not (found.isascii() and found.isprintable()):
        raise ValueError(f"{path} holds no token: it is not one line of text")
    return found


def _context(ca: str, where: KubeletAddress) -> ssl.SSLContext:
    """TLS that checks the kubelet by a CA, if there is one.

    A kubelet's certificate is made out to the node, never to the loopback address, so there only the CA is checked.
    """
    try:
        context = ssl.create_default_context(cafile=ca or None)
    except (OSError, ValueError) as error:
        raise ConfigError(ca, "", f"it cannot be used as a CA: {error}") from None
    if not ca or where.loopback:
        context.check_hostname = False
    if not ca:
        context.verify_mode = ssl.CERT_NONE
    return context


def pods_of(data: bytes) -> list[Pod]:
    """Return the pods of the kubelet's answer; ValueError if it is none."""
    found = parse_json(data)
    items: Any = found.get("items", "") if isinstance(found, dict) else ""
    if items is None:  # the kubelet's word for no pods
        return []
    if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
        raise ValueError("the answer is not a list of pods")
    pods = [each for each in items if isinstance(each.get("metadata"), dict)]
    for each in pods:
        without_ours(each)
    return pods
