"""Admission reviews over HTTPS: bounded in number, length and time, and with the certificate that is there now.

One job: :class:`Webhook`. A request without a body, or a probe of the kubelet, is answered as alive; what is no review
gets a status of HTTP, and the apiserver's `failurePolicy` decides. A certificate that an apiserver would not take is
told, and served all the same: it may be replaced. Next: `nri.kube.admission`, which answers.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import ssl
import stat
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any

from nri.errors import ConfigError, NriError
from nri.files import read_regular
from nri.kube.admission import answer
from nri.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MOST_BYTES", "Webhook"]

_log = logging.getLogger("nri.resource-annotator")

#: An apiserver takes objects of 3 MiB at most, and sends two of them with an update.
MOST_BYTES = 8 << 20
MOST_AT_ONCE = 32
#: For each read and write, in seconds; an apiserver waits for ten.
PATIENCE_S = 10.0
#: For a request, from the end of the one before it to the end of its answer.
WHOLE_S = 2.5 * PATIENCE_S
JSON, PROBE = "application/json", "application/liveness-probe"
_STATUS = {"status": "Success", "message": "liveness probe response"}
ALIVE = {"response": {"uid": "", "allowed": False, "status": _STATUS}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE_S

    def handle_one_request(self) -> None:
        """Serve one request; a client that sends it byte by byte is cut off in the end."""
        timer = threading.Timer(WHOLE_S, _cut, (self.connection,))
        timer.daemon = True
        timer.start()
        try:
            super().handle_one_request()
        finally:
            timer.cancel()

    def do_GET(self) -> None:
        self._send(200, ALIVE)

    def do_POST(self) -> None:
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip()
        length = self.headers.get("Content-Length", "")
        if kind == PROBE:
            self._send(200, ALIVE)
        elif kind != JSON:
            self._refuse(415, f"expected {JSON}, not {kind[:80]}")
        elif not (length.isascii() and length.isdigit() and len(length) <= 12) or int(length) > MOST_BYTES:
            self._refuse(413, f"expected a body of {MOST_BYTES} bytes at most, with its length")
        else:
            try:
                found = answer(self.rfile.read(int(length)))
            except ValueError as error:
                self._refuse(400, str(error))
                return
            if found.said:
                _log.warning("%s", plain(found.said))
            self._send(200, found.review)

    def _refuse(self, status: int, words: str) -> None:
        _log.warning("request refused: %s", plain(words))
        self.close_connection = True  # its body was not read
        self._send(status, {"error": words})

    def _send(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", JSON)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def version_string(self) -> str:
        return "nri"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        _log.debug(format, *args)


def _cut(connection: socket.socket) -> None:
    """End a connection under those who read from it; one that has ended is none."""
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class Webhook(ThreadingHTTPServer):
    """Serves from `start` to `stop`.

    Args:
        port: 0 takes any; all addresses are listened on.
        certificate, key: files of PEM, read again when they change.

    Raises:
        ConfigError: they cannot be used.
        NriError: the port cannot be listened on.
    """

    daemon_threads = True
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    request_queue_size = 128

    def __init__(self, port: int, certificate: str, key: str) -> None:
        self._files = (certificate, key)
        self._seen = self._stamp()
        self._context = self._load()
        self._places = threading.BoundedSemaphore(MOST_AT_ONCE)
        try:
            super().__init__(("", port), _Handler)
        except OSError as error:
            raise NriError(f"cannot listen on port {port}: {error.strerror or error}") from None

    def start(self) -> None:
        """Serve, in a thread of its own."""
        threading.Thread(target=self.serve_forever, name="nri-webhook", daemon=True).start()

    def stop(self) -> None:
        """Stop serving; what is not answered by the end of the process, the apiserver's `failurePolicy` decides."""
        self.shutdown()
        self.server_close()

    def server_bind(self) -> None:
        """Listen on all addresses of both families, and ask no name server about them."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "", self.socket.getsockname()[1]

    def get_request(self) -> tuple[Any, Any]:
        """A connection; its handshake is left to the thread that reads from it."""
        self._reload()
        made, address = super().get_request()
        made.settimeout(PATIENCE_S)
        return self._context.wrap_socket(made, server_side=True, do_handshake_on_connect=False), address

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection, when there is a place for it."""
        self._places.acquire()  # given back by its thread
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread can be started for it
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def shutdown_request(self, request: Any) -> None:
        """Close a connection that may have ended in the middle of its handshake."""
        try:
            super().shutdown_request(request)
        except (OSError, ValueError):
            request.close()

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        """Tell of a connection that failed, in one line."""
        error = sys.exc_info()[1]
        if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
            step = "is it for the name of the service, and has the webhook's configuration the caBundle that signed it?"
            _log.warning("%s does not take the certificate (%s): %s", client_address[0], error.reason, step)
        else:
            _log.info("connection of %s: %s", client_address[0], plain(str(error)))

    def _stamp(self) -> tuple[Any, ...]:
        try:
            return tuple((found.st_mtime_ns, found.st_ino) for found in map(os.stat, self._files))
        except OSError:
            return ()

    def _load(self) -> ssl.SSLContext:
        """What connections are served with; one that is in use is not touched, for it would lose its key."""
        certificate, key = self._files
        flags = {"--cert-file": (certificate, "certificate"), "--key-file": (key, "private key")}
        for flag, (path, what) in flags.items():
            try:
                text = read_regular(path, MOST_BYTES).decode("ascii", "replace")
            except OSError as error:
                raise ConfigError("command line", flag, f"{path} cannot be read: {error.strerror or error}") from None
            if f"{what.upper()}-----" not in text:
                raise ConfigError("command line", flag, f"{path} holds no {what} in PEM")
            if "ENCRYPTED" in text:
                step = f"write it without: openssl pkey -in {path} -out FILE"
                raise ConfigError(
                    "command line", flag, f"{path} has a pass phrase, and nobody is here to type it", step
                )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(certificate, key)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                reason, step = f"{key} is not the key of {certificate}", "give the two that were made together"
                raise ConfigError("command line", "--key-file", reason, step) from None
            reason = f"{certificate} with {key} cannot be used: {error}"
            raise ConfigError("command line", "--cert-file", reason) from None
        for doubt in _doubts(context, certificate, key):
            _log.warning("%s", doubt)
        return context

    def _reload(self) -> None:
        """Take a certificate that was replaced; one that cannot be used leaves the one before."""
        now = self._stamp()
        if now != self._seen:
            self._seen = now
            try:
                self._context = self._load()
                _log.info("the certificate was read again")
            except (ConfigError, OSError) as error:
                self._seen = () if isinstance(error, OSError) else now  # of a lack of descriptors: the next one tries
                _log.warning("the certificate stays what it was: %s", error)


def _doubts(context: ssl.SSLContext, certificate: str, key: str) -> Iterator[str]:
    """Why an API server may refuse a certificate, and who else could use its key."""
    if os.stat(key).st_mode & stat.S_IROTH:
        yield f"{key} can be read by all users of this machine: chmod o-r"
    try:
        names = _names(context, certificate)
    except ssl.SSLError as error:
        yield f"{certificate}: an API server will refuse it: {getattr(error, 'verify_message', error)}; renew it"
    else:
        if not names:
            yield f"{certificate} has no subjectAltName, and API servers look at no other name: make it with one"


def _names(context: ssl.SSLContext, certificate: str) -> Any:
    """The names of a certificate, of which a client that trusts it makes sure that it holds today. Raises SSLError."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    trusting.load_verify_locations(certificate)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(back, there)
    server = context.wrap_bio(there, back, server_side=True)
    for side in (client, server, client, server, client):  # the last two up to TLS 1.2
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return (client.getpeercert() or {}).get("subjectAltName")
