"""Serve admission reviews over HTTPS, limited in number, length and time, with a certificate that may be replaced.

If an API server would refuse the certificate, a warning is logged and the server still starts, because the certificate
may be replaced.
"""

from __future__ import annotations

import ctypes
import logging
import resource
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from nri.plugins.resource_annotator.admission import answer
from nri.service.certificates import CertificateFiles, ServerCertificate, certificate_names
from nri.service.http import Answer, Server, TcpSettings, json_answer
from nri.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_log = logging.getLogger("nri.resource-annotator")
#: The log of messages that clients cause, because any pod of the cluster can cause them at any rate.
_client_log = logging.getLogger("nri.resource-annotator.clients")

#: Maximum size of a request. An API server accepts objects of 3 MiB, and sends two objects with an update.
MAX_BODY_BYTES = 8 << 20
MAX_REQUESTS = 32
#: Maximum number of connections that have not sent a request yet. Each needs a file descriptor; a new connection
#: replaces the oldest.
MAX_SILENT = 4096
#: Maximum duration of a request and its answer; an API server waits 10 s.
DEADLINE_S = 10.0
_ALL_ADDRESSES = "[::]" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104 - a service of the cluster
MAX_CLIENT_MESSAGES_PER_MINUTE = 60
#: Larger blocks of memory, such as bodies of requests, return to the system when they are freed.
_MMAP_THRESHOLD_BYTES = 256 << 10
_M_MMAP_THRESHOLD = -3
_REVIEW, _PROBE = "application/json", "application/liveness-probe"
_STATUS = {"status": "Success", "message": "liveness probe response"}
_ALIVE = {"response": {"uid": "", "allowed": False, "status": _STATUS}}


class Webhook:
    """An HTTPS server that runs from its construction to `stop`.

    Args:
        port: the port on all addresses; 0 chooses a free port.
        certificate: PEM file of the certificate; it is read again when it changes.
        key: PEM file of the private key; it is read again when it changes.

    Raises:
        ConfigError: the files cannot be used.
        NriError: the port cannot be listened on.
    """

    def __init__(self, port: int, certificate: str, key: str) -> None:
        _return_large_blocks()
        self._message_limit = _MessageLimit()
        _client_log.addFilter(self._message_limit)
        files = CertificateFiles(certificate, key, "command line", ("--cert-file", "--key-file", ""))
        self._certificate = ServerCertificate(files, _log, _doubts)
        self._server = Server(
            public={"/": _liveness_answer},
            address=f"{_ALL_ADDRESSES}:{port}",
            deadline_s=DEADLINE_S,
            tcp=TcpSettings(
                _review,
                MAX_BODY_BYTES,
                MAX_REQUESTS,
                _max_silent(),
                tls=self._certificate.context,
                on_tls_error=log_tls_error,
            ),
        )
        self.port = self._server.port

    def stop(self) -> None:
        """Stop serving; the API server's `failurePolicy` decides about requests that are not answered."""
        self._server.close()
        _client_log.removeFilter(self._message_limit)


def _liveness_answer(_: Mapping[str, str]) -> Answer:
    return json_answer(_ALIVE)


def _review(fields: Mapping[str, str], body: bytes) -> Answer:
    """Answer a POST request."""
    kind = fields.get("content-type", "").partition(";")[0].strip()
    if kind == _PROBE:
        return json_answer(_ALIVE)
    if kind != _REVIEW:
        return _refusal(415, f"Content-Type is {kind[:80] or 'missing'}; it must be {_REVIEW}")
    try:
        admission = answer(body)
    except ValueError as error:
        return _refusal(400, str(error))
    if admission.warning:
        _client_log.warning("%s", plain(admission.warning))
    return json_answer(admission.review)


def _refusal(status: int, reason: str) -> Answer:
    _client_log.warning("request refused: %s", plain(reason))
    return json_answer({"error": reason}, status)


def log_tls_error(address: str, error: OSError) -> None:
    """Log a failed TLS handshake with a client, and checks to make if the client refused the certificate."""
    if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
        step = "check that it is for the service's name, and that the caBundle in the webhook's configuration signed it"
        _client_log.warning("%s refuses the certificate (%s): %s", address, error.reason, step)
    else:
        _client_log.info("TLS handshake with %s failed: %s", address, plain(str(error)))


class _MessageLimit(logging.Filter):
    """Drops messages above a number per minute, and adds the number of dropped messages to the next message."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._minute, self._count = 0, 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a message is written."""
        minute = int(time.monotonic() // 60)
        with self._lock:
            dropped = 0
            if minute != self._minute:
                dropped = self._count - MAX_CLIENT_MESSAGES_PER_MINUTE
                self._minute, self._count = minute, 0
            self._count += 1
            count = self._count
        if dropped > 0:
            record.msg, record.args = f"{record.getMessage()} ({dropped} messages about clients were dropped)", ()
        return count <= MAX_CLIENT_MESSAGES_PER_MINUTE


def _return_large_blocks() -> None:
    """Keep glibc from holding freed bodies in a pool per thread. Other C libraries have no `mallopt`."""
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)


def _max_silent() -> int:
    """Raise this process's limit of file descriptors. Returns the number of silent connections that it permits."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # a soft limit may be all that is allowed
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_SILENT if soft == resource.RLIM_INFINITY else max(min(MAX_SILENT, soft - 256), 64)


def _doubts(context: ssl.SSLContext, certificate: str, _: str) -> Iterator[str]:
    """Yield the reasons why an API server may refuse a certificate."""
    try:
        names = certificate_names(context, certificate)
    except ssl.SSLError as error:
        yield f"{certificate}: API servers will refuse it: {getattr(error, 'verify_message', error)}; renew it"
    else:
        if not names:
            yield f"{certificate} has no subjectAltName, the only name that API servers check; create it again with one"
