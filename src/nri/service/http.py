"""Answers over HTTP: on a unix socket, for root, and on a TCP address, for probes and Prometheus.

Rules: a connection is one request, of bounded length, in bounded time; there are never more than a few at once by
either way, and `nri.service.connections` says which. Streams last, and have places of their own; a reader that does not
take a part of one in time is dropped. A process that connects to the unix socket has to be root's, or of
the server's own user. Next: `nri.service.probes`, the paths that all programs have.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from nri.errors import NriError
from nri.service.connections import Connection, Connections
from nri.unix import UnixListener, credentials, make_folder

__all__ = ["Answer", "Guard", "Handler", "Server", "Stream", "json_answer", "text_answer"]

_log = logging.getLogger(__name__)

_MOST_REQUEST: Final = 8192
MOST_AT_ONCE: Final = 8
MOST_STREAMS: Final = 8
_DEADLINE_S: Final = 5.0
_WORDS: Final = {
    200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    429: "Too Many Requests", 500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip

#: Status, type of content, content.
Answer = tuple[int, str, bytes]
#: The parameters of a request, each the last of its name, to the answer.
Handler = Callable[[Mapping[str, str]], Answer]
#: The parameters of a request to the parts of its answer, server-sent events: each is sent as soon as it is there.
Stream = Callable[[Mapping[str, str]], Generator[bytes]]
#: A path, and the headers of a request by their names in small letters, to the answer of those who may not ask.
Guard = Callable[[str, Mapping[str, str]], Answer | None]


def text_answer(text: str, status: int = 200) -> Answer:
    """An answer of plain text."""
    return status, "text/plain; charset=utf-8", text.encode("utf-8", "replace")


def json_answer(value: Any, status: int = 200) -> Answer:
    """An answer of JSON, all of it ASCII."""
    return status, "application/json", json.dumps(value).encode()


class Server:
    """Listens from when it is made until `close`.

    Args:
        private: handlers by path for the unix socket.
        path: the unix socket; its folder is made if it is not there. Empty for none.
        public: handlers by path for TCP, for all processes that can connect.
        address: HOST:PORT for TCP; empty for none. Port 0 takes any.
        streams: streams by path for TCP. One that has nothing to say has to give an empty part each second.
        deadline_s: for one request and its answer together.
        guard: asked first, for each request over TCP.
        headers: of each answer over TCP, beside those that every answer has.

    Raises:
        NriError: the socket or the address cannot be listened on.
    """

    def __init__(
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
    ) -> None:
        self._guard = guard
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        self._handlers = {True: private or {}, False: public or {}}
        self._streams = streams or {}
        self._room_for_streams = threading.Semaphore(MOST_STREAMS)
        self._deadline_s = deadline_s
        # Places of their own: connections over TCP cannot keep root from asking.
        self._connections = {trusted: Connections(MOST_AT_ONCE) for trusted in (True, False)}
        self._closing = False
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
            taken = "another process listens there; choose another place, or end it"
            reason = taken if error.errno == errno.EADDRINUSE else error.strerror or error
            raise NriError(f"cannot listen on {where}: {reason}") from None
        for listener, trusted in self._listeners():
            threading.Thread(target=self.accept, args=(listener, trusted), name="nri-http", daemon=True).start()

    @property
    def port(self) -> int:
        """The TCP port; 0 without one."""
        return 0 if self._tcp is None else int(self._tcp.getsockname()[1])

    def close(self) -> None:
        """Stop listening; requests at hand are answered. A second time does nothing."""
        self._closing = True
        for listener, _ in self._listeners():
            try:
                listener.shutdown(socket.SHUT_RDWR)  # wakes `accept`, which closing alone does not
            except OSError:
                pass
        if self._unix is not None:
            self._unix.close()
        if self._tcp is not None:
            self._tcp.close()

    def _listeners(self) -> list[tuple[socket.socket, bool]]:
        """The sockets that listen, and whether a connection to each may see everything."""
        unix = [] if self._unix is None else [(self._unix.socket, True)]
        return unix if self._tcp is None else [*unix, (self._tcp, False)]

    def accept(self, listener: socket.socket, trusted: bool) -> None:
        """Answer what connects, until the listening socket is closed. `trusted`: by the handlers for root."""
        while not self._closing:
            try:
                connection, address = listener.accept()
            except OSError as error:
                if self._closing or listener.fileno() < 0:
                    return
                _log.warning("no connection can be accepted: %s", error)
                time.sleep(0.1)  # mostly no descriptors are left, which passes
                continue
            made = Connection(connection, str(address[0]) if isinstance(address, tuple) else "")
            if not self._connections[trusted].enter(made):
                connection.close()
                continue
            try:
                threading.Thread(target=self._serve, args=(made, trusted), name="nri-http", daemon=True).start()
            except RuntimeError as error:  # no threads are left for now
                _log.warning("no connection can be served: %s", error)
                self._connections[trusted].leave(made)
                connection.close()

    def _serve(self, connection: Connection, trusted: bool) -> None:
        sock, places = connection.socket, self._connections[trusted]
        try:
            with sock:
                deadline = time.monotonic() + self._deadline_s
                head = _read_head(sock, deadline)
                if not places.answer(connection):
                    return
                answer = self._answer(head, connection, trusted)
                if not isinstance(answer, tuple):
                    places.leave(connection)
                    self._stream(sock, answer)
                    return
                places.wait(connection)
                _send(sock, answer, deadline, "" if trusted else self._headers, body=not head.startswith(b"HEAD "))
        except OSError:
            pass  # it went away, or was too slow
        except Exception:  # noqa: BLE001 - one request never ends the others
            _log.exception("a request could not be answered")
        finally:
            places.leave(connection)

    def _stream(self, sock: socket.socket, parts: Generator[bytes]) -> None:
        """Send the parts of a stream, each in bounded time, until it or the server ends."""
        if not self._room_for_streams.acquire(blocking=False):
            full = text_answer(f"{MOST_STREAMS} pages look on already: close one\n", 503)
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
            self._room_for_streams.release()
            parts.close()

    def _answer(self, head: bytes, connection: Connection, trusted: bool) -> Answer | Generator[bytes]:
        sock = connection.socket
        if trusted and credentials(sock).uid not in (0, os.geteuid()):
            return text_answer("only root may ask\n", 403)
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return text_answer("not a request of HTTP/1\n", 400)
        if words[0] not in ("GET", "HEAD"):
            return text_answer("only GET\n", 405)
        try:
            target = urlsplit(words[1])
            given = {name: values[-1] for name, values in parse_qs(target.query, max_num_fields=16).items()}
        except ValueError as error:
            return text_answer(f"not a path: {error}\n", 400)
        if self._guard is not None and not trusted:
            refusal = self._guard(target.path, _fields(head))
            if refusal is not None:
                return refusal
        if not trusted and target.path in self._streams:
            return self._streams[target.path](given)
        handlers = self._handlers[trusted]
        handler = handlers.get(target.path)
        if handler is None:
            return text_answer(f"see {', '.join(sorted(handlers))}\n", 404)
        try:
            return handler(given)
        except Exception as error:  # noqa: BLE001 - nor does what is asked about
            _log.exception("%s could not be answered", target.path)
            return text_answer(f"{type(error).__name__}\n", 500)


def _listen(address: str) -> socket.socket:
    name, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port[:6]) < 1 << 16):
        raise OSError(errno.EINVAL, "not HOST:PORT, such as 127.0.0.1:8080")
    host = name.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host or "127.0.0.1", int(port)), family=family, backlog=128)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _read_head(sock: socket.socket, deadline: float) -> bytes:
    """The request's first lines. Raises OSError if they do not come in time, or are too long."""
    got = b""
    while b"\r\n\r\n" not in got and b"\n\n" not in got:
        sock.settimeout(_left(deadline))
        chunk = sock.recv(_MOST_REQUEST)
        got += chunk
        if not chunk or len(got) > _MOST_REQUEST:
            raise ConnectionAbortedError
    return got


def _fields(head: bytes) -> dict[str, str]:
    """The headers of a request, by their names in small letters; of two with one name the last."""
    pairs = (line.partition(":") for line in head.decode("latin-1").splitlines()[1:])
    return {name.strip().lower(): value.strip() for name, colon, value in pairs if colon}


def _send(sock: socket.socket, answer: Answer, deadline: float, headers: str, *, body: bool) -> None:
    status, kind, content = answer
    head = (
        f"HTTP/1.1 {status} {_WORDS.get(status, 'Unknown')}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(content)}\r\n{headers}Connection: close\r\n\r\n"
    )
    _write(sock, head.encode() + (content if body else b""), deadline)


def _write(sock: socket.socket, data: bytes, deadline: float) -> None:
    left = memoryview(data)
    while left:
        sock.settimeout(_left(deadline))
        left = left[sock.send(left) :]
