"""A small HTTP server: a unix socket for root, and a TCP address for probes, Prometheus and admission reviews.

Each connection carries one request of limited length, which is answered in limited time. A connection gets a thread
only after its first byte has arrived. Streams last longer and have a separate limit; slow readers are disconnected.
Clients of the unix socket must run as root or as the server's user.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import selectors
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from nri.errors import NriError
from nri.service.connections import WAIT_S, Connection, Connections
from nri.unix import UnixListener, credentials, make_folder

if TYPE_CHECKING:
    import ssl

_log = logging.getLogger(__name__)

#: The maximum size of the request line and headers.
_MAX_HEAD_BYTES: Final = 8192
#: The maximum number of requests that are answered at the same time on each listening socket.
MAX_CONCURRENT_REQUESTS: Final = 8
#: The maximum number of connections that have sent no byte yet; a further connection closes the oldest of them.
MAX_SILENT: Final = 128
#: The maximum number of streams at the same time; each has a thread for as long as its client reads.
MAX_STREAMS: Final = 8
#: The number of connections that the kernel queues before `accept`; further clients retry after a second.
_BACKLOG: Final = 512
_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")
#: The default time in seconds for a request and its response together.
_DEADLINE_S: Final = 5.0
_REASON_PHRASES: Final = {
    200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    413: "Content Too Large", 415: "Unsupported Media Type", 429: "Too Many Requests",
    500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip

#: Status code, content type and content of a response.
Answer = tuple[int, str, bytes]
#: Answers a request, given its query parameters; of several parameters with one name, the last is used.
Handler = Callable[[Mapping[str, str]], Answer]
#: Answers a POST request, given its headers by lower-case name and its body.
BodyHandler = Callable[[Mapping[str, str], bytes], Answer]
#: Yields server-sent events, given the query parameters of a request; each event is sent immediately.
Stream = Callable[[Mapping[str, str]], Generator[bytes]]
#: Returns the response that refuses a request, or None to permit it, given its path and headers by lower-case name.
Guard = Callable[[str, Mapping[str, str]], Answer | None]


def text_answer(text: str, status: int = 200) -> Answer:
    """Return a response with plain text."""
    return status, "text/plain; charset=utf-8", text.encode("utf-8", "replace")


def json_answer(value: Any, status: int = 200) -> Answer:
    """Return a response with JSON in ASCII."""
    return status, "application/json", json.dumps(value).encode()


class TcpSettings(NamedTuple):
    """The settings of the TCP address: limits, TLS, and the handler of POST requests.

    Attributes:
        handler: answers POST requests on every path, one at a time; None refuses them.
        max_body_bytes: the limit of one request body. All request bodies together may have three times this size, and
            all request bodies from one address twice this size.
        max_requests: the maximum number of requests over TCP at the same time.
        max_silent: the maximum number of TCP connections that have sent no byte; a further connection closes the oldest
            of them.
        tls: returns the TLS context for a new TCP connection; None serves plain HTTP.
        on_tls_error: called with the client's address and the error when a TLS handshake fails.
    """

    handler: BodyHandler | None = None
    max_body_bytes: int = 0
    max_requests: int = MAX_CONCURRENT_REQUESTS
    max_silent: int = MAX_SILENT
    tls: Callable[[], ssl.SSLContext] | None = None
    on_tls_error: Callable[[str, OSError], None] | None = None


class Server:
    """A server that listens from its creation until `close`.

    Args:
        private: handlers by path for the unix socket.
        path: the path of the unix socket; a missing folder is created. "" means no unix socket.
        public: handlers by path for TCP, for all processes that can connect.
        address: HOST:PORT for TCP; "" means no TCP. Port 0 selects a free port.
        streams: streams by path for TCP. An idle stream must yield an empty event every second.
        deadline_s: the time for one request and its response together.
        guard: checks every request over TCP before its handler is called.
        headers: added to every response over TCP.
        tcp: limits, TLS, and the handler of POST requests; None means the defaults of `TcpSettings`.

    Raises:
        NriError: the server cannot listen on the socket or the address.
    """

    def __init__(  # noqa: PLR0913 - options, by name
        self,
        private: Mapping[str, Handler] | None = None,
        *,
        path: str = "",
        public: Mapping[str, Handler] | None = None,
        address: str = "",
        streams: Mapping[str, Stream] | None = None,
        deadline_s: float = _DEADLINE_S,
        guard: Guard | None = None,
        headers: Mapping[str, str] | None = None,
        tcp: TcpSettings | None = None,
    ) -> None:
        self._guard = guard
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        # Keys of these dictionaries: whether a connection is trusted, because it uses the unix socket.
        self._handlers_by_trust = {True: private or {}, False: public or {}}
        self._streams = streams or {}
        self._stream_slots = threading.Semaphore(MAX_STREAMS)
        self._deadline_s = deadline_s
        self._tcp_settings = tcp or TcpSettings()
        # Separate limits, so that TCP clients cannot block root on the unix socket.
        over_tcp = Connections(self._tcp_settings.max_requests, 3 * self._tcp_settings.max_body_bytes)
        self._connections_by_trust = {True: Connections(MAX_CONCURRENT_REQUESTS), False: over_tcp}
        self._closing = False
        self._wakers: list[socket.socket] = []
        self._unix: UnixListener | None = None
        self._tcp: socket.socket | None = None
        try:
            if path:
                make_folder(path, 0o700)
                self._unix = UnixListener(path, mode=0o600)
            if address:
                self._tcp = _listen(address)
        except OSError as error:
            self.close()
            where = path if self._unix is None and path else address
            in_use = "another process listens there; stop it, or choose another address"
            reason = in_use if error.errno == errno.EADDRINUSE else error.strerror or error
            raise NriError(f"cannot listen on {where}: {reason}") from None
        for listener, trusted in self._listeners():
            threading.Thread(target=self.accept, args=(listener, trusted), name="nri-http", daemon=True).start()

    @property
    def port(self) -> int:
        """The TCP port; 0 if the server does not listen on TCP."""
        return 0 if self._tcp is None else int(self._tcp.getsockname()[1])

    def close(self) -> None:
        """Stop listening. Running requests are still answered. Calling it again has no effect."""
        self._closing = True
        for waker in self._wakers:
            waker.close()
        if self._unix is not None:
            self._unix.close()
        if self._tcp is not None:
            self._tcp.close()

    def _listeners(self) -> list[tuple[socket.socket, bool]]:
        """Return the listening sockets, each with True if its connections are trusted."""
        unix = [] if self._unix is None else [(self._unix.socket, True)]
        return unix if self._tcp is None else [*unix, (self._tcp, False)]

    def accept(self, listener: socket.socket, trusted: bool) -> None:
        """Serve the connections of a listening socket until it is closed.

        Trusted connections get the handlers for root.
        """
        # Both dictionaries are in order of arrival and hold the deadline of each connection.
        silent: dict[socket.socket, tuple[Connection, float]] = {}  # no byte received yet
        waiting: dict[Connection, float] = {}  # a byte received; they wait for a slot
        woken, waker = socket.socketpair()
        waker.setblocking(False)
        self._wakers.append(waker)  # woken by `close`, because closing the listener does not wake this thread
        self._connections_by_trust[trusted].on_room = partial(_wake_loop, waker)
        with selectors.DefaultSelector() as selector, woken, waker, ExitStack() as stack:
            stack.callback(_close_all, silent)
            stack.callback(_close_all, waiting)
            selector.register(woken, selectors.EVENT_READ, None)
            try:
                listener.setblocking(False)
                selector.register(listener, selectors.EVENT_READ)
            except (OSError, ValueError):
                return  # the server was closed before this thread began
            while not self._closing:
                deadlines = [*(deadline for _, deadline in islice(silent.values(), 1)), *islice(waiting.values(), 1)]
                for key, _ in selector.select(max(min(deadlines) - time.monotonic(), 0.0) if deadlines else None):
                    connection = key.data
                    if connection is not None:
                        if silent.pop(connection.socket, None) is not None:
                            selector.unregister(connection.socket)
                            waiting[connection] = time.monotonic() + WAIT_S
                            if len(waiting) > max(self._tcp_settings.max_silent // 4, MAX_CONCURRENT_REQUESTS):
                                _close_first(waiting)
                    elif key.fileobj is woken:
                        woken.recv(4096)
                    elif not self._accept_one(listener, selector, silent):
                        return
                self._serve_waiting(waiting, trusted)
                while silent and next(iter(silent.values()))[1] <= time.monotonic():
                    _close_oldest(selector, silent)
                while waiting and next(iter(waiting.values())) <= time.monotonic():
                    _close_first(waiting)

    def _accept_one(
        self,
        listener: socket.socket,
        selector: selectors.BaseSelector,
        silent: dict[socket.socket, tuple[Connection, float]],
    ) -> bool:
        """Accept a connection and wait for its first byte. Returns False if the listening socket is closed."""
        try:
            sock, address = listener.accept()
        except BlockingIOError:
            return True  # the client has disconnected in the meantime
        except OSError as error:
            if self._closing or listener.fileno() < 0:
                return False
            if silent and error.errno in (errno.EMFILE, errno.ENFILE):
                _close_oldest(selector, silent)
                return True
            _log.warning("cannot accept a connection: %s", error)
            time.sleep(0.1)  # usually a lack of file descriptors, which is temporary
            return True
        if len(silent) >= self._tcp_settings.max_silent:
            _close_oldest(selector, silent)
        connection = Connection(sock, str(address[0]) if isinstance(address, tuple) else "")
        silent[sock] = connection, time.monotonic() + self._deadline_s
        selector.register(sock, selectors.EVENT_READ, connection)
        return True

    def _serve_waiting(self, waiting: dict[Connection, float], trusted: bool) -> None:
        """Serve waiting connections, each in a separate thread, up to the limit."""
        connections = self._connections_by_trust[trusted]
        while (connection := connections.enter(waiting)) is not None:
            del waiting[connection]
            try:
                if self._tcp_settings.tls is not None and not trusted:
                    # The socket is replaced before the thread starts, which then does the handshake.
                    connection.socket = self._tcp_settings.tls().wrap_socket(
                        connection.socket, server_side=True, do_handshake_on_connect=False
                    )
                threading.Thread(target=self._serve, args=(connection, trusted), name="nri-http", daemon=True).start()
            except (OSError, ValueError, RuntimeError) as error:
                if isinstance(error, RuntimeError):  # no thread can be started; at other errors the client is gone
                    _log.warning("cannot serve a connection: %s", error)
                connections.leave(connection)
                connection.socket.close()

    def _serve(self, connection: Connection, trusted: bool) -> None:
        sock, connections = connection.socket, self._connections_by_trust[trusted]
        try:
            with sock:
                deadline = time.monotonic() + self._deadline_s
                if self._tcp_settings.tls is not None and not trusted:
                    self._shake_hands(connection, deadline)
                head, received = _read_head(sock, deadline)
                body = b""
                if head.startswith(b"POST ") and self._tcp_settings.handler is not None and not trusted:
                    body = self._read_body(connection, head, received, deadline)
                if not connections.start_answer(connection):
                    return
                answer = self._answer_to(head, body, connection, trusted)
                if not isinstance(answer, tuple):
                    connections.leave(connection)
                    self._stream(sock, answer)
                    return
                connections.finish_answer(connection)
                _send(sock, answer, deadline, "" if trusted else self._headers, body=not head.startswith(b"HEAD "))
        except OSError:
            pass  # the client disconnected, or was too slow
        except Exception:  # noqa: BLE001 - an error in one request must not affect others
            _log.exception("a request could not be answered")
        finally:
            connections.leave(connection)

    def _shake_hands(self, connection: Connection, deadline: float) -> None:
        """Do the TLS handshake. Raises OSError if it fails."""
        sock = connection.socket
        try:
            sock.settimeout(_remaining_s(deadline))
            sock.do_handshake()  # type: ignore[attr-defined]  # `_serve_waiting` has made it an SSLSocket
        except OSError as error:
            if self._tcp_settings.on_tls_error is not None:
                self._tcp_settings.on_tls_error(connection.address, error)
            raise

    def _read_body(self, connection: Connection, head: bytes, received: bytes, deadline: float) -> bytes:
        """Read the body of a request; b"" if its length is not allowed. Raises OSError if the body is incomplete."""
        length, connections = max(self._body_length(head), 0), self._connections_by_trust[False]
        body = bytearray(received[:length])
        chunk = bytes(body)
        while True:
            if not connections.charge(connection, len(chunk)):
                raise ConnectionAbortedError
            if len(body) >= length:
                return bytes(body)
            connection.socket.settimeout(_remaining_s(deadline))
            chunk = connection.socket.recv(min(1 << 16, length - len(body)))
            if not chunk:
                raise ConnectionAbortedError
            body += chunk

    def _body_length(self, head: bytes) -> int:
        """Return the length of a request's body, or -1 if the length is missing, invalid or too large."""
        length = _fields(head).get("content-length", "")
        is_number = length.isascii() and length.isdecimal() and len(length) <= 12
        return int(length) if is_number and int(length) <= self._tcp_settings.max_body_bytes else -1

    def _stream(self, sock: socket.socket, parts: Generator[bytes]) -> None:
        """Send the events of a stream, each with a deadline, until the stream or the server ends."""
        if not self._stream_slots.acquire(blocking=False):
            full = text_answer(f"{MAX_STREAMS} clients are already connected: close one first\n", 503)
            _send(sock, full, time.monotonic() + self._deadline_s, self._headers, body=True)
            return
        try:
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{self._headers}Connection: close\r\n\r\n"
            _write(sock, head.encode(), time.monotonic() + self._deadline_s)
            for part in parts:
                if self._closing:
                    return
                _write(sock, part, time.monotonic() + self._deadline_s)
        finally:
            self._stream_slots.release()
            parts.close()

    def _answer_to(self, head: bytes, body: bytes, connection: Connection, trusted: bool) -> Answer | Generator[bytes]:
        sock = connection.socket
        if trusted and credentials(sock).uid not in (0, os.geteuid()):
            return text_answer("only root may connect\n", 403)
        parts = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            return text_answer("not an HTTP/1 request\n", 400)
        if parts[0] == "POST" and self._tcp_settings.handler is not None and not trusted:
            if self._body_length(head) < 0:
                return text_answer(f"Content-Length must be a number up to {self._tcp_settings.max_body_bytes}\n", 413)
            with self._connections_by_trust[trusted].turn(connection):  # one at a time, which limits the memory
                return self._tcp_settings.handler(_fields(head), body)
        if parts[0] not in ("GET", "HEAD"):
            return text_answer("only GET and HEAD are supported\n", 405)
        try:
            target = urlsplit(parts[1])
            parameters = {name: values[-1] for name, values in parse_qs(target.query, max_num_fields=16).items()}
        except ValueError as error:
            return text_answer(f"not a path: {error}\n", 400)
        if self._guard is not None and not trusted:
            refusal = self._guard(target.path, _fields(head))
            if refusal is not None:
                return refusal
        if not trusted and target.path in self._streams:
            return self._streams[target.path](parameters)
        handlers = self._handlers_by_trust[trusted]
        handler = handlers.get(target.path)
        if handler is None:
            return text_answer(f"not found; existing paths: {', '.join(sorted(handlers))}\n", 404)
        try:
            return handler(parameters)
        except Exception as error:  # noqa: BLE001 - any error in a handler becomes status 500
            _log.exception("%s could not be answered", target.path)
            return text_answer(f"{type(error).__name__}\n", 500)


def _listen(address: str) -> socket.socket:
    name, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port[:6]) < 1 << 16):
        raise OSError(errno.EINVAL, "not HOST:PORT, for example 127.0.0.1:8080")
    host = name.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    dual_stack = host == "::" and socket.has_dualstack_ipv6()
    return socket.create_server(
        (host or "127.0.0.1", int(port)), family=family, backlog=_BACKLOG, dualstack_ipv6=dual_stack
    )


def _close_all(connections: Iterable[socket.socket | Connection]) -> None:
    for connection in connections:
        (connection.socket if isinstance(connection, Connection) else connection).close()


def _close_first(waiting: dict[Connection, float]) -> None:
    connection = next(iter(waiting))
    del waiting[connection]
    connection.socket.close()


def _wake_loop(waker: socket.socket) -> None:
    with suppress(OSError):  # the buffer is full, so the thread will wake anyway; or the server is closed
        waker.send(b"\0")


def _close_oldest(selector: selectors.BaseSelector, silent: dict[socket.socket, tuple[Connection, float]]) -> None:
    """Close the connection that has been silent the longest."""
    sock = next(iter(silent))
    del silent[sock]
    selector.unregister(sock)
    sock.close()


def _remaining_s(deadline: float) -> float:
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0:
        raise TimeoutError
    return remaining_s


def _read_head(sock: socket.socket, deadline: float) -> tuple[bytes, bytes]:
    """Read the request line and headers, and the bytes that followed. Raises OSError if they are late or too long."""
    data = b""
    while not (end := _HEAD_END.search(data)):
        sock.settimeout(_remaining_s(deadline))
        chunk = sock.recv(_MAX_HEAD_BYTES)
        data += chunk
        if not chunk or len(data) > _MAX_HEAD_BYTES:
            raise ConnectionAbortedError
    return data[: end.end()], data[end.end() :]


def _fields(head: bytes) -> dict[str, str]:
    """Return the headers of a request by lower-case name; of repeated headers, the last."""
    pairs = (line.partition(":") for line in head.decode("latin-1").splitlines()[1:])
    return {name.strip().lower(): value.strip() for name, colon, value in pairs if colon}


def _send(sock: socket.socket, answer: Answer, deadline: float, headers: str, *, body: bool) -> None:
    status, kind, content = answer
    head = (
        f"HTTP/1.1 {status} {_REASON_PHRASES.get(status, 'Unknown')}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(content)}\r\n{headers}Connection: close\r\n\r\n"
    )
    _write(sock, head.encode() + (content if body else b""), deadline)


def _write(sock: socket.socket, data: bytes, deadline: float) -> None:
    remaining = memoryview(data)
    while remaining:
        sock.settimeout(_remaining_s(deadline))
        remaining = remaining[sock.send(remaining) :]
