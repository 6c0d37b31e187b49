"""Pods from this node's kubelet, polled over HTTPS.

The kubelet lists static pods with the uid of their cgroups. Each reply is limited in time and size. The token is
read again for each request, because the file gets a new token from time to time.
"""

from __future__ import annotations

import http.client
import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from nri.agent.pods.manifest import key_of, uid_of
from nri.agent.pods.source import KnownPods, PodList
from nri.agent.settings.kubelet_address import KubeletAddress, kubelet_address
from nri.agent.worker import Worker
from nri.config.syntax import parse_json
from nri.errors import ConfigError
from nri.files import read_regular
from nri.kube.decoder import Pod, make_decoder
from nri.kube.lists import ListSplitter
from nri.kube.object_cache import Key, ObjectCache
from nri.text import plain
from nri.user_agent import user_agent

if TYPE_CHECKING:
    from nri.agent.settings import AgentSettings

_log = logging.getLogger(__name__)
#: The maximum size of a token file.
_TOKEN_BYTES = 1 << 16
_ACCOUNT_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105  a path
_PATH = "/pods"
#: The maximum size of a reply, which is parsed as a stream.
MAX_LIST_BYTES = 512 << 20
#: The maximum time of one read from the connection, in seconds.
READ_S = 5.0
#: The maximum time of a whole reply, in seconds.
ANSWER_S = 15.0
_TOO_LATE = "the reply takes too long"


class KubeletPods(KnownPods):
    """The source of pods that polls the kubelet.

    Args:
        settings: `pods.kubelet`, `pods.kubelet_token`, `pods.kubelet_ca` and `pods.interval` are read.

    Raises:
        ConfigError: the CA file is unusable.
    """

    def __init__(self, settings: AgentSettings) -> None:
        super().__init__(PodList())
        where = kubelet_address(settings.pods.kubelet)
        self._host, self._port = where.host, where.port
        self._tls = _context(settings.pods.kubelet_ca, where) if where.tls else None
        self._token = settings.pods.kubelet_token or (_ACCOUNT_TOKEN if os.path.exists(_ACCOUNT_TOKEN) else "")
        if self._token and not settings.pods.kubelet_ca:
            _log.warning("pods.kubelet_ca is not set: any program at %s can get the token", settings.pods.kubelet)
        self._worker = Worker("pods from the kubelet", lambda _: self.ask(), settings.pods.interval)

    def start(self) -> None:
        """Start to poll, in a separate thread."""
        self._worker.start()

    def stop(self) -> None:
        """Stop polling. Known pods are kept."""
        self._worker.stop()

    def ask(self) -> None:
        """List the pods once."""
        try:
            pods = pods_of(self._reply_body())
        except (OSError, http.client.HTTPException, ValueError) as error:
            words = plain(str(error) or type(error).__name__, 300)
            self._pod_list.failed(f"the kubelet at {self._host}:{self._port}: {words}")
            return
        self._pod_list.failed("")
        if pods.problem != self.left_out:
            _log.warning("pods from the kubelet: %s", pods.problem or "all pods are listed again")
        self.left_out = pods.problem
        self._pod_list.replace(pods.objects.values())

    def _reply_body(self) -> Iterator[bytes]:
        """Yield the body of the reply. Raises OSError, HTTPException or ValueError if the reply is unusable."""
        headers = {"Accept": "application/json", "User-Agent": user_agent()}
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
            with _limited_time(connection.sock):
                connection.request("GET", _PATH, headers=headers)
                answer = connection.getresponse()
                if answer.status != 200:
                    hint = {401: "check the token", 403: "see nri-agent-kubelet in deploy/agent/rbac.yaml"}
                    raise ValueError(f"HTTP {answer.status} {hint.get(answer.status, '')}".strip())
                size = 0
                while part := answer.read1(1 << 16):
                    size += len(part)
                    if size > MAX_LIST_BYTES:
                        raise ValueError(f"the reply is larger than {MAX_LIST_BYTES} bytes")
                    if time.monotonic() > deadline:
                        raise TimeoutError(_TOO_LATE)
                    yield part
        except (OSError, http.client.HTTPException):
            if time.monotonic() > deadline:
                raise TimeoutError(_TOO_LATE) from None
            raise
        finally:
            connection.close()


@contextmanager
def _limited_time(connection: socket.socket) -> Iterator[None]:
    """Close the connection after `ANSWER_S`: the timeout of each read does not limit a header that arrives slowly."""
    with socket.socket(fileno=os.dup(connection.fileno())) as duplicate:

        def end() -> None:
            with suppress(OSError):  # already closed
                duplicate.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(ANSWER_S, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


def _token(path: str) -> str:
    """Return the token in a file. Raises ValueError if it cannot be in a header; http.client's error would quote it."""
    token = read_regular(path, _TOKEN_BYTES).decode().strip()
    if not (token.isascii() and token.isprintable()):
        raise ValueError(f"{path} does not contain a token: the file must be one line of text")
    return token


def _context(ca: str, where: KubeletAddress) -> ssl.SSLContext:
    """Return a TLS context that verifies the kubelet's certificate if a CA is configured.

    The certificate names the node, never a loopback address. At a loopback address only the CA is verified.
    """
    try:
        context = ssl.create_default_context(cafile=ca or None)
    except (OSError, ValueError) as error:
        raise ConfigError(ca, "", f"not usable as a CA: {error}") from None
    if not ca or where.loopback:
        context.check_hostname = False
    if not ca:
        context.verify_mode = ssl.CERT_NONE
    return context


def pods_of(answer: Iterable[bytes]) -> ObjectCache:
    """Read the pods of the kubelet's reply. Raises ValueError if the reply is not a list of pods.

    Pods that are too large, or that exceed the limit of the total size, are left out.
    """
    splitter, decode, pods = ListSplitter(), make_decoder(Pod), ObjectCache()
    for part in answer:
        for item in splitter.feed(part):
            pods.take(item, decode, _key_of)
    frame = parse_json(splitter.end())
    items = frame.get("items", "") if isinstance(frame, dict) else ""
    if items is not None and not isinstance(items, list):
        raise ValueError("the reply is not a list of pods")
    return pods


def _key_of(pod: dict[str, Any]) -> Key:
    """Return namespace, name and uid: a static pod that was changed is listed twice for a while."""
    return (*key_of(pod).split("/", 1), uid_of(pod))
